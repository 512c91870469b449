"""What the page shows: an engine, its callers, its pins, its example queries and its events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from ..engine import Engine
from ..enrichment.example_file import add_example_query
from ..errors import ConfigError, PinsError
from ..gating import State
from ..trust import approve_definitions, pins_stamp
from ..view import View
from .event_history import EventHistory
from .server_states import ServerStates, gateway_states

if TYPE_CHECKING:
    from ..gateway.clients.client_config import ClientConfig
    from ..gateway.profiles.profile import Profile
    from ..gateway.upstream.fleet import Fleet

HOW_TO_NAME_EXAMPLES_FILE = (
    "start `shortlist inspect` with --examples FILE, or name a file in the gateway's setting "
    "engine.index.example_queries"
)
"""How an operator gets a file for new example queries."""


#: Seconds in which a gateway applies a changed configuration file.
_CONFIG_LIMIT_S = 5.0


def _no_config() -> None:
    return None


@dataclass(slots=True)
class Subject:
    """The engine that the page shows, and what belongs to it.

    Args:
        engine: the engine.
        name: path of the index or of the configuration, for the page's title.
        history: recorded events.
        fleet: servers of a gateway; None for a saved index.
        profiles: returns the profiles of a gateway's clients; empty for a saved index.
        pins: file of accepted definitions; None if none is used.
        examples: file that gets new example queries; None if none is used.
        follow_pins: applies pins that another process changed.
        follow_gateway: applies what a gateway in another process saved, and its changed
            configuration.
        client_config: returns the configuration with the servers; None for a saved index.
        serves_clients: whether the fleet serves clients in this process.
    """

    engine: Engine
    name: str
    history: EventHistory = field(default_factory=EventHistory)
    fleet: Fleet | None = None
    profiles: Callable[[], Mapping[str, Profile]] = dict
    pins: Path | None = None
    examples: Path | None = None
    follow_pins: Callable[[], Awaitable[None]] | None = None
    follow_gateway: Callable[[], Awaitable[None]] | None = None
    client_config: Callable[[], ClientConfig | None] = _no_config
    serves_clients: bool = False
    _last_pins_stamp: tuple[tuple[str, int], ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        self._last_pins_stamp = self._pins_stamp()

    def view(
        self,
        profile: str | None = None,
        scopes: Iterable[str] | None = None,
        allowed: Iterable[str] | None = None,
    ) -> View:
        """What a caller may use now.

        Args:
            profile: name of a gateway's profile; None for a caller that no profile limits.
            scopes: granted scopes; those of the profile when absent.
            allowed: ids or globs that the caller is limited to; all tools when absent.

        Raises:
            ConfigError: there is no such profile.
        """
        if profile is None:
            return self.engine.view(State(frozenset(scopes or ())), allowed=allowed)
        from ..gateway.profiles.profile import ProfileViews

        profiles = self.profiles()
        if profile not in profiles:
            raise ConfigError(f"no profile {profile!r:.80}; use one of: {', '.join(profiles)}")
        chosen_profile = profiles[profile]
        if scopes is not None:
            chosen_profile = replace(chosen_profile, scopes=frozenset(scopes))
        fleet = self.fleet
        hidden_ids = frozenset if fleet is None else (lambda: fleet.hidden_ids)
        return ProfileViews(engine=self.engine, profile=chosen_profile, hidden_ids=hidden_ids).view(
            State(), allowed=allowed
        )

    @property
    def tiers(self) -> list[str]:
        """The tiers, the one that answers by default first."""
        tiers = list(self.engine.tiers)
        default = self.engine.config.default_tier
        first = default if default in tiers else tiers[-1]
        return sorted(tiers, key=lambda tier: tier != first)

    async def refresh(self) -> None:
        """Apply what another process changed, and read new events."""
        if self.follow_gateway is not None:
            await self.follow_gateway()
        if self.follow_pins is not None:
            await self.follow_pins()
        elif self.pins is not None:
            stamp = self._pins_stamp()
            if stamp != self._last_pins_stamp:
                await anyio.to_thread.run_sync(self._reload_pins)
                self._last_pins_stamp = stamp
        await anyio.to_thread.run_sync(self.history.read_new)

    async def approve(self, tool_id: str, fingerprint: str, pinned: str) -> None:
        """Approve the definition that the operator has read.

        Args:
            tool_id: id of the tool.
            fingerprint: fingerprint of that definition.
            pinned: fingerprint of the pin that it was compared with; "" if there was none.

        Raises:
            UnknownToolError: no such tool.
            PinsError: no file of pins is used, or the definition or its pin changed meanwhile.
        """
        if self.pins is None:
            raise PinsError("no file of pins: start with --pins FILE to approve definitions")
        await self.refresh()
        tool = self.engine.catalog.get(tool_id)
        if tool.fingerprint != fingerprint:
            raise PinsError(f"{tool.id}: its definition changed since you saw it; read it again")
        path = self.pins
        await anyio.to_thread.run_sync(
            lambda: approve_definitions(path, [tool], pinned={tool.id: pinned})
        )
        await self.refresh()

    async def act_on_server(self, name: str, action: str) -> None:
        """Start, stop, disable or enable a server.

        Args:
            name: the server.
            action: `start`, `stop`, `disable` or `enable`. The last two change the configuration
                file, which a gateway follows.

        Raises:
            ConfigError: there is no such server or action, the file cannot be changed, or no
                gateway runs.
            CatalogError: there is no such server or action.
        """
        config = self.client_config()
        if config is None:
            raise ConfigError("a saved index has no servers to start; use --config FILE")
        if action in ("disable", "enable"):
            from ..gateway.clients.client_config import disable_server

            disabled = action == "disable"
            await anyio.to_thread.run_sync(
                lambda: disable_server(config.path, name, disabled=disabled)
            )
            with anyio.move_on_after(_CONFIG_LIMIT_S):
                while not self._is_applied(name, disabled=disabled):
                    await anyio.sleep(0.02)
                    await self.refresh()
        elif self.serves_clients and self.fleet is not None:
            await self.fleet.start_or_stop(name, action)
        else:
            await anyio.to_thread.run_sync(_ask_gateways, config, name, action)

    def add_example(self, tool_id: str, query: str) -> None:
        """Add an example query to the user's file, and search with it from now on.

        Raises:
            UnknownToolError: no such tool.
            ConfigError: no file of example queries is used, or it cannot be written.
        """
        if self.examples is None:
            raise ConfigError(f"no file of example queries: {HOW_TO_NAME_EXAMPLES_FILE}")
        add_example_query(self.examples, self.engine.catalog.get(tool_id).id, query)
        self.engine.reload_example_queries()

    def server_states(self) -> ServerStates:
        """The servers now. Reads files and asks gateways: not for an event loop."""
        return ServerStates(
            self.client_config(), self.fleet, self.history, serves_clients=self.serves_clients
        )

    def _is_applied(self, name: str, *, disabled: bool) -> bool:
        """Whether a server that was disabled or enabled in the file is so here."""
        config = self.client_config()
        servers = {} if self.fleet is None else self.fleet.upstreams
        if config is None or not disabled:
            return config is None or name in servers or name in config.unusable_servers
        is_disabled = any(spec.name == name and spec.disabled for spec in config.servers)
        return is_disabled and name not in servers

    def _pins_stamp(self) -> tuple[tuple[str, int], ...]:
        return () if self.pins is None else pins_stamp(self.pins)

    def _reload_pins(self) -> None:
        self.engine.reload_pins()


def _ask_gateways(config: ClientConfig, name: str, action: str) -> None:
    """Have the background gateways of a file start or stop a server."""
    if not list(gateway_states(config, action, name)):
        raise ConfigError(f"no gateway of {config.path} runs in the background; start a client")
