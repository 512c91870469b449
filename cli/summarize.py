"""`shortlist summarize`: one line per tool, offline or by a language model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .console import counted, note, plain_table, progress, show, write_json
from .options import (
    ConfigOption,
    JsonOption,
    QuarantinedOption,
    RowsOption,
    SourcesArgument,
    WorkersOption,
)
from .source import read_offered

if TYPE_CHECKING:
    from ..catalog import Catalog
    from ..loaders.summaries import Summaries

_INCOMPLETE = 1


def summarize(
    tools: Annotated[list[Path], SourcesArgument],
    out: RowsOption,
    command: Annotated[
        str | None,
        typer.Option(
            metavar="CMD",
            help="Shell command that reads a prompt on stdin and answers on stdout. Without one, "
            "summaries are made offline.",
        ),
    ] = None,
    overrides: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Your own summaries: JSON of id to summary, or JSONL."),
    ] = None,
    workers: WorkersOption = 4,
    config: ConfigOption = None,
    quarantined: QuarantinedOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write a one-line summary of every tool into a file.

    An interrupted run continues where it stopped. Quarantined tools need --quarantined.

    Exits with 1 if --command gave no usable answer for some tool. Such a tool gets an offline
    summary, and the next run asks for it again.
    """
    from ..catalog import Catalog
    from ..language_model import command_model
    from ..loaders.summaries import read_rows
    from ..loaders.summary_file import update_summaries

    catalog, left_out = read_offered(None, tools, config)
    if left_out and not quarantined:
        catalog = Catalog(tool for tool in catalog if tool.id not in left_out)
    by_hand = list(read_rows(overrides)) if overrides else []
    with progress("summarizing tools") as report:
        model = None if command is None else command_model(command)
        failures = update_summaries(
            out, catalog, model, by_hand=by_hand, workers=workers, progress=report
        )
    _tell(catalog, out, failures, as_json)
    if failures:
        raise typer.Exit(_INCOMPLETE)


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


def _lengths(catalog: Catalog, summaries: Summaries) -> dict[str, float]:
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
