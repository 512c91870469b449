"""`shortlist serve`: the gateway."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..console import note
from .attaching import note_own_gateway, run_attached
from .configured_servers import GatewayFiles

DEFAULT_PROFILE_NAME = "default"
_MAX_PORT = 65535
#: Bytes of the file of events at which a new one begins: clients decide how many events there are.
_MAX_EVENT_BYTES = 256_000_000
#: Variable with the seconds after which a gateway without clients ends; tests use it.
_IDLE_VARIABLE = "SHORTLIST_IDLE_END_S"

if TYPE_CHECKING:
    from anyio import CancelScope

    from ...gateway.clients.client_config import ClientConfig
    from ...gateway.upstream.fleet import Fleet
    from ...inspector.subject import GatewaySubject


def serve(
    config: Annotated[
        Path,
        typer.Option("--config", metavar="FILE", help="File with MCP servers, such as mcp.json."),
    ],
    settings: Annotated[
        Path | None,
        typer.Option(
            "--settings", metavar="FILE", help="Settings of the gateway, if not in --config."
        ),
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(
            "--http",
            metavar="HOST:PORT",
            help="Serve streamable HTTP at /mcp instead of stdin/stdout.",
        ),
    ] = None,
    profile: Annotated[
        str, typer.Option(metavar="NAME", help="Profile of clients that send no token.")
    ] = DEFAULT_PROFILE_NAME,
    alone: Annotated[
        bool,
        typer.Option(
            "--alone", help="Run the gateway in this process, and share it with no other client."
        ),
    ] = False,
    background: Annotated[
        str | None,
        typer.Option(
            metavar="LOCK:SOCKET", hidden=True, help="Serve attached clients; used by serve itself."
        ),
    ] = None,
) -> None:
    """Run the gateway: one MCP server in front of all of yours.

    Over stdin/stdout, clients with the same configuration share one gateway. It runs in the
    background, and ends five minutes after its last client.
    """
    if background is None and http is None and not alone and sys.platform != "win32":
        from ...gateway.attach.socket_folder import AttachError

        try:
            run_attached(config, settings, profile)
        except AttachError as error:
            note_own_gateway(config, settings, error)
        else:
            return
    _serve_here(config, settings, http, profile, background)


def _serve_here(
    config: Path, settings: Path | None, http: str | None, profile: str, background: str | None
) -> None:
    """Run the gateway in this process.

    Args:
        config: file with the servers.
        settings: file of settings.
        http: address to listen on; None for stdin and stdout, or a socket.
        profile: profile of clients that send no token.
        background: descriptor of the lock and path of the socket, `LOCK:PATH`, if this is the
            background gateway.
    """
    from ...errors import MissingExtraError

    lock, _, socket = (background or "").partition(":")
    if lock:
        from ...gateway.attach.running_gateway import record_running

        record_running(int(lock), config)
    # What is imported and read here stays: looking for garbage in it takes a tenth of the start.
    gc.disable()
    # The SDK logs texts of servers and clients as they are, without limit. What an operator needs
    # is in the gateway's own lines.
    logging.getLogger("mcp").setLevel(logging.CRITICAL)
    try:
        import anyio

        from ...gateway.config_watch import reload_on_change
        from ...gateway.observe.gateway_metrics import Metrics
        from ...gateway.observe.observer import Observer
        from ...gateway.server import Gateway
        from ...gateway.upstream.first_use import FirstUsePins, approvals_file
        from ...gateway.upstream.fleet import Fleet
        from ...integrations.opentelemetry import OpenTelemetry
    except ImportError as missing:
        raise MissingExtraError("the gateway", "gateway") from missing
    from ...gateway.clients.client_config import read_client_config
    from ...gateway.profiles.gateway_settings import read_gateway_settings
    from ...gateway.profiles.profile import ClientProfiles
    from ...gateway.profiles.remembered_approvals import RememberedApprovals
    from ...gateway.relay.tasks import read_task_key
    from ...gateway.upstream.start_cache import ListingCache
    from ...session import EventSink, JsonLines

    client_config = read_client_config(config)

    def problems_of(changed: ClientConfig) -> tuple[str, ...]:
        return tuple(f"{config}: {problem}" for problem in changed.problems)

    problems = problems_of(client_config)
    for problem in problems:
        note(problem)
    gateway_settings = read_gateway_settings(client_config, settings)
    configured = {spec.name for spec in client_config.servers}
    if unknown := [name for name in gateway_settings.catalog if name not in configured]:
        raise typer.BadParameter(
            f"shortlist.catalog: no server {unknown[0]!r:.80} in {config}; a server in the catalog "
            "needs an entry under mcpServers too"
        )
    over_http, attached = http is not None, background is not None
    clients = ClientProfiles.of(gateway_settings, profile, over_http=over_http, attached=attached)
    content = gateway_settings.event_content is True
    # On the machine of the operator, hashes would only hide what to improve.
    has_queries = gateway_settings.event_content is None and _serves_this_machine(http)
    sinks: list[EventSink] = [OpenTelemetry(queries=content)]
    files = GatewayFiles(client_config, settings, gateway_settings)
    if files.events is not None:
        sinks.append(JsonLines(files.events, max_bytes=_MAX_EVENT_BYTES))
    shared = gateway_settings.shared_texts()
    fleet = Fleet(
        client_config.servers,
        listing_cache=ListingCache.default(shared),
        engine_settings=dict(gateway_settings.engine),
        idle_stop_s=gateway_settings.idle_stop_s,
        descriptions=gateway_settings.catalog,
        timeouts=gateway_settings.timeouts,
        pins=FirstUsePins(files.pins, shared),
        unusable_servers=client_config.unusable_servers,
    )
    # Without HTTP nobody can ask for metrics or the page.
    operator_token = gateway_settings.operator_token if over_http else None
    subject: GatewaySubject | None = None
    if operator_token is not None:
        from ...inspector.event_history import EventHistory
        from ...inspector.subject import GatewaySubject

        subject = GatewaySubject(
            fleet, client_config, clients, EventHistory(), files.pins, serves_clients=True
        )
        sinks.append(subject.history)
    metrics = Metrics(fleet, lambda: len(gateway.sessions)) if http else None
    if metrics is not None:
        sinks.append(metrics)
    gateway = Gateway(
        fleet=fleet,
        profile=clients.default,
        profiles=clients.profiles,
        observer=Observer(*sinks, content=content, queries=content or has_queries),
        shared=shared,
        task_key=read_task_key(shared),
        remembered=RememberedApprovals(approvals_file(config), gateway_settings.approval_days),
    )
    if any(served.has_run_code for served in (clients.default, *clients.profiles.values())):
        # A missing extra is an error at the start, not in the first script.
        _ = gateway.code_mode

    def choose_profile(name: str) -> str | None:
        """The key of an attached client's profile."""
        gateway_settings.profile(name)
        return None if name == DEFAULT_PROFILE_NAME else name

    socket_server = None
    if background is not None:
        from ...gateway.socket_server import SocketServer

        idle_end_s = float(os.environ.get(_IDLE_VARIABLE, 300))
        socket_server = SocketServer(
            gateway=gateway, choose_profile=choose_profile, problems=problems, idle_end_s=idle_end_s
        )
        serving: Callable[[], Awaitable[None]] = partial(socket_server.serve, Path(socket))
    elif http is None:
        serving = gateway.serve_stdio
    else:
        from ...gateway.http_server import check_can_listen, serve_http

        host, port = _host_and_port(http)
        if not _serves_this_machine(http) and not clients.tokens:
            raise typer.BadParameter(
                f"--http {http}: other machines reach this address; give each profile a token first"
            )
        check_can_listen(host, port)
        secret, page = gateway_settings.metrics_token, None
        if operator_token is not None and subject is not None:
            from ...inspector.page_app import page_app

            page = page_app(subject, operator_token.get_secret_value())
        serving = partial(
            serve_http,
            gateway,
            host,
            port,
            clients.tokens,
            metrics=metrics,
            metrics_token=None if secret is None else secret.get_secret_value(),
            page=page,
            on_start=lambda at: note(f"http://{host}:{at}/mcp"),
        )

    def follow(changed: ClientConfig) -> None:
        """Take over changed profiles, and what each new client is told."""
        if socket_server is not None:
            socket_server.problems = problems_of(changed)
        new_settings = read_gateway_settings(changed, settings)
        new_clients = ClientProfiles.of(
            new_settings, profile, over_http=over_http, attached=attached
        )
        gateway.sessions.replace_profiles(new_clients.default, new_clients.profiles)
        nonlocal gateway_settings
        gateway_settings = new_settings
        if subject is not None:
            subject.config, subject.clients = changed, new_clients

    async def run() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(reload_on_change, config, gateway.fleet, follow)
            group.start_soon(
                partial(
                    _stopped_by_signal,
                    group.cancel_scope,
                    gateway.fleet,
                    at_once=http is None and background is None,
                )
            )
            try:
                await serving()
            finally:
                with anyio.CancelScope(shield=True):
                    await gateway.aclose()
            group.cancel_scope.cancel()

    gc.freeze()
    gc.enable()
    anyio.run(run)


