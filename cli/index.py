"""`shortlist index`: tools made searchable, kept in a folder."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import StoreError
from .console import counted, note, progress, trust_notes
from .options import ConfigOption, ServerOption
from .source import holds_index, read_config

if TYPE_CHECKING:
    from ..catalog import Catalog, ReadResult
    from ..config import Config
    from ..engine import Engine

_SHOWN = 20
"""Rejected definitions and collisions named one by one."""


def register(app: typer.Typer) -> None:
    """Add the command to an application."""
    app.command("index")(index)


def index(
    tools: Annotated[
        list[Path], typer.Argument(metavar="TOOLS...", help="Files or folders of tools.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder of the index.")],
    config: ConfigOption = None,
    server: ServerOption = None,
    form: Annotated[
        str,
        typer.Option(
            "--format", help="auto, jsonl, mcp, openai, anthropic, openapi or xlam; of every file."
        ),
    ] = "auto",
    lenient: Annotated[
        bool, typer.Option("--lenient", help="Leave bad definitions out instead of stopping.")
    ] = False,
    keep_ids: Annotated[
        bool,
        typer.Option(
            "--keep-ids", help="Rows keep their own id. Only for files that you wrote yourself."
        ),
    ] = False,
) -> None:
    """Index tools into a folder; in an existing one only what changed is encoded."""
    from ..catalog import Catalog, read_tools

    start = perf_counter()
    settings = read_config(config)
    read = [
        read_tools(path, format=form, server=server, strict=not lenient, keep_ids=keep_ids)
        for path in tools
    ]
    _tell_rejected(read)
    catalog = Catalog(tool for result in read for tool in result.tools)
    _tell_collisions(catalog)
    engine = _engine(out, catalog, settings)
    engine.save(out)
    seconds = perf_counter() - start
    count, encoded = len(catalog), engine.encoded
    typer.echo(
        f"{out}: {counted(count, 'tool')}, {encoded:,} encoded, {count - encoded:,} reused, "
        f"{seconds:.1f} seconds"
    )


def _engine(out: Path, catalog: Catalog, config: Config) -> Engine:
    from ..engine import Engine

    with trust_notes(), progress("encoding tools") as report:
        if not holds_index(out):
            return Engine.from_tools(catalog, config, progress=report)
        try:
            return Engine.open(out, catalog, config, progress=report)
        except StoreError as error:
            from ..retrieval.salvage import saved_quarantine

            note(f"note: the index there cannot be reused: {error}")
            quarantined = saved_quarantine(out)
            note("note: what `learn` taught it is lost; what was quarantined in it stays so")
        engine = Engine.from_tools(catalog, config, progress=report)
        engine.quarantine(quarantined)
        return engine


def _tell_rejected(read: list[ReadResult]) -> None:
    for told in (one for result in read for one in result.notes):
        note(f"note: {told}")
    rejected = [one for result in read for one in result.rejected]
    if not rejected:
        return
    note(f"note: {len(rejected)} definitions left out:")
    for one in rejected[:_SHOWN]:
        name = f" {one.name!r}" if one.name else ""
        note(f"  {one.where}:{name} {one.field}: {one.reason}")
    if len(rejected) > _SHOWN:
        note(f"  and {len(rejected) - _SHOWN} more; `shortlist doctor` names all")


def _tell_collisions(catalog: Catalog) -> None:
    renamed = [one for one in catalog.collisions if not one.identical]
    repeated = len(catalog.collisions) - len(renamed)
    if repeated:
        note(f"note: {repeated} definitions repeat an earlier one and are kept once")
    if renamed:
        note(f"note: {len(renamed)} ids are claimed twice; the later definition is renamed:")
        for one in renamed[:_SHOWN]:
            note(f"  {one.id} -> {one.kept_as}")
        if len(renamed) > _SHOWN:
            note(f"  and {len(renamed) - _SHOWN} more; `shortlist doctor` names all")
