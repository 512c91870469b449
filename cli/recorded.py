"""A decision that was recorded, read back in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import EventError
from .console import counted, note, plain_table, show, write_json
from .search import score_text

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

Row = Mapping[str, Any]

_CUT = 10


def explain_recorded(path: Path, turn_id: str | None, *, as_json: bool) -> None:
    """Show what was decided in one turn: the tools offered, how they were shown, the calls.

    Args:
        path: path of a file of events.
        turn_id: id of the turn; the last one recorded when absent.
        as_json: whether to write the events themselves.

    Raises:
        EventError: the file cannot be read, or has no event of this turn.
    """
    rows = _rows_of(path, turn_id)
    if as_json:
        write_json(rows)
        return
    for row in rows:
        try:
            _show(row)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise EventError(
                f"{path}: an event of turn {row['turn_id']} is damaged: {error!r}"
            ) from error


def _show(row: Row) -> None:
    match row["kind"]:
        case "turn":
            _show_turn(row)
        case "call":
            show(_call_text(row))
        case "prompt":
            show(_prompt_text(row))
        case other:
            note(f"an event of kind {other!r}, which this version does not know")


def _rows_of(path: Path, turn_id: str | None) -> list[Row]:
    """The events of a turn; what other sessions recorded in between is passed over."""
    from ..session.event_log import read_events

    last: str | None = None
    for row in read_events(path):
        if isinstance(row, EventError):
            note(f"skipped: {row}")
        else:
            last = row["turn_id"]
    if last is None:
        raise EventError(f"{path}: no events; docs/events.md explains how to record them")
    wanted = last if turn_id is None else turn_id
    rows: list[Row] = [
        row
        for row in read_events(path)
        if not isinstance(row, EventError) and row["turn_id"] == wanted
    ]
    if not rows:
        raise EventError(f"{path}: no turn {turn_id!r}; the last one is {last!r}")
    return rows


def _show_turn(row: Row) -> None:
    from rich.text import Text

    abstained = bool(row.get("abstained"))
    text = Text.assemble(
        (f"turn {row['turn_id']}", "bold"),
        f" at {row.get('at')}",
        f", after a call of {row['called']}" if row.get("called") else "",
        "\n",
        (_outcome(row), "yellow" if abstained else "green"),
    )
    for line in _details(row):
        text.append(f"\n{line}")
    if row.get("candidates"):
        show(text, "", _candidates(row))
    else:
        show(text)
    ending = "\n".join(_endings(row))
    if ending:
        show(ending)


def _outcome(row: Row) -> str:
    if row.get("abstained"):
        return f"nothing offered: {row.get('reason')}"
    offered = row.get("offered", ())
    dropped = f", {row['dropped']} below the threshold" if row.get("dropped") else ""
    return f"{counted(len(offered), 'tool')} offered{dropped}"


def _details(row: Row) -> Iterator[str]:
    if row.get("tier_reason"):
        yield f"asked for {row.get('tier_asked')}, ran {row.get('tier')}: {row['tier_reason']}"
    if row.get("fits") is not None:
        yield f"the probability that any tool fits: {row['fits']:.3f}"
    if row.get("searches"):
        intents = row.get("intents", 1)
        parts = f", {intents} parts with tools of their own" if intents > 1 else ""
        yield (
            f"{row['searches']} searches in tier {row.get('tier')}{parts}; "
            f"what was said before weighs {row.get('context', 0):.2f}"
        )
    if content := row.get("content"):
        yield "searched for: " + " | ".join(content.get("queries", ()))
    else:
        yield f"request {row.get('query')} (hash), catalog {str(row.get('catalog'))[:12]}"


def _candidates(row: Row) -> Table:
    offered, added = set(row.get("offered", ())), set(row.get("added", ()))
    table = plain_table("#", "tool", "score", "", right={"#", "score"})
    shown = [one for at, one in enumerate(row["candidates"]) if at < _CUT or one["id"] in offered]
    for number, one in enumerate(shown, 1):
        standing = "new" if one["id"] in added else "offered" if one["id"] in offered else ""
        score = "–" if one["score"] is None else score_text(one["score"])
        table.add_row(str(number), one["id"], score, standing, style="" if standing else "dim")
    return table


def _endings(row: Row) -> Iterator[str]:
    active = row.get("active", ())
    tokens = "" if row.get("tokens") is None else f", {row['tokens']:,} tokens"
    yield f"active: {counted(len(active), 'tool')}{tokens}: {_listed(active)}"
    for left in row.get("left", ()):
        yield f"left: {left['tool']} ({left['kind']}): {left['reason']}"
    if row.get("changed"):
        yield f"changed definition: {_listed(row['changed'])}"
    held = row.get("denied", {})
    if held.get("count"):
        yield f"denied: {counted(held['count'], 'tool')}; the nearest:"
        yield from (f"  {_denied(one)}" for one in held.get("nearest", ()))
    timings = row.get("timings", {})
    yield ", ".join(f"{stage} {ms:.1f} ms" for stage, ms in timings.items() if ms is not None)


def _call_text(row: Row) -> Text:
    from rich.text import Text

    passed = row.get("status") == "passed"
    text = Text.assemble(
        ("call of ", ""),
        (str(row.get("tool")), "bold"),
        f" at {row.get('at')}: ",
        (_verdict(row), "green" if passed else "yellow"),
    )
    for problem in row.get("problems", ()):
        text.append(f"\n  {problem['path'] or 'arguments'}: expected {problem['expected']}")
    return text


def _verdict(row: Row) -> str:
    status = row.get("status")
    if status == "passed":
        return "went ahead"
    if status == "promoted":
        return "was not offered; now it is, and the model was given its schema"
    if status == "invalid":
        return "its arguments do not fit"
    if row.get("denied"):
        return _denied(row["denied"], named=False)
    return f"there is no such tool; nearest: {_listed(row.get('nearest', ())) or 'none'}"


def _prompt_text(row: Row) -> str:
    lines = [
        f"prompt at {row.get('at')}: {row.get('phase1_tokens'):,} tokens of the pool, "
        f"{row.get('phase2_tokens'):,} of the tools promoted, "
        f"{row.get('changed_bytes'):,} bytes read anew"
    ]
    if details := row.get("details"):
        lines.append("  " + ", ".join(f"{one} {level}" for one, level in details.items()))
    lines.extend(f"  missing: {one}: {why}" for one, why in row.get("missing", {}).items())
    if row.get("left_out"):
        lines.append(f"  no room for: {_listed(row['left_out'])}")
    return "\n".join(lines)


def _denied(denied: Row, *, named: bool = True) -> str:
    unlocked = denied.get("unlocked_by")
    ending = f"; unlocked by {_listed(unlocked)}" if unlocked else ""
    return f"{denied['tool'] if named else 'denied'}: {denied['reason']}{ending}"


def _listed(ids: Sequence[str]) -> str:
    return ", ".join(ids)
