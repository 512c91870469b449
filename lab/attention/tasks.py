"""The tasks: requests with the tools that they need, alone or as turns of a session."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from ...catalog import Catalog
from ...errors import EvaluationError

KINDS = ("single", "multi", "session")
"""One tool for one request; two to four for one; turns of a working day."""


@dataclass(frozen=True, slots=True)
class TaskTurn:
    """A user's message and the tools that it needs.

    Args:
        user: text of the message.
        needed: ids of the needed tools, without duplicates; none for small talk. Tools that only
            look up ids for other calls are not included.
        assistant: the answer; "" if the task ends with the request.
    """

    user: str
    needed: tuple[str, ...]
    assistant: str = ""


@dataclass(frozen=True, slots=True)
class TaskScript:
    """A conversation of one or more turns.

    Args:
        id: unique id.
        kind: one of `KINDS`.
        turns: in order, at least one.
        scopes: scopes of the user's account, `server:read` and `server:write`.
    """

    id: str
    kind: str
    turns: tuple[TaskTurn, ...]
    scopes: tuple[str, ...] = ()


def load_scripts(catalog: Catalog) -> tuple[TaskScript, ...]:
    """All tasks, in the order of `KINDS`.

    Args:
        catalog: catalog with all needed tools.

    Raises:
        EvaluationError: a row is no task, or needs a missing tool. The message has the line.
    """
    single = _read("single.jsonl", catalog, lambda row: _alone(row, "single"))
    multi = _read("multi.jsonl", catalog, lambda row: _alone(row, "multi"))
    return (*single, *multi, *_read("sessions.jsonl", catalog, _session))


def asked(scripts: Iterable[TaskScript]) -> int:
    """Number of requests that need a tool."""
    return sum(bool(turn.needed) for script in scripts for turn in script.turns)


def _alone(row: Mapping[str, Any], kind: str) -> TaskScript:
    return TaskScript(row["id"], kind, (TaskTurn(row["request"], tuple(row["needed"])),))


def _session(row: Mapping[str, Any]) -> TaskScript:
    turns = tuple(TaskTurn(t["user"], tuple(t["needed"]), t["assistant"]) for t in row["turns"])
    return TaskScript(row["id"], "session", turns, tuple(row["scopes"]))


def _read(
    name: str, catalog: Catalog, script_of: Callable[[Mapping[str, Any]], TaskScript]
) -> list[TaskScript]:
    text = files(__package__).joinpath("tasks", name).read_text(encoding="utf-8")
    scripts = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            script = script_of(json.loads(line))
        except (ValueError, KeyError, TypeError) as error:
            raise EvaluationError(f"{name}: line {number}: no task: {error!r}") from error
        for turn in script.turns:
            if not turn.user.strip() or len(set(turn.needed)) < len(turn.needed):
                raise EvaluationError(f"{name}: line {number}: no words, or a tool named twice")
            if absent := [tool_id for tool_id in turn.needed if tool_id not in catalog]:
                raise EvaluationError(f"{name}: line {number}: no tool {absent[0]!r}")
        scripts.append(script)
    return scripts
