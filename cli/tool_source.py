"""Reads a command's tools from a saved index, files, a client's servers, or stdin."""

from __future__ import annotations

import logging
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ..errors import CatalogError, MissingExtraError
from .console import counted, note, progress, quarantine_as_notes
from .options import check_one_source

if TYPE_CHECKING:
    from ..catalog import Catalog, ReadResult, Tool
    from ..config import Config
    from ..engine import Engine
    from ..indexing.build import Progress
    from ..retrieval.usage import UsageEvent


def read_config(path: Path | None) -> Config:
    """The configuration of a file, or the defaults."""
    from ..config import Config

    return Config() if path is None else Config.read(path)


def read_catalog_and_quarantined(
    index: Path | None, tools: list[Path] | None, config: Path | None
) -> tuple[Catalog, frozenset[str]]:
    """The tools of a saved index or of files, and the ids of those that are quarantined.

    Raises:
        BadParameter: both or neither is given.
        CatalogError: a file cannot be read.
        StoreError: nothing readable is saved there.
        PinsError: the file of pins cannot be read.
    """
    from ..trust import Trust, quarantined
    from ..trust.flag import warn_of_quarantine

    check_one_source(index=index, tools=tools)
    settings = read_config(config).trust
    saved = None
    if index is not None:
        from ..retrieval.store.versions import read

        saved = read(index)
    catalog = catalog_of(tools or ()) if saved is None else saved.catalog
    trust = Trust(scans=settings.scan, pins=settings.pins, approved=settings.approved)
    if saved is not None:
        trust.use_saved_findings(catalog, saved.screening)
    with quarantine_as_notes():
        flags = trust.flags(catalog)
        warn_of_quarantine(flags, {})
    quarantined_by_operator = () if saved is None else saved.quarantined
    return catalog, frozenset((*quarantined(flags), *quarantined_by_operator))


def catalog_of(sources: Sequence[Path]) -> Catalog:
    """The tools of files, folders, saved indexes, client configurations and standard input.

    Raises:
        CatalogError: a source cannot be read.
    """
    from ..catalog import Catalog

    return Catalog(tool for source in sources for tool in read_source(source).tools)


def read_source(
    path: Path,
    *,
    form: str = "auto",
    server: str | None = None,
    strict: bool = True,
    keep_ids: bool = False,
) -> ReadResult:
    """The tools of one file, folder, saved index or client configuration, or of stdin for `-`.

    Args:
        path: path of the source.
        form: the format of a file.
        server: as for `read_tools`.
        strict: as for `read_tools`.
        keep_ids: as for `read_tools`.

    Raises:
        CatalogError: it cannot be read.
        ConfigError: a client configuration cannot be read.
        StoreError: a saved index cannot be read.
    """
    from ..catalog import ReadResult, read_tools

    if str(path) == "-":
        return read_tools(sys.stdin, format=form, server=server, strict=strict, keep_ids=keep_ids)
    if is_index(path):
        from ..retrieval.store.versions import read

        return ReadResult(tools=tuple(read(path).catalog), rejected=(), format="index")
    try:
        return read_tools(path, format=form, server=server, strict=strict, keep_ids=keep_ids)
    except CatalogError:
        if form != "auto" or not path.is_file():
            raise
        from ..gateway.clients.client_config import has_servers

        if not has_servers(path):
            raise
    return ReadResult(tools=_configured(path), rejected=(), format="configuration")


def _configured(path: Path) -> tuple[Tool, ...]:
    """The tools that the servers of a client's configuration list."""
    try:
        from ..gateway.observe.server_inspection import read_configured_tools
    except ImportError as missing:
        raise MissingExtraError(f"{path}: starting MCP servers", "gateway") from missing
    note(f"note: {path}: starting its servers to list their tools")
    # What is logged of a server is a problem below.
    logging.getLogger("shortlist.gateway").addHandler(logging.NullHandler())
    read = read_configured_tools(path)
    for problem in read.problems:
        note(f"note: {path}: {problem}")
    return read.tools


def read_labelled_queries(engine: Engine, files: Sequence[Path]) -> list[UsageEvent]:
    """Labelled queries of files. Rows that cannot be used are reported on stderr.

    Raises:
        EvaluationError: a file cannot be read, or no row is usable.
    """
    from ..evals.dataset import read_queries
    from ..retrieval.usage import UsageEvent

    read = read_queries(files, engine.catalog)
    for row in read.malformed:
        note(f"note: {row}")
    return [UsageEvent(query.text, query.relevant) for query in read.queries]


