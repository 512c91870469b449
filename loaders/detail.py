"""Levels of detail: how much of a tool's definition a prompt has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from ..catalog import Tool
from .signature import signature


class Detail(IntEnum):
    """Levels of detail, from least to most."""

    NAME = 0
    """Only the id."""
    SUMMARY = 1
    """The id and a summary."""
    SIGNATURE = 2
    """The id and the arguments with types, without descriptions. Enough for a call."""
    FULL = 3
    """The whole definition."""


def definition_text(name: str, description: str, input_schema: Mapping[str, Any]) -> str:
    """A definition as compact JSON, as it is counted and written in messages.

    Args:
        name: the tool's id, or its name for the provider.
        description: the description.
        input_schema: JSON Schema of the arguments.
    """
    definition = {"name": name, "description": description, "input_schema": input_schema}
    return json.dumps(definition, ensure_ascii=False, separators=(",", ":"))


def describe(tool: Tool, detail: Detail, summary: str) -> str:
    """One line about a tool.

    Args:
        tool: the definition.
        detail: level of detail.
        summary: summary of the tool, see `Summaries.of`.
    """
    if detail is Detail.FULL:
        return definition_text(tool.id, tool.description, tool.input_schema)
    if detail is Detail.NAME:
        return tool.id
    arguments = signature(tool) if detail is Detail.SIGNATURE else ""
    return f"{tool.id}{arguments}: {summary}"
