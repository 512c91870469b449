"""`shortlist logs`: what the servers behind the gateway wrote to stderr."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from time import sleep
from typing import Annotated, BinaryIO

import typer

from ...errors import CatalogError
from ..console import plain_table, show, visible, write_json
from ..options import JsonOption
from .configured_servers import ServersOption, gateway_paths

_POLL_S = 0.2
"""Seconds between two looks at a log that is followed."""


def logs(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="Server whose log is printed; without it, all logs are listed."
        ),
    ] = None,
    lines: Annotated[
        int,
        typer.Option(
            "-n", "--lines", metavar="NUMBER", min=0, help="Number of last lines to print."
        ),
    ] = 100,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Print new lines until interrupted.")
    ] = False,
    config: ServersOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print what a server wrote to stderr, or list the logs.

    With --config, only the logs of the servers in that file.
    """
    servers = None if config is None else _configured_servers(config)
    if name is None:
        if follow:
            raise typer.BadParameter("--follow: needs the NAME of a server")
        _print_logs(servers, as_json=as_json)
        return
    if servers is not None and name not in servers:
        names = ", ".join(servers) or "none"
        raise CatalogError(f"{config}: no server {name!r:.100}; it has: {names}")
    if as_json:
        raise typer.BadParameter("--json: is for the list of logs, without NAME")
    path = _find_log(name)
    with ExitStack() as stack:
        file = stack.enter_context(path.open("rb"))
        for line in _last_lines(path, file, lines):
            typer.echo(visible(line))
        while follow:
            for line in _appended_lines(path, file):
                typer.echo(visible(line))
            # The log begins anew: what was written to the old file has been read to its end.
            file = stack.enter_context(path.open("rb"))


def _configured_servers(config: Path) -> list[str]:
    from ...gateway.clients.client_config import read_client_config

    path, _ = gateway_paths(config, None)
    return [server.name for server in read_client_config(path, expand=False).servers]


def _print_logs(servers: list[str] | None, *, as_json: bool) -> None:
    from ...gateway.connections.server_log import log_folder, log_path

    paths = _logs(log_folder())
    if servers is not None:
        wanted = {log_path(server) for server in servers}
        paths = [path for path in paths if path in wanted]
    logs = [(path, path.stat()) for path in paths]
    if as_json:
        write_json(
            [
                {"server": path.stem, "path": str(path), "bytes": file_stat.st_size}
                for path, file_stat in logs
            ]
        )
        return
    if not logs:
        typer.echo(f"no server has written a log to {log_folder()} yet")
        return
    table = plain_table("server", "bytes", "last written", right={"bytes"})
    for path, file_stat in logs:
        written = datetime.fromtimestamp(file_stat.st_mtime).astimezone()
        table.add_row(path.stem, f"{file_stat.st_size:,}", f"{written:%Y-%m-%d %H:%M:%S}")
    show(table)


def _logs(folder: Path) -> list[Path]:
    """The logs of a folder, by name, without what a rotation put aside."""
    return sorted(path for path in folder.glob("*.log") if not path.name.endswith(".old.log"))


def _find_log(server: str) -> Path:
    """The log of a server, by its name in the configuration or in the list.

    Raises:
        CatalogError: there is no such log.
    """
    from ...gateway.connections.server_log import log_folder, log_path

    listed = _logs(log_folder())
    for path in (log_path(server), log_folder() / f"{server}.log"):
        if path in listed:
            return path
    names = ", ".join(path.stem for path in listed) or "none"
    raise CatalogError(f"no log of a server {server!r}; logs exist for: {names}")


def _last_lines(path: Path, file: BinaryIO, count: int) -> list[str]:
    """The last lines of an open log and of the part that a rotation put aside."""
    old = path.with_suffix(".old.log")
    data = (old.read_bytes() if old.exists() else b"") + file.read()
    return _text(data).splitlines()[-count:] if count else []


def _appended_lines(path: Path, file: BinaryIO) -> Iterator[str]:
    """Lines that are appended to an open log, until the log begins anew in another file."""
    rest = b""
    while True:
        replaced = path.exists() and path.stat().st_ino != os.fstat(file.fileno()).st_ino
        if data := file.read():
            *whole, rest = (rest + data).split(b"\n")
            yield from map(_text, whole)
        elif replaced:
            return
        else:
            sleep(_POLL_S)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")
