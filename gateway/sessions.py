"""Which session a request belongs to, and what is kept for each."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import mcp.types as types
from mcp.server.session import ServerSession

from ..catalog import Catalog
from ..session import Session
from .profile import Profile
from .results import Results

#: Sessions kept; the least recently used is forgotten.
KEPT = 10_000
_SESSION = "mcp-session-id"


@dataclass(slots=True)
class ClientSession:
    """One client's session: its permission, its long results, and what was shown to it once."""

    profile: Profile
    session: Session
    results: Results
    #: What `tools/list` answers: decided by the first request, then the same bytes.
    listed: list[types.Tool] | None = None
    #: The catalog version that the session's permission was last made for.
    limited_to: Catalog | None = None
    #: Name of each tool shown directly, to its id.
    direct: dict[str, str] = field(default_factory=dict)
    #: Level from which on the client asked for log messages, and where to send those that no
    #: request of it caused.
    log_level: types.LoggingLevel | None = None
    log_listener: ServerSession | None = None


class ClientSessions:
    """The sessions of all clients. For one event loop.

    A client on stdin and stdout has one session. Over HTTP, a session is that of the header
    `mcp-session-id` under the client's profile; requests without one are each a session of their
    own, which share only the profile's stored results, whose ids nobody can guess.

    Args:
        begin: makes the session of a profile.
        profiles: name to profile; the name is that of the request's bearer token.
        default: profile of a request without a token.
    """

    def __init__(
        self,
        begin: Callable[[Profile], Session],
        default: Profile,
        profiles: Mapping[str, Profile] | None = None,
    ) -> None:
        self._begin = begin
        self._default = default
        self._profiles = dict(profiles or {})
        self._held: OrderedDict[tuple[str | None, str], ClientSession] = OrderedDict()
        self._shared: dict[str | None, Results] = {}

    def of(self, request: Any) -> ClientSession:
        """The session of a request.

        Args:
            request: the HTTP request; None on stdin and stdout.
        """
        name = None if request is None else request.scope.get("shortlist.profile")
        number = "" if request is None else request.headers.get(_SESSION, "")
        if request is not None and not number:
            profile = self._profile(name)
            results = self._shared.setdefault(name, Results(profile.result_tokens))
            return ClientSession(profile, self._begin(profile), results)
        key = (name, number)
        held = self._held.get(key)
        if held is None:
            profile = self._profile(name)
            held = ClientSession(profile, self._begin(profile), Results(profile.result_tokens))
            self._held[key] = held
        self._held.move_to_end(key)
        if len(self._held) > KEPT:
            self._held.popitem(last=False)[1].results.clear()
        return held

    def all(self) -> list[ClientSession]:
        """The sessions that are kept."""
        return list(self._held.values())

    def __len__(self) -> int:
        """How many sessions are kept."""
        return len(self._held)

    def _profile(self, name: str | None) -> Profile:
        return self._default if name is None else self._profiles[name]
