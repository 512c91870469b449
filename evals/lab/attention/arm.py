"""What an arm of the benchmark is: a way of showing tools to a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from .tasks import TaskScript, TaskTurn


@dataclass(frozen=True, slots=True)
class ShownTools:
    """What stands in the prompt about tools in one turn, and what it lets a model do.

    Args:
        head: texts before the conversation.
        batches: texts within it, oldest first, each where it was when it was first shown.
        tail: texts right before what the user says; the next turn has others.
        offered: ids of the tools that can be called: the names of their arguments are there, with
            the types of those required.
        typed: those of them whose arguments are all there with their types.
        visible: ids that are there at least by name.
        extra_calls: further calls of the model that the turn takes before its tools are there.
    """

    head: tuple[str, ...]
    batches: tuple[str, ...] = ()
    tail: tuple[str, ...] = ()
    offered: frozenset[str] = frozenset()
    typed: frozenset[str] = frozenset()
    visible: frozenset[str] = frozenset()
    extra_calls: int = 0


class Running(Protocol):
    """An arm in one conversation."""

    def show(self, turn: TaskTurn) -> ShownTools:
        """The prompt's tools for a turn. Nothing but the words may be read, except by an oracle."""
        ...

    def done(self, turn: TaskTurn) -> None:
        """The agent called the tools that it needed and could call or name, and answered."""
        ...


class Arm(Protocol):
    """A way of showing tools."""

    def begin(self, script: TaskScript) -> Running:
        """Start a conversation. Of the script only the scopes may be read."""
        ...


class Stateless:
    """A conversation of an arm that keeps nothing from turn to turn."""

    def done(self, turn: TaskTurn) -> None:
        """Nothing is kept."""


def text_of(parts: Sequence[str]) -> str:
    """Definitions as one text, a line each."""
    return "".join(f"{part}\n" for part in parts)
