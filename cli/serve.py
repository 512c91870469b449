"""`shortlist serve`: the gateway."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def serve(
    config: Annotated[
        Path, typer.Option("--config", help="File with the servers, as MCP clients have it.")
    ],
) -> None:
    """Serve all servers of a configuration as one MCP server, on stdin and stdout."""
    import anyio

    from ..gateway.client_config import read_client_config
    from ..gateway.fleet import Fleet
    from ..gateway.server import Gateway

    found = read_client_config(config)
    gateway = Gateway(Fleet(found.servers))
    anyio.run(gateway.serve_stdio)