def _host_and_port(http: str) -> tuple[str, int]:
    """The two parts of `HOST:PORT`; the host is this machine where none is named."""
    host, _, port = http.rpartition(":")
    if not port.isdecimal() or int(port) > _MAX_PORT:
        raise typer.BadParameter(f"--http {http!r}: HOST:PORT, such as 127.0.0.1:8765")
    return host.strip("[]") or "127.0.0.1", int(port)


def _serves_this_machine(http: str | None) -> bool:
    """Whether only programs of this machine reach the gateway."""
    if http is None:
        return True
    from ...gateway.http_server import LOOPBACK_HOSTS

    return _host_and_port(http)[0] in LOOPBACK_HOSTS


async def _stopped_by_signal(scope: CancelScope, fleet: Fleet, *, at_once: bool) -> None:
    """Stop the gateway as the end of its input does, so that the servers behind stop as well."""
    import anyio

    if sys.platform == "win32":
        return
    stopping = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
        stopping.append(signal.SIGHUP)
    with anyio.open_signal_receiver(*stopping) as received:
        async for _ in received:
            scope.cancel()
            if at_once:
                # A thread that reads stdin cannot be interrupted and would keep the process.
                with anyio.CancelScope(shield=True):
                    await fleet.stopped.wait()
                os._exit(0)
            return