def check_format(form: str) -> None:
    """Refuse a format that there is not.

    Raises:
        BadParameter: the format is unknown.
    """
    from ..catalog.readers import READERS

    formats = ("auto", *(reader.name for reader in READERS))
    if form not in formats:
        raise typer.BadParameter(f"--format {form!r:.80}: use one of {', '.join(formats)}")


def is_index(path: Path) -> bool:
    """Whether a folder contains a saved index."""
    return (path / "CURRENT").is_file()


def holds_index(path: Path) -> bool:
    """Whether a folder contains a saved index, or a damaged one."""
    return is_index(path) or (path.is_dir() and any(path.glob("v-*")))


def open_engine(
    *,
    index: Path | None = None,
    tools: list[Path] | None = None,
    config: Path | None = None,
    tier: str | None = None,
    abstention: Path | None = None,
) -> Engine:
    """An engine that answers in the asked tier, over a saved index or over files.

    Over files, only what the tier and those it falls back to need is built.

    Args:
        index: folder of a saved index.
        tools: files of tools.
        config: file of settings; what it sets replaces the settings of the index.
        tier: name of the tier; None for all.
        abstention: file of a calibration, in place of the setting `abstention`.

    Raises:
        BadParameter: both or neither is given, or there is no such tier.
    """
    from ..engine import Engine

    check_one_source(index=index, tools=tools)
    settings = read_config(config)
    if abstention is not None:
        settings = settings.model_copy(update={"abstention": abstention})
    if index is not None:
        from ..retrieval.store.versions import saved_settings

        settings, replaced = settings.merged_with_saved(saved_settings(index).get("config", {}))
        if replaced:
            note(f"note: {config}: in place of settings of {index}: {', '.join(replaced)}")
    if tier is not None:
        settings = _with_only(settings, tier)
    with quarantine_as_notes(), progress("encoding tools") as show_progress:
        if index is not None:
            again = f"shortlist index {index} --out {index}"
            command = again if config is None else f"{again} --engine-settings {config}"
            return Engine.open(
                index, config=settings, progress=_with_note(show_progress, index, command)
            )
        catalog = catalog_of(tools or [])
        if not len(catalog):
            note(f"note: {', '.join(map(str, tools or []))}: no tools")
        return Engine.from_tools(catalog, settings, progress=show_progress)


def _with_note(show_progress: Progress, index: Path, command: str) -> Progress:
    """A progress report whose first call tells that an opened index encodes its tools again."""
    noted = False

    def advance(done: int, total: int) -> None:
        nonlocal noted
        if not noted:
            noted = True
            note(
                f"note: {index}: has no vectors of this encoder, so that every search encodes "
                f"{counted(total, 'tool')} again; to keep them: {command}"
            )
        show_progress(done, total)

    return advance


def chosen_tiers(engine: Engine, names: Sequence[str] | None, *further_names: str) -> list[str]:
    """The tiers asked for, or all.

    Raises:
        BadParameter: there is no such tier.
    """
    for name in names or ():
        if name not in further_names:
            _check_tier(name, engine.tiers, engine.config)
    return list(dict.fromkeys(names or engine.tiers))


def _check_tier(name: str, tiers: Collection[str], config: Config) -> None:
    from ..settings import RERANK_TIER, RERANKER_MISSING

    if name not in tiers:
        if name == RERANK_TIER and not config.has_reranker:
            raise typer.BadParameter(f"tier {name!r}: {RERANKER_MISSING}")
        raise typer.BadParameter(f"no tier {name!r}; use one of: {', '.join(tiers)}")


def _with_only(config: Config, tier: str) -> Config:
    """The configuration with only this tier and the ones it falls back to."""
    from ..settings import AUTO_TIER

    if tier == AUTO_TIER and tier not in config.tiers:
        return config.model_copy(update={"default_tier": tier})
    _check_tier(tier, config.tiers, config)
    tiers = {}
    name: str | None = tier
    while name is not None and name not in tiers:
        tiers[name] = config.tiers[name]
        name = tiers[name].fallback
    return config.model_copy(update={"tiers": tiers, "default_tier": tier})
