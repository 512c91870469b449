"""`shortlist auth`: logins to servers that ask for OAuth."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import ConfigError
from ..console import counted, note, plain_table, show, write_json
from ..options import JsonOption
from .configured_servers import RequiredServersOption, logs_silenced, read_gateway_files

if TYPE_CHECKING:
    from ...gateway.connections.server_spec import ServerSpec

_NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the server.")]

#: How the authorization server knows this program, as a person reads it after "logged in".
_CLIENT_KINDS = {
    "configured": "with the client id of the configuration",
    "metadata document": "with the client metadata document",
    "registered": "as a client that registered itself",
}

auth = typer.Typer(no_args_is_help=True, help="Log in to servers that require OAuth.")


@auth.command()
def login(
    name: _NameArgument,
    config: RequiredServersOption,
    browser: Annotated[
        bool,
        typer.Option(
            help="Open the page in a browser of this machine. Without one, open the printed "
            "address elsewhere, and paste the address that the browser ends at."
        ),
    ] = True,
) -> None:
    """Log in to a server in the browser.

    The tokens are kept in the system keyring, or in the file that SHORTLIST_SECRETS_FILE names.
    The gateway renews them.
    """
    import anyio

    spec = _find_server(name, config)
    from ...gateway.connections.login import LoginResult, log_in

    async def show_page(page: str) -> None:
        note(f"log in at this address, if no browser opens: {page}")
        note(
            "If the browser runs on another machine, it ends at an address that it cannot open: "
            "paste that address here and press Enter."
        )
        if browser:
            await anyio.to_thread.run_sync(typer.launch, page)

    async def run() -> LoginResult:
        return await log_in(spec, show_page, _read_line)

    with logs_silenced():  # the SDK logs answers of the servers as they are
        result = anyio.run(run)
    if result.client_kind is None:
        state = "needs no login"
    else:
        kind = _CLIENT_KINDS[result.client_kind]
        state = f"{'logged in' if result.asked_person else 'the earlier login is valid'} {kind}"
    note(f"{name}: {state}; it lists {counted(result.tool_count, 'tool')}")


async def _read_line() -> str:
    """A line of stdin; "" at its end. A person who types nothing does not keep the process."""
    loop = asyncio.get_running_loop()
    line: asyncio.Future[str] = loop.create_future()

    def finish(data: bytes) -> None:
        if not line.done():
            line.set_result(data.decode(errors="replace"))

    def read() -> None:
        data = b""
        # Not `sys.stdin.readline`: its lock would be taken when the process ends.
        with suppress(OSError, ValueError):
            while not data.endswith(b"\n") and (chunk := os.read(sys.stdin.fileno(), 4_096)):
                data += chunk
        with suppress(RuntimeError):  # the login is over
            loop.call_soon_threadsafe(finish, data)

    threading.Thread(target=read, daemon=True).start()
    return await line


@auth.command()
def metadata(
    address: Annotated[
        str,
        typer.Argument(metavar="URL", help="The https address where you will host the document."),
    ],
    callback_port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT", min=1, max=65_535, help="The port of `callbackPort`, if you set one."
        ),
    ] = None,
) -> None:
    """Print the client id metadata document to host.

    Host it as application/json, and write its address as `clientMetadataUrl` into the entry of a
    server.
    """
    from ...gateway.connections.server_spec import check_document_address

    try:
        check_document_address(address)
    except ValueError as error:
        raise typer.BadParameter(f"URL: {error}") from None
    from ...gateway.connections.oauth import client_metadata_document

    write_json(client_metadata_document(address, callback_port))


@auth.command()
def logout(name: _NameArgument, config: RequiredServersOption) -> None:
    """Delete the stored login to a server."""
    spec = _find_server(name, config)
    from ...gateway.connections.oauth import LoginStorage

    LoginStorage(spec).forget()
    note(f"{name}: logged out")


@auth.command()
def status(config: RequiredServersOption, as_json: JsonOption = False) -> None:
    """Show the logins to servers over HTTP, and when they expire."""
    client_config = read_gateway_files(config, None).client_config
    from ...gateway.connections.oauth import LoginStorage

    rows: list[dict[str, Any]] = []
    for spec in client_config.servers:
        if spec.transport in ("http", "sse"):
            storage = LoginStorage(spec)
            login = storage.login
            rows.append(
                {
                    "server": spec.name,
                    "logged_in": login.tokens is not None,
                    "renewed": login.tokens is not None and login.tokens.refresh_token is not None,
                    "expires_at": login.expires_at,
                    "client": storage.client_kind,
                }
            )
    if as_json:
        write_json(rows)
        return
    if not rows:
        note(f"{config}: no server over HTTP, so no logins")
        return
    table = plain_table("server", "login", "access token ends", "client")
    for row in rows:
        state = (
            "none"
            if not row["logged_in"]
            else "renewed automatically"
            if row["renewed"]
            else "once"
        )
        table.add_row(row["server"], state, _time_text(row["expires_at"]), row["client"] or "")
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
