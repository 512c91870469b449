"""The servers of a client's configuration file, and the tools they listed last."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import MissingExtraError
from ..console import note

if TYPE_CHECKING:
    from ...catalog import Catalog
    from ...gateway.clients.client_config import ClientConfig
    from ...gateway.profiles.gateway_settings import GatewaySettings
    from ...gateway.upstream.fleet import Fleet


ServersOption = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="File with MCP servers, such as a client's mcp.json."
    ),
]
SettingsOption = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        metavar="FILE",
        help="With --config: settings of the gateway, if not in that file.",
    ),
]


def read_configured(config: Path, settings: Path | None) -> tuple[ClientConfig, GatewaySettings]:
    """The servers of a file and the settings of the gateway.

    Raises:
        MissingExtraError: the extra `gateway` is not installed.
        ConfigError: a file cannot be read, or a setting is wrong.
    """
    try:
        import mcp  # noqa: F401
    except ImportError as missing:
        raise MissingExtraError("the gateway", "gateway") from missing
    from ...gateway.clients.client_config import read_client_config
    from ...gateway.profiles.gateway_settings import read_gateway_settings

    client_config = read_client_config(config)
    return client_config, read_gateway_settings(client_config, settings)


def fleet_of(client_config: ClientConfig, engine: Mapping[str, Any]) -> Fleet:
    """The servers of a file, none of them started.

    Args:
        client_config: the file.
        engine: settings of `Config`.
    """
    from ...gateway.upstream.fleet import Fleet

    return Fleet(client_config.servers, engine_settings=dict(engine))


@contextmanager
def logs_silenced() -> Iterator[None]:
    """While it lasts, what servers cause to be logged is not printed, because a report says it."""
    loggers = [logging.getLogger(name) for name in ("shortlist.gateway", "shortlist.trust", "mcp")]
    before = [(logger.propagate, logger.handlers) for logger in loggers]
    for logger in loggers:
        logger.propagate, logger.handlers = False, [logging.NullHandler()]
    try:
        yield
    finally:
        for logger, (propagate, handlers) in zip(loggers, before, strict=True):
            logger.propagate, logger.handlers = propagate, handlers


def gateway_catalog(config: Path, settings: Path | None = None) -> tuple[Catalog, Path]:
    """The catalog of a gateway without starting a server, and its file of pins.

    Servers that never ran here are named on stderr.

    Args:
        config: file with the servers.
        settings: the gateway's settings, if not in it.

    Raises:
        ConfigError: a file cannot be read.
        MissingExtraError: the gateway is not installed.
    """
    from ...errors import MissingExtraError

    try:
        from ...gateway.upstream.first_use import default_pins
        from ...gateway.upstream.fleet import Fleet
    except ImportError as missing:
        raise MissingExtraError("the gateway", "gateway") from missing
    from ...gateway.clients.client_config import read_client_config
    from ...gateway.profiles.gateway_settings import read_gateway_settings

    client_config = read_client_config(config)
    gateway_settings = read_gateway_settings(client_config, settings)
    fleet = Fleet(
        client_config.servers, engine_settings={"tiers": ["lexical"], "trust": {"scan": False}}
    )
    if fleet.never_listed:
        note(f"not known yet, since they never ran: {', '.join(fleet.never_listed)}")
    return fleet.engine.catalog, gateway_settings.pins or default_pins(config)
