"""The servers of a client's configuration file, and the tools they listed last."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import ConfigError, MissingExtraError
from ..console import note

if TYPE_CHECKING:
    from ...catalog import Catalog
    from ...gateway.clients.client_config import ClientConfig
    from ...gateway.profiles.gateway_settings import GatewaySettings
    from ...gateway.upstream.fleet import Fleet


CONFIG_HELP = "File with MCP servers, such as mcp.json, or of a client that starts the gateway."
ServersOption = Annotated[Path | None, typer.Option("--config", metavar="FILE", help=CONFIG_HELP)]
SettingsOption = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        metavar="FILE",
        help="With --config: settings of the gateway, if not in that file.",
    ),
]


@dataclass(frozen=True, slots=True)
class GatewayFiles:
    """The files of a gateway, read.

    Args:
        client_config: the file with the servers.
        settings_path: the file of settings, if the gateway has one beside it.
        settings: the gateway's settings.
    """

    client_config: ClientConfig
    settings_path: Path | None
    settings: GatewaySettings

    @property
    def path(self) -> Path:
        """The file with the servers."""
        return self.client_config.path

    @property
    def pins(self) -> Path:
        """The gateway's file of accepted definitions. It need not exist."""
        from ...gateway.upstream.first_use import default_pins

        return self.settings.pins or default_pins(self.path)


def read_gateway_files(config: Path, settings: Path | None) -> GatewayFiles:
    """The servers of a file and the settings of the gateway.

    The file of a client that starts a gateway stands for the gateway's own file.

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

    path, settings_path = gateway_paths(config, settings)
    client_config = read_client_config(path)
    gateway_settings = read_gateway_settings(client_config, settings_path)
    return GatewayFiles(
        client_config=client_config, settings_path=settings_path, settings=gateway_settings
    )


def gateway_paths(config: Path, settings: Path | None) -> tuple[Path, Path | None]:
    """The gateway's file and its file of settings.

    Args:
        config: the gateway's file, or the file of a client that starts the gateway.
        settings: file of settings; otherwise the one that the client's entry names.

    Raises:
        ConfigError: the file cannot be read, or its entries start several gateways.
    """
    from ...gateway.clients.client_config import read_client_config
    from ...gateway.clients.client_import import started_gateways

    gateways = started_gateways(read_client_config(config, expand=False))
    others = {path: own for path, own in gateways.items() if path.resolve() != config.resolve()}
    if not others:
        return config, settings
    if len(others) > 1:
        listed = ", ".join(map(str, others))
        raise ConfigError(f"{config}: starts several gateways; give one of their files: {listed}")
    [(path, own_settings)] = others.items()
    note(f"{config} starts the gateway of {path}; that file is used")
    return path, settings or own_settings


def unstarted_fleet(client_config: ClientConfig, engine: Mapping[str, Any]) -> Fleet:
    """The servers of a file, none of them started.

    Args:
        client_config: the file.
        engine: settings of `Config`.
    """
    from ...gateway.upstream.fleet import Fleet

    return Fleet(client_config.servers, engine_settings=dict(engine), starts_unlisted=False)


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
        config: the gateway's file, or the file of a client that starts the gateway.
        settings: the gateway's settings, if not in it.

    Raises:
        ConfigError: a file cannot be read.
        MissingExtraError: the gateway is not installed.
    """
    files = read_gateway_files(config, settings)
    engine = {"tiers": ["lexical"], "trust": {"scan": False}}
    fleet = unstarted_fleet(files.client_config, engine)
    if fleet.unlisted_servers:
        note(f"not known yet, since they never ran: {', '.join(fleet.unlisted_servers)}")
    return fleet.engine.catalog, files.pins
