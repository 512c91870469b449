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

if TYPE_CHECKING:
    from ..gateway.profiles.profile import Profile
    from ..gateway.upstream.fleet import Fleet

HOW_TO_NAME_EXAMPLES_FILE = (
    "start `shortlist inspect` with --examples FILE, or name a file in the gateway's setting "
    "engine.index.example_queries"
)
"""How an operator gets a file for new example queries."""


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
        follow_lists: applies lists of servers that another process saved.
    """

    engine: Engine
    name: str
    history: EventHistory = field(default_factory=EventHistory)
    fleet: Fleet | None = None
    profiles: Callable[[], Mapping[str, Profile]] = dict
    pins: Path | None = None
    examples: Path | None = None
    follow_pins: Callable[[], Awaitable[None]] | None = None
    follow_lists: Callable[[], Awaitable[None]] | None = None
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

    async def refresh(self) -> None:
        """Apply lists and pins that another process changed, and read new events."""
        if self.follow_lists is not None:
            await self.follow_lists()
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

    def _pins_stamp(self) -> tuple[tuple[str, int], ...]:
        return () if self.pins is None else pins_stamp(self.pins)

    def _reload_pins(self) -> None:
        self.engine.reload_pins()
