"""YAML read as JSON: no tags, no dates, bounded depth."""

from __future__ import annotations

from typing import Any

YAML_DEPTH = 200
"""Nesting of a YAML text; the composer below recurses in C, so the bound is checked on events first."""


def parse_yaml(text: str) -> Any:
    """A JSON value written as YAML; keys are read as text, dates stay text.

    Raises:
        ValueError: not YAML, more than one document, or nested too deep; says where.
    """
    raise ValueError("no YAML yet")
