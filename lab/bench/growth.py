"""Synthetic growth: more tools than there are, recombined from real ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...catalog import Tool
from ...errors import EvaluationError

TOOLS_PER_SERVER = 20
"""Tools of one synthetic server; 600 crawled real ones average 7, the demo's six average 20."""

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_DEFINITIONS = ("$defs", "definitions")


def grow(tools: Sequence[Tool], count: int, *, seed: int = 0) -> tuple[Tool, ...]:
    """The first `count` tools, or all of them and as many synthetic ones as are missing.

    A synthetic tool takes the first half of its name, description and parameters from one real
    tool and the second half from another, so that lengths, words and schemas stay those of real
    tools while no text is there twice. It is deterministic, and growing further only appends.

    Args:
        tools: real tools, at least two where growth is needed.
        count: how many tools are wanted.
        seed: random seed of the draw of pairs.

    Raises:
        EvaluationError: there are fewer than two tools to recombine.
    """
    real = tuple(tools[:count])
    if len(real) == count:
        return real
    if len(real) < 2:
        raise EvaluationError(f"growing to {count} tools takes at least 2 real ones")
    generator = np.random.default_rng(seed)
    grown = []
    for number in range(count - len(real)):
        first, second = generator.integers(0, len(real), 2).tolist()
        grown.append(recombine(real[first], real[second], number))
    return real + tuple(grown)


def recombine(first: Tool, second: Tool, number: int) -> Tool:
    """The synthetic tool of this number: the first half of one tool, the second half of another."""
    head, tail = _WORDS.findall(first.name), _WORDS.findall(second.name)
    words = [*head[: (len(head) + 1) // 2], *tail[len(tail) // 2 :], str(number)]
    return Tool(
        "_".join(words).lower()[:200],
        f"synthetic-{number // TOOLS_PER_SERVER:04d}",
        _halves(_SENTENCE_END.split(first.description), _SENTENCE_END.split(second.description)),
        _schema(first.input_schema, second.input_schema),
    )


def _halves(first: Sequence[str], second: Sequence[str]) -> str:
    return " ".join([*first[: (len(first) + 1) // 2], *second[(len(second) + 1) // 2 :]])


def _schema(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    head, tail = _properties(first), _properties(second)
    properties = dict([*head[: (len(head) + 1) // 2], *tail[(len(tail) + 1) // 2 :]])
    listed = [name for schema in (first, second) for name in schema.get("required") or ()]
    required = [name for name in dict.fromkeys(listed) if name in properties]
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    for keyword in _DEFINITIONS:
        if definitions := {**second.get(keyword, {}), **first.get(keyword, {})}:
            schema[keyword] = definitions
    return schema


def _properties(schema: dict[str, Any]) -> list[tuple[str, Any]]:
    properties = schema.get("properties")
    return list(properties.items()) if isinstance(properties, dict) else []
