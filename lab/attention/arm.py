"""Protocol of an arm of the benchmark: a method of showing tools to a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from .tasks import TaskScript, TaskTurn


@dataclass(frozen=True, slots=True)
class ShownTools:
    """The prompt's texts about tools in one turn, and the tools that the model can call.

    Args:
        head: texts before the conversation.
        batches: texts within the conversation, oldest first, each at the position where it was
            added.
        tail: texts right before the user's message. The next turn has others.
        offered: ids of the tools that can be called. The prompt has their arguments' names, and the
            types of required ones.
        typed: ids of the offered tools with the types of all arguments.
        visible: ids of the tools with at least their name in the prompt.
        extra_calls: number of further model calls before the turn's tools are in the prompt.
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
        """The tools in a turn's prompt. Only an oracle may read more than the message."""
        ...

    def done(self, turn: TaskTurn) -> None:
        """Called when the agent has called its tools and has answered."""
        ...


class Arm(Protocol):
    """A method of showing tools."""

    def begin(self, script: TaskScript) -> Running:
        """Start a conversation. Only the script's scopes may be read."""
        ...


class Stateless:
    """A conversation of an arm without state."""

    def done(self, turn: TaskTurn) -> None:
        """Do nothing."""


def text_of(parts: Sequence[str]) -> str:
    """Definitions as one text, a line each."""
    return "".join(f"{part}\n" for part in parts)
