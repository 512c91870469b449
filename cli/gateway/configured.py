"""The servers of a client's configuration file, for the commands that look at them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import MissingExtraError

if TYPE_CHECKING:
    from ...gateway.client_config import ClientConfig
    from ...gateway.fleet import Fleet
    from ...gateway.gateway_settings import GatewaySettings

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
    from ...gateway.client_config import read_client_config
    from ...gateway.gateway_settings import read_gateway_settings

    found = read_client_config(config)
    return found, read_gateway_settings(found, settings)


def fleet_of(found: ClientConfig, engine: Mapping[str, Any]) -> Fleet:
    """The servers of a file, none of them started.

    Args:
        found: the file.
        engine: settings of `Config`.
    """
    from ...gateway.fleet import Fleet

    return Fleet(found.servers, engine_settings=dict(engine))


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
