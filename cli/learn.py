"""`shortlist learn`: writes example queries from recorded queries and their tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import EvaluationError
from .console import counted, note, plain_table, show, write_json
from .options import CHECK_FAILED_EXIT, EngineSettingsOption, IndexOption, JsonOption, SourcesOption
from .tool_source import open_engine, read_labelled_queries

if TYPE_CHECKING:
    from rich.table import Table

    from ..engine import Engine
    from ..evals.learning import LearningReport
    from ..retrieval.usage import UsageEvent

_HOW_TO_RECORD_TEXTS = (
    "record the texts with `Recorder(..., content=True)`, or with `event_content` in the gateway"
)


def learn(
    events: Annotated[
        list[Path],
        typer.Argument(
            metavar="EVENTS",
            help="Events that sessions or the gateway recorded with content, or JSONL of queries "
            'and the tools that were right: {"query": ..., "tool": id}.',
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="JSONL file to write. Its rows from other sources are kept."
        ),
    ],
    index: IndexOption = None,
    tools: SourcesOption = None,
    config: EngineSettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write example queries from searches that led to a call.

    Only successful calls of approved tools count. Secrets and values of one request are left out.
    Nothing is written unless held-out queries of tools with events are answered better, and none
    are shown to be answered worse; otherwise the exit code is 3. Rows of earlier events are
    replaced, so give all events. Review the file, then name it in `[index] example_queries`.
    """
    from ..evals.learning import learn as learn_from

    engine = open_engine(index=index, tools=tools, config=config)
    usage = [event for path in events for event in _read_usage(engine, path)]
    report = learn_from(engine, usage)
    if report.accepted:
        _write_rows(report, out)
    if as_json:
        write_json(report.to_dict())
    else:
        _print_result(report, out)
    if not report.accepted:
        raise typer.Exit(CHECK_FAILED_EXIT)


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
        queries = counted(usage.without_text, "query", "queries")
        note(f"note: {path}: {queries} recorded as a hash only; {_HOW_TO_RECORD_TEXTS}")
    if usage.without_call:
        queries = counted(usage.without_call, "query", "queries")
        note(f"note: {path}: {queries} without a successful call")
    if not usage.events:
        advice = f"; {_HOW_TO_RECORD_TEXTS}" if usage.without_text else ""
        raise EvaluationError(f"{path}: no query with a tool that served it{advice}")
    return usage.events


def _write_rows(report: LearningReport, out: Path) -> None:
    """Write the rows after those of the file that are from other sources."""
    from ..catalog.text_file import replace_text_file
    from ..enrichment import read_example_queries
    from ..retrieval.example_queries import USAGE

    earlier = read_example_queries([out]) if out.exists() else ()
    rows = (*(row for row in earlier if row.source != USAGE), *report.rows)
    replace_text_file(out, (row.to_line() for row in rows))


_LEFT_OUT_BECAUSE = {
    "unknown": "no tool of theirs is in the catalog",
    "quarantined": "their tool is quarantined",
    "changed": "their tool had another definition",
    "private": "the query has a secret, or says nothing without values of one request",
}


def _print_result(report: LearningReport, out: Path) -> None:
    show(_change_table(report))
    for reason, count in report.left_out.items():
        note(f"note: {counted(count, 'event')} left out: {_LEFT_OUT_BECAUSE[reason]}")
    learned = f"{counted(report.events, 'event')} of {counted(report.tools, 'tool')}"
    if report.accepted:
        queries = counted(sum(len(row.queries) for row in report.rows), "query", "queries")
        typer.echo(f"{out}: {queries} from {learned}")
        note(f"note: review {out}, then name it in [index] example_queries")
    else:
        typer.echo(f"{out}: not written ({learned}): {report.reason}")


def _change_table(report: LearningReport) -> Table:
    from ..evals.learning import METRICS

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
