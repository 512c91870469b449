"""`shortlist serve`: the gateway."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .console import note


def serve(
    config: Annotated[
        Path, typer.Option("--config", help="File with the servers, as MCP clients have it.")
    ],
    settings: Annotated[
        Path | None,
        typer.Option("--settings", help="shortlist's own settings, TOML or JSON, if not in it."),
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(
            "--http", metavar="HOST:PORT", help="Serve streamable HTTP at /mcp, not stdin/stdout."
        ),
    ] = None,
    profile: Annotated[
        str, typer.Option(help="Profile of clients that send no token.")
    ] = "default",
) -> None:
    """Serve all servers of a configuration as one MCP server with a few meta-tools."""
    from ..errors import MissingExtraError

    try:
        import anyio

        from ..gateway.first_use import FirstUse, default_pins
        from ..gateway.fleet import Fleet
        from ..gateway.http import serve_http
        from ..gateway.server import Gateway
    except ImportError as missing:
        raise MissingExtraError("the gateway", "gateway") from missing
    from ..gateway.client_config import read_client_config
    from ..gateway.client_profiles import ClientProfiles
    from ..gateway.gateway_settings import read_gateway_settings

    found = read_client_config(config)
    for problem in found.problems:
        note(f"{config}: {problem}")
    chosen = read_gateway_settings(found, settings)
    for name in ("code", "catalog"):
        if getattr(chosen, name):
            raise typer.BadParameter(f"shortlist.{name}: not supported yet; leave it out")
    clients = ClientProfiles.of(chosen, profile, over_http=http is not None)
    gateway = Gateway(
        Fleet(
            found.servers,
            engine_settings=dict(chosen.engine),
            idle_s=chosen.idle_stop_s or None,
            pins=FirstUse(chosen.pins or default_pins(config)),
        ),
        clients.default,
        clients.profiles,
    )
    if http is None:
        anyio.run(gateway.serve_stdio)
        return
    host, _, port = http.rpartition(":")
    if not port.isdecimal():
        raise typer.BadParameter(f"--http {http!r}: HOST:PORT, such as 127.0.0.1:8765")
    address = host.strip("[]") or "127.0.0.1"
    if address not in ("127.0.0.1", "localhost", "::1") and not clients.tokens:
        raise typer.BadParameter(
            f"--http {http}: other machines reach this address; give each profile a token first"
        )
    anyio.run(
        lambda: serve_http(
            gateway,
            address,
            int(port),
            clients.tokens,
            started=lambda at: note(f"http://{address}:{at}/mcp"),
        )
    )


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("serve")(serve)
