"""`shortlist add`: look a server up in a registry, and write its entry."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from ...errors import ConfigError
from ..console import note, visible
from .configured_servers import GatewayFileOption, YesOption


def add(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="Name in the registry, as io.github.owner/weather."),
    ],
    registry: Annotated[
        str,
        typer.Option("--registry", metavar="URL", help="A registry with the official one's API."),
    ],
    config: GatewayFileOption = Path("mcp.json"),
    yes: YesOption = False,
) -> None:
    """Add a server to the gateway's file, as a registry describes it.

    The command shows the entry, with the program that it starts, and asks. It refuses an entry by
    which that program runs other code than the package, or opens more of this machine to it. A
    running gateway uses the file at once.
    """
    from ...gateway.clients.config_file import ConfigFile
    from ...gateway.clients.registry_entry import entry_of, find_registered

    server = find_registered(registry, name)
    added = entry_of(server)
    file = ConfigFile.read(config, may_be_missing=True)
    if added.name in (file.values.get("mcpServers") or {}):
        raise ConfigError(f"{config}: has a server {added.name!r:.100} already; rename it there")
    data = file.with_servers(("mcpServers",), (), {added.name: added.entry})
    typer.echo(f"{visible(server.name)} {visible(server.version)}")
    typer.echo(visible(json.dumps({added.name: added.entry}, indent=2, ensure_ascii=False)))
    if present := [name for name in added.variables if name in os.environ]:
        # The user is asked for a value, but the gateway would find one.
        used = f"it gets the present value of {', '.join(present)}"
        if yes:
            raise ConfigError(f"{server.name}: {used}; leave out --yes, and answer the question")
        note(used)
    if not yes:
        typer.confirm(f"Add this to {config}?", abort=True)
    file.replace(data)
    typer.echo(f"{config}: added {visible(added.name)}")
    if added.variables:
        note(f"set {', '.join(added.variables)}, or store them with: shortlist secret set NAME")
