"""A small catalog and engines over it that load no model."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from shortlist import Engine, Tool
from shortlist.gating import Gate, Rule, State
from shortlist.gating.admission import Admission
from shortlist.gating.gatekeeper import Gatekeeper
from shortlist.gating.quarantine import Quarantine
from shortlist.retrieval.catalog_index import Index


def small_catalog() -> list[Tool]:
    """Two servers, every annotation of MCP, a collision of ids and an id of one's own."""
    read, write = {"readOnlyHint": True}, {"readOnlyHint": False, "destructiveHint": False}
    return [
        Tool("search_issues", "github", "Find issues by words", annotations=read),
        Tool("get_pull_request", "github", "Read a pull request", annotations=read),
        Tool("create_issue", "github", "Create an issue", annotations=write),
        Tool("merge_pull_request", "github", "Merge a pull request"),
        Tool("delete_repository", "github", "Delete a repository for good"),
        Tool("search_messages", "slack", "Find messages by words", annotations=read),
        Tool("post_message", "slack", "Post a message to a channel", annotations=write),
        Tool("confirm_plan", "planner", "Have the plan confirmed by the user"),
        Tool("fetch", "web", "Read a web page", annotations={**read, "openWorldHint": True}),
        Tool("post_message", "slack", "Post another message to a channel"),
        Tool("clock", None, "Tell the time", annotations={**read, "openWorldHint": False}),
        Tool("run", "shell", "Run a command", id="my-shell"),
    ]


@pytest.fixture(scope="session")
def catalog() -> list[Tool]:
    """The small catalog."""
    return small_catalog()


def make_engine(*rules: Rule, tools: Any = None, **gate: Any) -> Engine:
    """A lexical engine over the small catalog with these rules."""
    given = small_catalog() if tools is None else tools
    return Engine.from_tools(given, tiers=["lexical"], gate=Gate(rules, **gate))


@pytest.fixture(scope="session")
def engine() -> Callable[..., Engine]:
    """Makes an engine, see `make_engine`."""
    return make_engine


@pytest.fixture(scope="session")
def admit() -> Callable[..., Admission]:
    """Makes the admission of a state under rules, see `admission_of`."""
    return admission_of


@cache
def _index() -> Index:
    return Engine.from_tools(small_catalog(), tiers=["lexical"])._version.index


def admission_of(*rules: Rule, state: State | None = None, allowed: Any = None) -> Admission:
    """The admission of a state under rules, over an index that is built once."""
    return Gatekeeper(Gate(rules)).admission(_index(), Quarantine(), state, allowed)
