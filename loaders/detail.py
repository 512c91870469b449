"""Levels of detail: how much of a tool's definition stands in a prompt."""

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
    """The id."""
    SUMMARY = 1
    """And its summary."""
    SIGNATURE = 2
    """And its arguments with their types, without prose: enough to call it."""
    FULL = 3
    """The whole definition."""


def definition_text(name: str, description: str, input_schema: Mapping[str, Any]) -> str:
    """A definition as it is counted and written in messages: compact JSON.

    Args:
        name: a tool's id, or what a provider calls it.
        description: its text.
        input_schema: of its arguments.
    """
    definition = {"name": name, "description": description, "input_schema": input_schema}
    return json.dumps(definition, ensure_ascii=False, separators=(",", ":"))


def describe(tool: Tool, detail: Detail, summary: str) -> str:
    """One line about a tool.

    Args:
        tool: the definition.
        detail: how much of it.
        summary: of the tool, see `Summaries.of`.
    """
    if detail is Detail.FULL:
        return definition_text(tool.id, tool.description, tool.input_schema)
    if detail is Detail.NAME:
        return tool.id
    arguments = signature(tool) if detail is Detail.SIGNATURE else ""
    return f"{tool.id}{arguments}: {summary}"
