"""`shortlist stop`: ends the background gateways."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ..console import note


def stop(
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="End only the gateways of this file with MCP servers.",
        ),
    ] = None,
) -> None:
    """End the gateways that run in the background, with their servers.

    A client that is still attached starts the gateway again with its next request.
    """
    if sys.platform == "win32":
        note("no gateway runs in the background: on Windows, each client has its own")
        return
    from ...gateway.attach.running_gateway import running_gateways
    from ...gateway.attach.running_gateway import stop as stop_gateway

    gateways = [
        gateway
        for gateway in running_gateways()
        if config is None or gateway.config == config.absolute()
    ]
    for gateway in gateways:
        stop_gateway(gateway)
        typer.echo(f"ended the gateway of {gateway.config} (process {gateway.pid})")
    if not gateways:
        note("no gateway runs in the background")
