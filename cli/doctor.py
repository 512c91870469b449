"""`shortlist doctor`: is the installation sound, and is a catalog fit to be searched."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from .console import first_lines, plain_table, show, write_json
from .gateway.configured_servers import ServersOption, SettingsOption
from .options import CHECK_FAILED_EXIT, PROBLEM_EXIT, IndexOption, JsonOption, SourcesOption
from .tool_source import read_source

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..catalog import Catalog, ReadResult
    from ..trust import Flag
    from .check_environment import Check

_MAX_DETAILS_SHOWN = 5
"""Maximum number of printed details per check; the JSON has all."""
_STYLE_BY_STATUS = {"ok": "green", "note": "cyan", "warn": "yellow", "fail": "bold red"}


def doctor(
    tools: SourcesOption = None,
    index: IndexOption = None,
    config: ServersOption = None,
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check the installation, a catalog, or the servers of a gateway.

    With --config, every server is started, listed and stopped. Exits with 3 if a tool of the
    servers is quarantined. Otherwise, exits with 1 if a check fails, a server does not start or
    one of its tools is left out.
    """
    if config is not None:
        if tools or index is not None:
            raise typer.BadParameter("give --config, --index or --tools, not several")
        _doctor_of_servers(config, settings, as_json=as_json)
        return
    if settings is not None:
        raise typer.BadParameter("--settings: goes with --config")
    from .check_environment import check_environment

    if tools and index is not None:
        raise typer.BadParameter("give --index FOLDER or --tools FILE, not both")
    checks = list(check_environment())
    flags: dict[str, Flag] = {}
    twins: list[dict[str, list[str]]] = []
    if tools or index is not None:
        from ..catalog import Catalog
        from ..trust import Trust
        from .check_catalog import check_catalog

        files: list[ReadResult] = []
        vectors = None
        if index is not None:
            from ..retrieval.store.versions import read

            saved = read(index)
            catalog, vectors = saved.catalog, saved.tool_vectors
        else:
            # A report names each row as its file does.
            files = [read_source(file, strict=False, keep_ids=True) for file in tools or ()]
            catalog = Catalog(tool for result in files for tool in result.tools)
        flags = Trust().flags(catalog)
        checks += check_catalog(catalog, files, flags)
        twins = _twin_groups(catalog, vectors)
    failed = any(check.status == "fail" for check in checks)
    if as_json:
        write_json(
            {
                "ok": not failed,
                "checks": [asdict(check) for check in checks],
                "flagged": [
                    {"id": tool_id, "level": flag.level, "reasons": list(flag.reasons)}
                    for tool_id, flag in flags.items()
                ],
                "twins": twins,
            }
        )
    else:
        _print_checks(checks)
    if failed:
        raise typer.Exit(PROBLEM_EXIT)


def _doctor_of_servers(config: Path, settings: Path | None, *, as_json: bool) -> None:
    from .gateway.check_servers import check_servers, show_servers

    report = check_servers(config, settings)
    if as_json:
        write_json(report.to_dict())
    else:
        show_servers(report)
    if report.is_quarantining:
        raise typer.Exit(CHECK_FAILED_EXIT)
    if not report.ok:
        raise typer.Exit(PROBLEM_EXIT)


def _twin_groups(
    catalog: Catalog, vectors: NDArray[np.float32] | None
) -> list[dict[str, list[str]]]:
    """Groups of near-equal tools of different servers: by words, and by the vectors of an index."""
    from ..retrieval.search.twins import Twins

    tools = catalog.in_id_order
    twins = Twins.of(tools, vectors)
    return [{"ids": [tools[row].id for row in rows]} for rows in twins.groups()]


def _print_checks(checks: Iterable[Check]) -> None:
    from rich.text import Text

    table = plain_table("", "check", "found")
    table.show_header = False
    table.columns[2].no_wrap = False
    table.columns[2].overflow = "fold"
    for check in checks:
        finding = Text(check.summary)
        if check.status != "ok" or check.name == "extras":
            # The summary names the installed extras already.
            details = [line for line in check.details if not line.endswith(": installed")]
            for line in first_lines(details, _MAX_DETAILS_SHOWN):
                finding.append(f"\n{line}", style="dim")
        table.add_row(Text(check.status, style=_STYLE_BY_STATUS[check.status]), check.name, finding)
    show(table)
