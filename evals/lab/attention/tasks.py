"""The tasks: requests with the tools each of them takes, alone or as turns of a session."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from ....catalog import Catalog
from ....errors import EvaluationError

KINDS = ("single", "multi", "session")
"""One tool for one request; two to four for one; turns of a working day."""


@dataclass(frozen=True, slots=True)
class TaskTurn:
    """What a user says and what it takes.

    Args:
        user: the words.
        needed: ids of the tools the request takes, each once; none for small talk. Look-ups of
            ids that the request does not ask for are not among them.
        assistant: what is answered; "" where the task ends with the request.
    """

    user: str
    needed: tuple[str, ...]
    assistant: str = ""


@dataclass(frozen=True, slots=True)
class TaskScript:
    """A conversation: of one turn for a task that stands alone.

    Args:
        id: unique.
        kind: one of `KINDS`.
        turns: in order, at least one.
        scopes: what the account of a session's user may do, `server:read` and `server:write`.
    """

    id: str
    kind: str
    turns: tuple[TaskTurn, ...]
    scopes: tuple[str, ...] = ()


def load_scripts(catalog: Catalog) -> tuple[TaskScript, ...]:
    """All tasks, in the order of `KINDS`.

    Args:
        catalog: holds every tool that is needed.

    Raises:
        EvaluationError: a row is no task, or needs what the catalog lacks; names the line.
    """
    single = _read("single.jsonl", catalog, lambda row: _alone(row, "single"))
    multi = _read("multi.jsonl", catalog, lambda row: _alone(row, "multi"))
    return (*single, *multi, *_read("sessions.jsonl", catalog, _session))


def asked(scripts: Iterable[TaskScript]) -> int:
    """How many requests take a tool."""
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
