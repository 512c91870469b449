"""Where a command's tools come from: a saved index, or files of tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from .console import note, progress, trust_notes

if TYPE_CHECKING:
    from ..catalog import Catalog
    from ..config import Config
    from ..engine import Engine
    from ..view import View


def read_config(path: Path | None) -> Config:
    """The configuration of a file, or the defaults."""
    from ..config import Config

    return Config() if path is None else Config.read(path)


def read_catalog(index: Path | None, tools: list[Path] | None) -> Catalog:
    """The tools of a saved index or of files, without loading a model.

    Raises:
        BadParameter: both or neither is given.
        CatalogError: a file cannot be read.
        StoreError: nothing readable is saved there.
    """
    _one_of(index, tools)
    if index is not None:
        from ..retrieval.store import read

        return read(index).catalog
    return catalog_of(tools or [])


def read_offered(
    index: Path | None, tools: list[Path] | None, config: Path | None
) -> tuple[Catalog, frozenset[str]]:
    """The tools of a saved index or of files, and the ids of those that are quarantined.

    Raises:
        BadParameter: both or neither is given.
        CatalogError: a file cannot be read.
        StoreError: nothing readable is saved there.
        PinsError: the file of pins cannot be read.
    """
    from ..trust import Trust, tell

    _one_of(index, tools)
    settings, screening = read_config(config).trust, None
    given: set[str] = set()
    if index is None:
        catalog = catalog_of(tools or [])
    else:
        from ..retrieval.store import read

        saved = read(index)
        catalog, screening, given = saved.catalog, saved.screening, set(saved.quarantined)
    trust = Trust(scans=settings.scan, pins=settings.pins, approved=settings.approved)
    trust.recall(catalog, screening)
    with trust_notes():
        flags = trust.flags(catalog)
        tell(flags, {})
    judged = {one for one, flag in flags.items() if flag.level == "quarantine"}
    return catalog, frozenset(judged | given)


def catalog_of(files: list[Path]) -> Catalog:
    """The tools of one file or folder, or of several."""
    from ..catalog import Catalog, read_tools

    if len(files) == 1:
        return Catalog.read(files[0])
    return Catalog(tool for file in files for tool in read_tools(file).tools)


def is_index(path: Path) -> bool:
    """Whether a saved index lies in this folder."""
    return (path / "CURRENT").is_file()


def holds_index(path: Path) -> bool:
    """Whether a saved index lies in this folder, or what is left of one."""
    return is_index(path) or (path.is_dir() and any(path.glob("v-*")))


def open_engine(
    index: Path | None, tools: list[Path] | None, config: Path | None, tier: str | None
) -> Engine:
    """An engine that answers in the asked tier, over a saved index or over files.

    Over files, only what the tier and those it falls back to need is built.

    Raises:
        BadParameter: both or neither is given, or there is no such tier.
    """
    from ..engine import Engine

    _one_of(index, tools)
    settings = read_config(config)
    if tier is not None:
        settings = _offering(settings, tier)
    with trust_notes(), progress("encoding tools") as report:
        if index is not None:
            return Engine.open(index, config=settings, progress=report)
        return Engine.from_tools(catalog_of(tools or []), settings, progress=report)


def tell_unmatched(view: View) -> None:
    """Name on stderr the entries of `--allow` that match no tool of the catalog."""
    if view.unmatched:
        note(f"note: --allow: not in the catalog: {', '.join(view.unmatched)}")


def _one_of(index: Path | None, tools: list[Path] | None) -> None:
    if (index is None) == (not tools):
        raise typer.BadParameter("give either --index FOLDER or --tools FILE")


def _offering(config: Config, tier: str) -> Config:
    """The configuration with only this tier and the ones it falls back to."""
    if tier not in config.tiers:
        raise typer.BadParameter(f"--tier {tier!r}: there are {', '.join(config.tiers)}")
    kept = {}
    name: str | None = tier
    while name is not None and name not in kept:
        kept[name] = config.tiers[name]
        name = kept[name].fallback
    return config.model_copy(update={"tiers": kept, "default_tier": tier})
