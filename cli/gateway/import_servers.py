"""`shortlist import`: the MCP servers of all clients on this machine, in one file."""

from __future__ import annotations

import json
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
    from ...gateway.clients.client_import import find_configs, merge_servers
    from ...gateway.clients.known_clients import CLIENTS, find_client

    with usage_errors("--client"):
        searched_clients = (
            [find_client(name) for name in clients] if clients else [*CLIENTS.values()]
        )
    configs = find_configs(Path.home() if home is None else home, searched_clients)
    for client, found in configs:
        note(f"{client.title}: {found.path}: {counted(len(found.other_servers), 'server')}")
        for problem in found.problems:
            note(f"  {problem}")
    if not configs:
        listed = ", ".join(client.name for client in searched_clients)
        raise ConfigError(f"no configuration of a known client; looked for: {listed}")
    servers = merge_servers((client.name, found.other_servers) for client, found in configs)
    if out is None:
        _print_servers(servers)
    else:
        _write(servers, out)


def _print_servers(servers: tuple[ServerSpec, ...]) -> None:
    from ...gateway.clients.client_import import entries_with_references

    entries, variables = entries_with_references(servers)
    typer.echo(json.dumps({"mcpServers": entries}, indent=2, ensure_ascii=False))
    if variables:
        note(f"set the variables {', '.join(variables)}; or write the values with --out FILE")


def _write(servers: tuple[ServerSpec, ...], out: Path) -> None:
    from ...gateway.clients.client_config import read_client_config
    from ...gateway.clients.config_file import ConfigFile
    from ...gateway.clients.server_entry import mcp_servers_entry

    if out.exists():
        raise ConfigError(f"{out}: exists; give a new file, or use: shortlist install --config")
    file = ConfigFile.read(out, may_be_missing=True)
    entries = {server.name: mcp_servers_entry(server) for server in servers}
    file.replace(file.written({"mcpServers": entries}).encode(), backup=False)
    typer.echo(f"{out}: {counted(len(servers), 'server')}")
    for name, problem in read_client_config(out).unusable_servers.items():
        note(f"  {name}: {problem}")
