"""`shortlist import`: the MCP servers of all clients on this machine, in one file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...errors import ConfigError
from ..console import counted, note
from ..options import HomeOption, usage_errors

if TYPE_CHECKING:
    from ...gateway.connections.server_spec import ServerSpec


def import_servers(
    clients: Annotated[
        list[str] | None,
        typer.Option("--client", metavar="NAME", help="Read only this client; repeatable."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write a new file, secrets included."),
    ] = None,
    home: HomeOption = None,
) -> None:
    """Collect the MCP servers of all your clients in one mcp.json.

    Without --out the file is printed, and each value that may be a secret is replaced by a
    variable to set. With --out the values are written; only the owner can read the file.
    """
    from ...gateway.clients.client_import import find_configs, servers_of_configs
    from ...gateway.clients.known_clients import CLIENTS, find_client

    with usage_errors("--client"):
        searched_clients = (
            [find_client(name) for name in clients] if clients else [*CLIENTS.values()]
        )
    configs = find_configs(Path.home() if home is None else home, searched_clients)
    for file in configs:
        note(f"{file.client.title}: {file.path}: {counted(len(file.servers), 'server')}")
        if file.error is not None:
            note(f"  not read: {file.error}")
        for problem in () if file.config is None else file.config.problems:
            note(f"  {problem}")
    if not configs:
        listed = ", ".join(client.name for client in searched_clients)
        raise ConfigError(f"no configuration of a known client; looked for: {listed}")
    servers = servers_of_configs(configs)
    if out is None:
        _print_servers(servers)
    else:
        _write(servers, out)


def _print_servers(servers: tuple[ServerSpec, ...]) -> None:
    from ...gateway.clients.client_import import entries_with_references, mcp_json

    entries, variables = entries_with_references(servers)
    typer.echo(mcp_json(entries), nl=False)
    if variables:
        note(f"set the variables {', '.join(variables)}; or write the values with --out FILE")


def _write(servers: tuple[ServerSpec, ...], out: Path) -> None:
    from ...gateway.clients.client_import import mcp_json, mcp_servers_entry
    from ...gateway.clients.config_edit import FileChange, apply_change

    if out.exists():
        raise ConfigError(f"{out}: exists; give a new file, or use: shortlist install --config")
    text = mcp_json({server.name: mcp_servers_entry(server) for server in servers})
    apply_change(FileChange(path=out, before=None, after=text.encode()), backup=False)
    typer.echo(f"{out}: {counted(len(servers), 'server')}")
