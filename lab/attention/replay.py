"""Replays the tasks with an arm, and computes the figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from .arm import Arm, ShownTools
from .tasks import KINDS, TaskScript
from .transcript import Paid, Prices, TextTokens, Transcript

LONG = 30
"""Turns of a long session, over which its cost is averaged and at the end of which its use of the
context is told."""
TASK_TOKENS = 14_900
"""Tokens of a task at turn 30 that the published shares of three arms imply; see `utilisation`."""


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """Figures of one turn.

    Args:
        script: script of the task.
        kind: kind of the task.
        number: of the turn, from 1.
        asked: number of tools that the turn needs.
        offered: how many of them could be called.
        typed: how many of them had all types in the prompt.
        visible: how many of them had at least their name in the prompt.
        tools: number of all tools that could be called.
        extra_calls: see `Shown`.
        paid: tokens of the tools.
    """

    script: str
    kind: str
    number: int
    asked: int
    offered: int
    typed: int
    visible: int
    tools: int
    extra_calls: int
    paid: Paid


def replay(
    arm: Arm,
    scripts: Iterable[TaskScript],
    count: TextTokens,
    prices: Prices,
    *,
    watch: Callable[[ShownTools], None] | None = None,
) -> list[TurnOutcome]:
    """Replay every turn of every task with an arm.

    Args:
        arm: shows the tools.
        scripts: the tasks.
        count: counts tokens.
        prices: the price rule.
        watch: called with the shown tools of every turn.
    """
    outcomes = []
    for script in scripts:
        running, transcript = arm.begin(script), Transcript(count, prices)
        for number, turn in enumerate(script.turns, 1):
            shown = running.show(turn)
            if watch is not None:
                watch(shown)
            outcomes.append(
                TurnOutcome(
                    script.id,
                    script.kind,
                    number,
                    len(turn.needed),
                    sum(tool_id in shown.offered for tool_id in turn.needed),
                    sum(tool_id in shown.typed for tool_id in turn.needed),
                    sum(tool_id in shown.visible for tool_id in turn.needed),
                    len(shown.offered),
                    shown.extra_calls,
                    transcript.turn(shown, turn),
                )
            )
            running.done(turn)
    return outcomes


def utilisation(tools: float, task: float) -> float:
    """Effective context utilisation: the share of a prompt that is the task.

    The paper's formula, C_task / (C_task + tools + C_sys), with the tool tokens of one turn's
    prompt and without a system prompt. The paper writes a total over turns for the tools; its own
    figures follow from one turn's.
    """
    return task / (task + tools)


def figures(outcomes: Sequence[TurnOutcome]) -> dict[str, Any]:
    """The figures of the turns.

    Returns:
        `coverage`, the share of requests with every tool they take offered, in all and by kind of
        task; `typed`, the share with the types of all their arguments there; `visible`, with their
        names there; `tool_recall`, the share of tools offered; `turns` and `kinds`, per turn;
        `long`, the first 30 turns of each session that has them.
    """
    asked = [one for one in outcomes if one.asked]
    long = _long(outcomes)
    return {
        "requests": len(asked),
        "coverage": _coverage(asked),
        "typed": fmean(one.typed == one.asked for one in asked),
        "visible": fmean(one.visible == one.asked for one in asked),
        "tool_recall": sum(one.offered for one in asked) / sum(one.asked for one in asked),
        "kinds": {
            kind: _turns([one for one in outcomes if one.kind == kind])
            for kind in KINDS
            if any(one.kind == kind for one in outcomes)
        },
        "turns": _turns(outcomes),
        "long": [_session(one) for one in long],
        "long_tokens": fmean(one.paid.tokens for session in long for one in session)
        if long
        else None,
        "long_cached": fmean(one.paid.cached for session in long for one in session)
        if long
        else None,
        "long_uncached": fmean(one.paid.uncached for session in long for one in session)
        if long
        else None,
        "utilisation": fmean(utilisation(one[-1].paid.tokens, TASK_TOKENS) for one in long)
        if long
        else None,
    }


def brief(found: dict[str, Any]) -> dict[str, Any]:
    """The figures without those of single turns."""
    return {name: value for name, value in found.items() if name != "long"}


def _long(outcomes: Sequence[TurnOutcome]) -> list[list[TurnOutcome]]:
    sessions: dict[str, list[TurnOutcome]] = {}
    for one in outcomes:
        sessions.setdefault(one.script, []).append(one)
    return [turns[:LONG] for turns in sessions.values() if len(turns) >= LONG]


def _coverage(asked: Sequence[TurnOutcome]) -> float:
    return fmean(one.offered == one.asked for one in asked)


def _turns(outcomes: Sequence[TurnOutcome]) -> dict[str, Any]:
    asked = [one for one in outcomes if one.asked]
    return {
        "turns": len(outcomes),
        "coverage": _coverage(asked),
        "tokens": fmean(one.paid.tokens for one in outcomes),
        "cached": fmean(one.paid.cached for one in outcomes),
        "uncached": fmean(one.paid.uncached for one in outcomes),
        "changed_bytes": fmean(one.paid.changed_bytes for one in outcomes),
        "tools": fmean(one.tools for one in outcomes),
        "extra_calls": fmean(one.extra_calls for one in outcomes),
    }


def _session(turns: Sequence[TurnOutcome]) -> dict[str, Any]:
    """One session's first 30 turns, turn by turn and in all."""
    return {
        "script": turns[0].script,
        "tokens": [one.paid.tokens for one in turns],
        "cached": [round(one.paid.cached, 1) for one in turns],
        "tokens_total": sum(one.paid.tokens for one in turns),
        "cached_total": sum(one.paid.cached for one in turns),
        "changed_bytes_total": sum(one.paid.changed_bytes for one in turns),
        "words": turns[-1].paid.words,
        "utilisation_of_words": utilisation(turns[-1].paid.tokens, turns[-1].paid.words),
    }
