"""What the page shows: a saved index, or the servers of a gateway."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
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
    from ..gateway.profiles.profile import ClientProfiles, Profile
    from ..gateway.upstream.fleet import Fleet

HOW_TO_NAME_EXAMPLES_FILE = (
    "start `shortlist inspect` with --examples FILE, or name a file in the gateway's setting "
    "engine.index.example_queries"
)
"""How an operator gets a file for new example queries."""


#: Seconds in which a gateway applies a changed configuration file.
_CONFIG_LIMIT_S = 5.0


class Subject:
    """An engine over a saved index, and what belongs to it.

    Args:
        engine: the engine.
        name: path of the index, for the page's title.
        history: recorded events; none by default.
        pins: file of accepted definitions; None if none is used.

    Attributes:
        examples: file that gets new example queries, the last one of the settings; None without.
    """

    def __init__(
        self,
        engine: Engine,
        name: str,
        history: EventHistory | None = None,
        pins: Path | None = None,
    ) -> None:
        self.engine, self.name, self.pins = engine, name, pins
        self.history = EventHistory() if history is None else history
        paths = [each for each in engine.config.index.example_queries if isinstance(each, Path)]
        self.examples = paths[-1] if paths else None
        self._pins_stamp = self._present_pins_stamp()

    @property
    def profiles(self) -> Mapping[str, Profile]:
        """The profiles of a gateway's clients; none of a saved index."""
        return {}

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
        if profile is not None:
            names = ", ".join(self.profiles)
            raise ConfigError(f"no profile {profile!r:.80}; use one of: {names}")
        return self.engine.view(State(frozenset(scopes or ())), allowed=allowed)

    @property
    def tiers(self) -> list[str]:
        """The tiers, the one that answers by default first."""
        tiers = list(self.engine.tiers)
        default = self.engine.config.default_tier
        first = default if default in tiers else tiers[-1]
        return sorted(tiers, key=lambda tier: tier != first)

    async def refresh(self) -> None:
        """Apply what another process changed, and read new events."""
        await self._follow_pins()
        if self.history.has_new:
            await anyio.to_thread.run_sync(self.history.read_new)

    async def _follow_pins(self) -> None:
        stamp = self._present_pins_stamp()
        if stamp != self._pins_stamp:
            await anyio.to_thread.run_sync(self.engine.reload_pins)
            self._pins_stamp = stamp

    def _present_pins_stamp(self) -> tuple[tuple[str, int], ...]:
        return () if self.pins is None else pins_stamp(self.pins)

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

    async def act_on_server(self, name: str, action: str) -> None:  # noqa: ARG002
        """Refuse to act on a server: a saved index has none.

        Raises:
            ConfigError: always.
        """
        raise ConfigError("a saved index has no servers to start; use --config FILE")


class GatewaySubject(Subject):
    """The servers of a configuration file.

    Args:
        fleet: the servers.
        config: the file.
        clients: profiles of the gateway's clients.
        history: recorded events.
        pins: file of accepted definitions.
        serves_clients: whether the fleet serves clients in this process. Otherwise, the page
            follows the file and what a gateway in another process saves.
    """

    def __init__(
        self,
        fleet: Fleet,
        config: ClientConfig,
        clients: ClientProfiles,
        history: EventHistory,
        pins: Path | None = None,
        *,
        serves_clients: bool = False,
    ) -> None:
        super().__init__(fleet.engine, str(config.path), history, pins)
        self.fleet, self.config, self.clients = fleet, config, clients
        self.serves_clients = serves_clients
        self._config_stamp = _file_stamp(config.path)

    @property
    def profiles(self) -> Mapping[str, Profile]:
        """The profiles of the gateway's clients."""
        return self.clients.for_operators()

    def view(
        self,
        profile: str | None = None,
        scopes: Iterable[str] | None = None,
        allowed: Iterable[str] | None = None,
    ) -> View:
        """What a caller may use now."""
        if profile is None or profile not in self.profiles:
            return super().view(profile, scopes, allowed)
        from ..gateway.profiles.profile import ProfileViews

        client = self.profiles[profile]
        if scopes is not None:
            client = replace(client, scopes=frozenset(scopes))
        views = ProfileViews(self.engine, client, hidden_ids=lambda: self.fleet.hidden_ids)
        return views.view(State(), allowed=allowed)

    async def refresh(self) -> None:
        """Apply what another process changed, and read new events."""
        if not self.serves_clients:
            await self._follow_gateway()
        await super().refresh()

    async def _follow_pins(self) -> None:
        if self.serves_clients:
            await self.fleet.follow_pins()
        else:
            await super()._follow_pins()

    async def _follow_gateway(self) -> None:
        """Apply what a gateway in another process saved, and the changed configuration."""
        from ..gateway.clients.client_config import read_client_config
        from ..gateway.config_watch import use_servers

        stamp = _file_stamp(self.config.path)
        if stamp != self._config_stamp:
            self._config_stamp = stamp
            with suppress(ConfigError):  # the page itself says why a broken file is not used
                self.config = read_client_config(self.config.path)
                await use_servers(self.config, self.fleet)
        await self.fleet.follow_saved_lists()

    def server_states(self) -> ServerStates:
        """The servers now. Reads files and asks gateways: not for an event loop."""
        return ServerStates(
            self.config, self.fleet, self.history, serves_clients=self.serves_clients
        )

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
        path = self.config.path
        if action in ("disable", "enable"):
            from ..gateway.clients.client_config import disable_server

            disabled = action == "disable"
            await anyio.to_thread.run_sync(lambda: disable_server(path, name, disabled=disabled))
            with anyio.move_on_after(_CONFIG_LIMIT_S):
                while not self._is_applied(name, disabled=disabled):
                    await anyio.sleep(0.02)
                    await self.refresh()
        elif self.serves_clients:
            await self.fleet.start_or_stop(name, action)
        else:
            answers = await anyio.to_thread.run_sync(
                lambda: list(gateway_states(self.config, action, name))
            )
            if not answers:
                raise ConfigError(f"no gateway of {path} runs in the background; start a client")

    def _is_applied(self, name: str, *, disabled: bool) -> bool:
        """Whether a server that was disabled or enabled in the file is so here."""
        is_served = name in self.fleet.upstreams
        if not disabled:
            return is_served or name in self.config.unusable_servers
        is_disabled = any(spec.name == name and spec.disabled for spec in self.config.servers)
        return is_disabled and not is_served


def _file_stamp(path: Path) -> tuple[int, ...]:
    """What differs once a file was written again; empty without a file."""
    with suppress(OSError):
        status = path.stat()
        return status.st_mtime_ns, status.st_size, status.st_ino
    return ()
