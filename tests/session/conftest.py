"""A catalog of several servers, and engines over it that load no model."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shortlist import Engine, Tool
from shortlist.gating import Gate, Rule, requires_scope

_ACTIONS = ("list", "read", "create", "delete", "share", "search")
_THINGS = {
    "mail": ("message", "draft"),
    "calendar": ("event", "reminder"),
    "files": ("folder", "document"),
    "weather": ("forecast", "storm"),
    "music": ("song", "playlist"),
}
_SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "count": {"type": "integer", "minimum": 1}},
    "required": ["id"],
    "additionalProperties": False,
}


def some_tools() -> list[Tool]:
    """Sixty tools of five servers."""
    return [
        Tool(f"{action}_{thing}", server, f"{action.capitalize()} a {thing} of the user", _SCHEMA)
        for server, things in _THINGS.items()
        for thing in things
        for action in _ACTIONS
    ]


def make_engine(*rules: Rule, tools: list[Tool] | None = None) -> Engine:
    """A lexical engine with these rules."""
    return Engine.from_tools(
        some_tools() if tools is None else tools, tiers=["lexical"], gate=Gate(rules)
    )


@pytest.fixture(scope="session")
def engine() -> Engine:
    """An engine without rules; do not update its catalog."""
    return make_engine()


@pytest.fixture(scope="session")
def gated() -> Engine:
    """An engine in which deleting takes a scope."""
    return make_engine(Rule(requires_scope("delete"), tools=["*/delete_*"]))


@pytest.fixture(scope="session")
def fresh_engine() -> Callable[..., Engine]:
    """Makes an engine of one's own, see `make_engine`."""
    return make_engine


@pytest.fixture(scope="session")
def tools() -> list[Tool]:
    """The tools of these engines."""
    return some_tools()
