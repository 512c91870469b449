"""`shortlist stop`: ends the background gateways."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ..console import note
from .configured_servers import CONFIG_HELP, gateway_paths


def stop(
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help=f"End only the gateways of this file. {CONFIG_HELP}",
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

    if config is not None and config.is_file():
        config, _ = gateway_paths(config, None)

    gateways = list(running_gateways(config))
    for gateway in gateways:
        stop_gateway(gateway)
        typer.echo(f"ended the gateway of {gateway.config} (process {gateway.pid})")
    if not gateways:
        note("no gateway runs in the background")
