"""The servers of a client's configuration file, and the tools they listed last."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import ConfigError, MissingExtraError
from ..console import note

if TYPE_CHECKING:
    from ...catalog import Catalog
    from ...engine import Engine
    from ...gateway.clients.client_config import ClientConfig
    from ...gateway.profiles.gateway_settings import GatewaySettings
    from ...gateway.upstream.fleet import Fleet
    from ...gating import State
    from ...view import View

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
    def events(self) -> Path | None:
        """The file of events that the settings name; None if none is named."""
        name = self.settings.events
        return None if name is None else self.path.parent / Path(name).expanduser()

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


def unstarted_fleet(client_config: ClientConfig, engine: Mapping[str, Any]) -> Fleet:
    """The servers of a file, none of them started.

    Args:
        client_config: the file.
        engine: settings of `Config`.
    """
    from ...gateway.upstream.fleet import Fleet

    return Fleet(
        client_config.servers,
        engine_settings=dict(engine),
        unusable_servers=client_config.unusable_servers,
        starts_unlisted=False,
    )


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
    """The tools and skills of a gateway without starting a server, and its file of pins.

    Servers that never ran here are named on stderr.

    Args:
        config: the gateway's file, or the file of a client that starts the gateway.
        settings: the gateway's settings, if not in it.

    Raises:
        ConfigError: a file cannot be read.
        MissingExtraError: the gateway is not installed.
    """
    from ...catalog import Catalog

    files = read_gateway_files(config, settings)
    engine = {"tiers": ["lexical"], "trust": {"scan": False}}
    fleet = unstarted_fleet(files.client_config, engine)
    note_unlisted_servers(fleet, config)
    return Catalog([*fleet.engine.catalog, *fleet.listed_tools.skill_tools()]), files.pins


def note_unlisted_servers(fleet: Fleet, config: Path) -> None:
    """Name the servers whose tools are not known on stderr, with what to do about each."""
    if fleet.unlisted_servers:
        note(
            f"no tools known yet of: {', '.join(fleet.unlisted_servers)}; "
            f"`shortlist doctor --config {config}` starts them, and says what is wrong"
        )
    for name, problem in fleet.unusable_servers.items():
        note(f"server {name!r} is left out: {problem}")


def gateway_engine(
    config: Path, settings: Path | None, tiers: Iterable[str] | None = None
) -> tuple[Engine, GatewayFiles, Fleet]:
    """The engine of a gateway over the tools that its servers listed last; no server is started.

    Args:
        config: the gateway's file, or the file of a client that starts the gateway.
        settings: the gateway's settings, if not in it.
        tiers: tiers to build; those of the settings when absent.

    Raises:
        ConfigError: a file cannot be read, or no server has listed a tool yet.
        MissingExtraError: the gateway is not installed.
    """
    files = read_gateway_files(config, settings)
    from ...gateway.upstream.fleet import Fleet

    engine_settings = dict(files.settings.engine)
    if tiers is not None:
        engine_settings |= {"tiers": list(tiers), "default_tier": next(iter(tiers))}
    if files.pins.exists():  # the gateway makes the file when it first serves
        engine_settings["trust"] = {**engine_settings.get("trust", {}), "pins": files.pins}
    fleet = Fleet(
        files.client_config.servers,
        engine_settings=engine_settings,
        descriptions=files.settings.catalog,
        unusable_servers=files.client_config.unusable_servers,
    )
    if not len(fleet.engine.catalog):
        raise ConfigError(
            f"{files.path}: no server has listed a tool yet; `shortlist doctor --config "
            f"{files.path}` starts them and lists their tools"
        )
    note_unlisted_servers(fleet, files.path)
    fleet.engine.wait()
    return fleet.engine, files, fleet


def gateway_view(
    config: Path,
    settings: Path | None,
    profile: str,
    state: State,
    allowed: Iterable[str] | None,
) -> tuple[Engine, View]:
    """What a client of a gateway may use, over the tools that the servers listed last.

    Args:
        config: the gateway's file, or the file of a client that starts the gateway.
        settings: the gateway's settings, if not in it.
        profile: name of the client's profile.
        state: earlier calls, facts, and scopes besides those of the profile.
        allowed: ids or globs that limit the tools further; all tools when absent.

    Raises:
        ConfigError: a file cannot be read, no server has listed a tool yet, or there is no such
            profile.
        MissingExtraError: the gateway is not installed.
    """
    engine, files, fleet = gateway_engine(config, settings)
    from ...gateway.profiles.profile import ClientProfiles, ProfileViews

    client = ClientProfiles.of(files.settings, profile).default
    client = replace(client, scopes=client.scopes | state.scopes)
    views = ProfileViews(engine=engine, profile=client, hidden_ids=lambda: fleet.hidden_ids)
    return engine, views.view(state, allowed=allowed)
