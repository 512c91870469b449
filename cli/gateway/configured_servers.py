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
    from ...engine import Engine
    from ...gateway.clients.client_config import ClientConfig
    from ...gateway.profiles.gateway_settings import GatewaySettings
    from ...gateway.upstream.fleet import Fleet

CONFIG_HELP = "File with MCP servers, such as mcp.json, or of a client that starts the gateway."
_SERVERS_OPTION = typer.Option("--config", metavar="FILE", help=CONFIG_HELP)
ServersOption = Annotated[Path | None, _SERVERS_OPTION]
RequiredServersOption = Annotated[Path, _SERVERS_OPTION]
GatewayFileOption = Annotated[
    Path, typer.Option("--config", metavar="FILE", help="The gateway's file with MCP servers.")
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Write without asking.")]
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
    def events(self) -> Path | None:
        """The file of events that the settings name; None if none is named."""
        name = self.settings.events
        return None if name is None else self.path.parent / Path(name).expanduser()

    @property
    def pins(self) -> Path:
        """The gateway's file of accepted definitions. It need not exist."""
        from ...gateway.upstream.first_use import default_pins

        return self.settings.pins or default_pins(self.path)

    def fleet(
        self, engine: Mapping[str, Any], descriptions: Mapping[str, str] | None = None
    ) -> Fleet:
        """The servers with the tools that they listed last; none is started.

        Args:
            engine: settings of the engine.
            descriptions: server that starts when it is called, to what models read of it.
        """
        from ...gateway.upstream.fleet import Fleet

        return Fleet(
            self.client_config.servers,
            engine_settings=dict(engine),
            descriptions=descriptions,
            unusable_servers=self.client_config.unusable_servers,
            starts_unlisted=False,
        )

    def fleet_with_pins(self, **engine: Any) -> Fleet:
        """`fleet` with the gateway's own settings and pins. What is not listed is on stderr.

        Args:
            engine: settings of the engine that differ from the gateway's.
        """
        settings = {**self.settings.engine, **engine}
        if self.pins.exists():  # the gateway makes the file when it first serves
            settings["trust"] = {**settings.get("trust", {}), "pins": self.pins}
        fleet = self.fleet(settings, self.settings.catalog)
        note_unlisted_servers(fleet, self.path)
        return fleet


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

    gateways = read_client_config(config, expand=False).started_gateways
    others = {path: own for path, own in gateways.items() if path.resolve() != config.resolve()}
    if not others:
        return config, settings
    if len(others) > 1:
        listed = ", ".join(map(str, others))
        raise ConfigError(f"{config}: starts several gateways; give one of their files: {listed}")
    [(path, own_settings)] = others.items()
    note(f"{config} starts the gateway of {path}; that file is used")
    return path, settings or own_settings


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


def note_unlisted_servers(fleet: Fleet, config: Path) -> None:
    """Name the servers whose tools are not known on stderr, with what to do about each."""
    if fleet.unlisted_servers:
        note(
            f"no tools known yet of: {', '.join(fleet.unlisted_servers)}; "
            f"`shortlist doctor --config {config}` starts them, and says what is wrong"
        )
    for name, problem in fleet.unusable_servers.items():
        note(f"server {name!r} is left out: {problem}")


def listed_engine(files: GatewayFiles, **engine: Any) -> tuple[Engine, Fleet]:
    """The engine of a gateway over the tools that its servers listed last, and the servers.

    Raises:
        ConfigError: no server has listed a tool yet.
    """
    fleet = files.fleet_with_pins(**engine)
    if not len(fleet.engine.catalog):
        raise ConfigError(
            f"{files.path}: no server has listed a tool yet; `shortlist doctor --config "
            f"{files.path}` starts them and lists their tools"
        )
    fleet.engine.wait()
    return fleet.engine, fleet
