"""Options for the state of the agent, and how refusals are printed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import usage

if TYPE_CHECKING:
    from ..gating import Refusal, State

ScopeOption = Annotated[
    list[str] | None,
    typer.Option("--scope", metavar="NAME", help="Scope granted to the agent; repeatable."),
]
CalledOption = Annotated[
    list[str] | None,
    typer.Option("--called", metavar="ID", help="Id of a tool that the agent called; repeatable."),
]
MilestoneOption = Annotated[
    list[str] | None,
    typer.Option(
        "--milestone", metavar="NAME", help="Milestone that the agent reached; repeatable."
    ),
]
FactOption = Annotated[
    list[str] | None,
    typer.Option(
        "--fact",
        metavar="NAME[=VALUE]",
        help="Fact about the agent. The value is a number, true, false or text; true by default. "
        "Repeatable.",
    ),
]


def read_state(
    scopes: list[str] | None,
    called: list[str] | None,
    milestones: list[str] | None,
    facts: list[str] | None,
) -> State:
    """The state that the options give.

    Raises:
        BadParameter: an empty name.
    """
    from ..gating import State

    with usage("--scope, --called, --milestone, --fact"):
        return State(
            frozenset(scopes or ()),
            tuple(called or ()),
            frozenset(milestones or ()),
            dict(_fact(text) for text in facts or ()),
        )


def refusal_lines(refusals: Iterable[Refusal]) -> list[str]:
    """A line for each reason: the tools, the reason, what unlocks them."""
    tools: dict[str, list[str]] = {}
    for refusal in refusals:
        tools.setdefault(f"{refusal.reason}{unlocking(refusal)}", []).append(refusal.tool_id)
    return [f"  {', '.join(ids)}: {reason}" for reason, ids in tools.items()]


def unlocking(refusal: Refusal) -> str:
    """What unlocks a tool, as an ending of its line."""
    return f"; unlocked by {', '.join(refusal.unlocked_by)}" if refusal.unlocked_by else ""


def _fact(text: str) -> tuple[str, Any]:
    name, given, value = text.partition("=")
    if not name:
        raise typer.BadParameter(f"--fact {text!r:.80}: no name; write NAME or NAME=VALUE")
    if not given:
        return name, True
    try:
        read = json.loads(value)
    except ValueError:
        return name, value
    return name, read if isinstance(read, str | bool | int | float) else value
