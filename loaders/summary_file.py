"""Updates a file of summaries for a catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ..catalog import Catalog, Tool
from ..catalog.text_file import replace_text_file
from ..language_model import LanguageModel
from .summaries import SummaryRow, read_rows
from .summarizer import write_summaries
from .summary import summarize


def update_summaries(
    out: Path,
    catalog: Catalog,
    model: LanguageModel | None = None,
    *,
    by_hand: Iterable[SummaryRow] = (),
    workers: int = 4,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, str]:
    """Write a summary of every tool; lines of a model for unchanged definitions are kept.

    Each answer is written at once, so that an interrupted run can continue later.

    Args:
        out: the JSONL file; created if it does not exist.
        catalog: the tools.
        model: writes summaries for tools without one; summaries are made offline when absent.
        by_hand: rows that take precedence.
        workers: number of prompts at the same time.
        progress: called with (tools asked about, tools to ask about).

    Returns:
        Tool id to why the model wrote no summary. Such a tool gets an offline summary.

    Raises:
        SummaryError: the existing file is not a file of summaries.
        OSError: the disk refuses.
    """
    kept = _still_true(catalog, read_rows(out) if out.exists() else ())
    failures: dict[str, str] = {}
    if model is not None:
        failures = _ask(catalog, kept, model, out, workers, progress)
    rows = sorted(_row(tool, kept) for tool in catalog)
    last = [SummaryRow(row.id, row.fingerprint, row.summary, "hand") for row in by_hand]
    replace_text_file(out, _lines([*rows, *last]))
    return failures


def _still_true(catalog: Catalog, rows: Iterable[SummaryRow]) -> dict[str, SummaryRow]:
    """Rows by a model for present definitions, by fingerprint."""
    current = {tool.fingerprint for tool in catalog}
    return {
        row.fingerprint: row
        for row in rows
        if row.fingerprint in current and row.source == "model" and row.fingerprint is not None
    }


def _row(tool: Tool, kept: dict[str, SummaryRow]) -> SummaryRow:
    if row := kept.get(tool.fingerprint):
        return row._replace(id=tool.id)
    return SummaryRow(tool.id, tool.fingerprint, summarize(tool), "offline")


def _ask(
    catalog: Catalog,
    kept: dict[str, SummaryRow],
    model: LanguageModel,
    out: Path,
    workers: int,
    progress: Callable[[int, int], None] | None,
) -> dict[str, str]:
    """Add missing rows. Returns why a tool has none."""
    missing = {tool.fingerprint: tool for tool in catalog if tool.fingerprint not in kept}
    failures: dict[str, str] = {}
    replace_text_file(out, _lines(kept.values()))
    with out.open("a", encoding="utf-8") as file:
        outcomes = write_summaries(missing.values(), model, workers=workers)
        for done, outcome in enumerate(outcomes, 1):
            if progress is not None:
                progress(done, len(missing))
            if isinstance(outcome, SummaryRow):
                file.write(outcome.to_json() + "\n")
                file.flush()
                kept[str(outcome.fingerprint)] = outcome
            else:
                failures[outcome[0].id] = outcome[1]
    return failures


def _lines(rows: Iterable[SummaryRow]) -> Iterator[str]:
    return (row.to_json() + "\n" for row in rows)
