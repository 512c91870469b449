"""`shortlist learn`: improves an index from queries and the tools that were right for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import EvaluationError
from .console import counted, note, plain_table, show, write_json
from .options import EngineSettingsOption, JsonOption
from .tool_source import open_engine, read_labelled_queries

if TYPE_CHECKING:
    from rich.table import Table

    from ..engine import Engine
    from ..retrieval.learning import LearningReport
    from ..retrieval.usage import UsageEvent

_REFUSED_EXIT = 3
_HOW_TO_RECORD_TEXTS = (
    "record the texts with `Recorder(..., content=True)`, or with `event_content` in the gateway"
)


def learn(
    index: Annotated[Path, typer.Option(metavar="FOLDER", help="Index to improve.")],
    events: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="EVENTS",
            help="Events that sessions or the gateway recorded with content, or JSONL of queries "
            'and the tools that were right: {"query": ..., "tool": id}.',
        ),
    ] = None,
    config: EngineSettingsOption = None,
    forget: Annotated[bool, typer.Option("--forget", help="Remove what was learned.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Improve an index from queries and the tools that were right.

    The index changes only if held-out queries of tools with events are answered better and none
    are shown to be answered worse; otherwise the exit code is 3. What was learned before is
    replaced, so give all events.
    """
    if bool(events) == forget:
        raise typer.BadParameter("give either EVENTS or --forget")
    engine = open_engine(index=index, config=config)
    if not events:
        _forget(engine, index, as_json)
        return
    report = engine.learn([event for path in events for event in _read_usage(engine, path)])
    if report.accepted:
        engine.save(index)
    if as_json:
        write_json(report.to_dict())
    else:
        _print_result(report, index)
    if not report.accepted:
        raise typer.Exit(_REFUSED_EXIT)


def _read_usage(engine: Engine, path: Path) -> list[UsageEvent]:
    """The queries of a file, of either form, and the tools that were right.

    Raises:
        EvaluationError: the file cannot be read, or has nothing to learn from.
    """
    from ..evals.dataset import file_lines
    from ..session import read_events, usage_of_events

    first_line = next(file_lines(path), (0, b""))[1]
    if b'"turn_id"' not in first_line:
        return read_labelled_queries(engine, [path])
    usage = usage_of_events(read_events(path))
    for problem in usage.problems:
        note(f"note: {problem}")
    if usage.without_text:
        queries = counted_queries(usage.without_text)
        note(f"note: {path}: {queries} recorded as a hash only; {_HOW_TO_RECORD_TEXTS}")
    if usage.without_call:
        note(f"note: {path}: {counted_queries(usage.without_call)} without a successful call")
    if not usage.events:
        advice = f"; {_HOW_TO_RECORD_TEXTS}" if usage.without_text else ""
        raise EvaluationError(f"{path}: no query with a tool that served it{advice}")
    return usage.events


def counted_queries(number: int) -> str:
    """A number of queries, with the noun."""
    return f"{number:,} query" if number == 1 else f"{number:,} queries"


def _forget(engine: Engine, index: Path, as_json: bool) -> None:
    dropped: dict[str, Any] | None = dict(engine.learned) if engine.learned else None
    if dropped is not None:
        engine.forget()
        engine.save(index)
    if as_json:
        write_json({"forgotten": dropped})
    elif dropped is None:
        typer.echo(f"{index}: nothing was learned")
    else:
        typer.echo(f"{index}: removed what was learned from {counted(dropped['events'], 'event')}")


def _print_result(report: LearningReport, index: Path) -> None:
    show(_change_table(report))
    learned = f"{counted(report.events, 'event')} of {counted(report.tools, 'tool')}"
    if report.accepted:
        typer.echo(f"{index}: learned from {learned}; --forget removes it")
    else:
        typer.echo(f"{index}: not changed ({learned}): {report.reason}")


def _change_table(report: LearningReport) -> Table:
    from ..retrieval.learning import METRICS

    numbers = ("queries", "before", "after", "change", "95 % interval")
    table = plain_table("held-out queries for", "metric", *numbers, right=set(numbers))
    for name, kind in (("tools with events", report.seen), ("tools without", report.unseen)):
        for at, metric in enumerate(METRICS):
            table.add_row(
                name if at == 0 else "",
                metric,
                f"{kind.events:,}" if at == 0 else "",
                f"{kind.before[at]:.1%}",
                f"{kind.after[at]:.1%}",
                f"{100 * kind.change[at]:+.1f}",
                f"{100 * kind.low[at]:+.1f} to {100 * kind.high[at]:+.1f}",
            )
    return table
