"""`shortlist index`: tools made searchable, kept in a folder."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import CatalogError, StoreError
from .console import counted, first_lines, note, progress, quarantine_as_notes
from .options import EngineSettingsOption, ServerOption, SourcesArgument
from .tool_source import check_format, holds_index, read_config, read_source

if TYPE_CHECKING:
    from ..catalog import Catalog, ReadResult
    from ..config import Config
    from ..engine import Engine

_MAX_PROBLEMS_SHOWN = 20
"""Rejected definitions and collisions named one by one."""


def index(
    tools: Annotated[list[Path], SourcesArgument],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder to write the index to.")],
    config: EngineSettingsOption = None,
    server: ServerOption = None,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="Format of every file: auto, jsonl, mcp, openai, anthropic or openapi.",
        ),
    ] = "auto",
    lenient: Annotated[
        bool, typer.Option("--lenient", help="Skip bad definitions and bad files, and name them.")
    ] = False,
    keep_ids: Annotated[
        bool,
        typer.Option(
            "--keep-ids", help="Keep the ids of rows. Only for files that you wrote yourself."
        ),
    ] = False,
) -> None:
    """Index tools into a folder, so that searches start fast.

    In an existing index only definitions that changed are encoded.
    """
    from ..catalog import Catalog

    start = perf_counter()
    check_format(form)
    settings = read_config(config)
    read = [
        _read_leniently(
            path, form, server, strict=not lenient, keep_ids=keep_ids, alone=len(tools) == 1
        )
        for path in tools
    ]
    _note_rejected(read)
    catalog = Catalog(tool for result in read for tool in result.tools)
    if not len(catalog):
        listed = ", ".join(map(str, tools))
        raise CatalogError(f"{listed}: no tools to index; nothing was written to {out}")
    _note_collisions(catalog)
    engine = _updated_engine(out, catalog, settings)
    engine.save(out)
    seconds = perf_counter() - start
    count, encoded = len(catalog), engine.build_progress.newly_encoded
    typer.echo(
        f"{out}: {counted(count, 'tool')}, {encoded:,} encoded, {count - encoded:,} reused, "
        f"{seconds:.1f} seconds"
    )


def _read_leniently(
    path: Path, form: str, server: str | None, *, strict: bool, keep_ids: bool, alone: bool
) -> ReadResult:
    """Read a source. Unless `strict`, a bad source of several is left out."""
    from ..catalog import ReadResult, Rejected

    try:
        return read_source(path, form=form, server=server, strict=strict, keep_ids=keep_ids)
    except CatalogError as error:
        if strict or alone:
            raise
        reason = str(error).removeprefix(f"{path}: ")
        return ReadResult(
            tools=(),
            rejected=(Rejected(where=str(path), field="file", reason=reason),),
            format=form,
        )


def _updated_engine(out: Path, catalog: Catalog, config: Config) -> Engine:
    from ..engine import Engine

    with quarantine_as_notes(), progress("encoding tools") as show_progress:
        if not holds_index(out):
            return Engine.from_tools(catalog, config, progress=show_progress)
        try:
            return Engine.open(out, catalog, config, progress=show_progress)
        except StoreError as error:
            from ..retrieval.store.salvage import saved_quarantine

            note(f"note: the index there cannot be reused: {error}")
            quarantined = saved_quarantine(out)
            note("note: quarantined tools stay quarantined")
        engine = Engine.from_tools(catalog, config, progress=show_progress)
        engine.quarantine(quarantined)
        return engine


def _note_rejected(read: list[ReadResult]) -> None:
    for text in (text for result in read for text in result.notes):
        note(f"note: {text}")
    rejected = [definition for result in read for definition in result.rejected]
    if not rejected:
        return
    note(f"note: {counted(len(rejected), 'definition')} left out:")
    for line in first_lines(map(str, rejected), _MAX_PROBLEMS_SHOWN, "shortlist doctor"):
        note(f"  {line}")


def _note_collisions(catalog: Catalog) -> None:
    renamed = [collision for collision in catalog.collisions if not collision.identical]
    repeated = len(catalog.collisions) - len(renamed)
    if repeated:
        note(f"note: {counted(repeated, 'definition')} repeated word for word, kept once")
    if renamed:
        note(f"note: {counted(len(renamed), 'id')} claimed twice; the later definition is renamed:")
        lines = (f"{collision.id} -> {collision.kept_as}" for collision in renamed)
        for line in first_lines(lines, _MAX_PROBLEMS_SHOWN, "shortlist doctor"):
            note(f"  {line}")
