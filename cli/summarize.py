"""`shortlist summarize`: one line per tool, offline or by a language model."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .console import counted, note, plain_table, progress, show, write_json
from .options import ConfigOption, JsonOption, QuarantinedOption
from .source import read_offered

if TYPE_CHECKING:
    from ..catalog import Catalog
    from ..loaders.summaries import SummaryRow

_INCOMPLETE = 1


def register(app: typer.Typer) -> None:
    """Add the command to an application."""
    app.command("summarize")(summarize)


def summarize(
    tools: Annotated[
        list[Path], typer.Argument(metavar="TOOLS", help="Files or folders of tools.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="FILE", help="JSONL to write; rows that still hold are kept."
        ),
    ],
    command: Annotated[
        str | None,
        typer.Option(
            "--command",
            metavar="CMD",
            help="Shell command that reads a prompt on stdin and answers on stdout; without one, "
            "summaries are made offline.",
        ),
    ] = None,
    overrides: Annotated[
        Path | None,
        typer.Option(
            "--overrides",
            metavar="FILE",
            help="Summaries by hand: JSON of id to summary, or JSONL.",
        ),
    ] = None,
    workers: Annotated[
        int, typer.Option("--workers", min=1, help="Prompts under way at a time.")
    ] = 4,
    config: ConfigOption = None,
    quarantined: QuarantinedOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write a summary of every tool, by definition; a run that was interrupted goes on.

    Quarantined tools are left out unless asked for.

    Exits with 1 if the command answered nothing usable for some tool: these keep their offline
    summary and are asked again next time.
    """
    from ..catalog import Catalog
    from ..loaders.summaries import SummaryRow, read_rows

    catalog, left_out = read_offered(None, tools, config)
    if left_out and not quarantined:
        catalog = Catalog(tool for tool in catalog if tool.id not in left_out)
    by_hand = list(read_rows(overrides)) if overrides else []
    kept = _still_true(catalog, read_rows(out) if out.exists() else ())
    failures: dict[str, str] = {}
    if command is not None:
        kept, failures = _ask(catalog, kept, command, out, workers)
    rows = [_row(tool, kept) for tool in catalog]
    by_hand = [SummaryRow(row.id, row.fingerprint, row.summary, "hand") for row in by_hand]
    _replace(out, [*sorted(rows), *by_hand])
    _tell(catalog, out, failures, as_json)
    if failures:
        raise typer.Exit(_INCOMPLETE)


def _still_true(catalog: Catalog, rows: Iterable[SummaryRow]) -> dict[str, SummaryRow]:
    """Rows that a model wrote for a definition the catalog holds, by fingerprint."""
    current = {tool.fingerprint for tool in catalog}
    return {
        row.fingerprint: row
        for row in rows
        if row.fingerprint in current and row.source == "model" and row.fingerprint is not None
    }


def _row(tool: Any, kept: dict[str, SummaryRow]) -> SummaryRow:
    from ..loaders.summaries import SummaryRow
    from ..loaders.summary import summarize as offline

    if row := kept.get(tool.fingerprint):
        return row._replace(id=tool.id)
    return SummaryRow(tool.id, tool.fingerprint, offline(tool), "offline")


def _ask(
    catalog: Catalog, kept: dict[str, SummaryRow], command: str, out: Path, workers: int
) -> tuple[dict[str, SummaryRow], dict[str, str]]:
    """The rows there are now, and why a tool has none; each is on disk as soon as it is there."""
    from ..language_model import command_model
    from ..loaders.summaries import SummaryRow
    from ..loaders.summarizer import write_summaries

    missing = {tool.fingerprint: tool for tool in catalog if tool.fingerprint not in kept}
    failures: dict[str, str] = {}
    _replace(out, kept.values())
    with out.open("a", encoding="utf-8") as file, progress("summarizing tools") as report:
        outcomes = write_summaries(missing.values(), command_model(command), workers=workers)
        for done, outcome in enumerate(outcomes, 1):
            report(done, len(missing))
            if isinstance(outcome, SummaryRow):
                file.write(outcome.to_json() + "\n")
                file.flush()
                kept[str(outcome.fingerprint)] = outcome
            else:
                failures[outcome[0].id] = outcome[1]
    return kept, failures


def _replace(out: Path, rows: Iterable[SummaryRow]) -> None:
    """Write the rows in one step, so that an interruption leaves the old file or the new one."""
    partial = out.with_name(f"{out.name}.partial")
    partial.write_text("".join(row.to_json() + "\n" for row in rows), encoding="utf-8")
    partial.replace(out)


def _tell(catalog: Catalog, out: Path, failures: dict[str, str], as_json: bool) -> None:
    from ..loaders.summaries import Summaries

    for tool_id, reason in failures.items():
        note(f"note: {tool_id}: {reason}")
    lengths = _lengths(catalog, Summaries.read(out))
    if as_json:
        write_json({"tools": len(catalog), "failed": failures, "tokens_per_tool": lengths})
        return
    table = plain_table("tokens per tool", "mean", right={"mean"})
    for name, mean in lengths.items():
        table.add_row(name.replace("_", " "), f"{mean:,.1f}")
    show(table)
    typer.echo(f"{out}: {counted(len(catalog), 'tool')}")


def _lengths(catalog: Catalog, summaries: Any) -> dict[str, float]:
    """Mean cl100k tokens of the summary, the description and the full definition."""
    from ..loaders.detail import definition_text
    from ..models import TokenCounter

    count = TokenCounter().count
    number = max(1, len(catalog))
    totals = {
        "summary": sum(count(summaries.of(tool)) for tool in catalog),
        "description": sum(count(tool.description) for tool in catalog),
        "full_definition": sum(
            count(definition_text(tool.name, tool.description, tool.input_schema))
            for tool in catalog
        ),
    }
    return {name: round(total / number, 1) for name, total in totals.items()}
