"""`shortlist auth`: logins to servers that ask for OAuth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import ConfigError
from ..console import note, plain_table, show, write_json
from ..options import JsonOption
from .configured_servers import CONFIG_HELP, logs_silenced, read_gateway_files

if TYPE_CHECKING:
    from ...gateway.connections.server_spec import ServerSpec

_NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the server.")]
_FileOption = Annotated[
    Path,
    typer.Option("--config", metavar="FILE", help=CONFIG_HELP),
]

auth = typer.Typer(no_args_is_help=True, help="Log in to servers that require OAuth.")


@auth.command()
def login(name: _NameArgument, config: _FileOption) -> None:
    """Log in to a server in the browser.

    The tokens are kept in the system keyring and renewed by the gateway.
    """
    import anyio

    spec = _find_server(name, config)
    from ...gateway.connections.login import log_in

    async def show_page(page: str) -> None:
        note(f"log in at this address, if no browser opens: {page}")
        await anyio.to_thread.run_sync(typer.launch, page)

    async def run() -> int:
        return await log_in(spec, show_page)

    with logs_silenced():  # the SDK logs answers of the servers as they are
        tools = anyio.run(run)
    note(f"{name}: logged in; it lists {tools} tools")


@auth.command()
def logout(name: _NameArgument, config: _FileOption) -> None:
    """Delete the login to a server from the system keyring."""
    spec = _find_server(name, config)
    from ...gateway.connections.oauth import LoginStorage

    LoginStorage(spec).forget()
    note(f"{name}: logged out")


@auth.command()
def status(config: _FileOption, as_json: JsonOption = False) -> None:
    """Show the logins to servers over HTTP, and when they expire."""
    client_config = read_gateway_files(config, None).client_config
    from ...gateway.connections.oauth import LoginStorage

    rows: list[dict[str, Any]] = []
    for spec in client_config.servers:
        if spec.transport in ("http", "sse"):
            login = LoginStorage(spec).login
            rows.append(
                {
                    "server": spec.name,
                    "logged_in": login.tokens is not None,
                    "renewed": login.tokens is not None and login.tokens.refresh_token is not None,
                    "expires_at": login.expires_at,
                }
            )
    if as_json:
        write_json(rows)
        return
    if not rows:
        note(f"{config}: no server over HTTP, so no logins")
        return
    table = plain_table("server", "login", "access token ends")
    for row in rows:
        state = (
            "none"
            if not row["logged_in"]
            else "renewed automatically"
            if row["renewed"]
            else "once"
        )
        table.add_row(row["server"], state, _time_text(row["expires_at"]))
    show(table)


def _time_text(seconds: float | None) -> str:
    from datetime import datetime

    return "" if seconds is None else f"{datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M}"


def _find_server(name: str, config: Path) -> ServerSpec:
    client_config = read_gateway_files(config, None).client_config
    for spec in client_config.servers:
        if spec.name == name:
            return spec
    names = ", ".join(spec.name for spec in client_config.servers)
    raise ConfigError(f"{config}: no server {name!r:.80}; use one of: {names}")
