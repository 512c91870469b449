"""The sessions of clients, with their stored data and the servers they may use."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import mcp.types as types
from mcp.server.session import ServerSession

from ...gating import Votes
from ...session import Session
from ...view import View
from ..upstream.fleet import Fleet
from .long_results import ResultStore, SessionResults
from .profile import NOTHING, Profile, ProfileViews

#: Most sessions; the least recently used ones are deleted.
MAX_SESSIONS = 10_000
_SESSION = "mcp-session-id"
#: Kinds of refusals that calls and votes can cause and lift.
TEMPORARY_REFUSALS = frozenset({"precondition", "excluded"})


@dataclass(frozen=True, slots=True)
class ToolListing:
    """How a session's client sees the tools. Decided at its first request for them.

    Args:
        profile: the profile at that time.
        all_direct: whether all tools are shown directly.
        meta_tools: the meta-tools, with the same bytes until the profile changes.
    """

    profile: Profile
    all_direct: bool
    meta_tools: tuple[types.Tool, ...] = ()


@dataclass(slots=True, eq=False)
class ClientSession:
    """One client's MCP session, with its permissions and its long results."""

    views: ProfileViews
    session: Session
    results: SessionResults
    tool_listing: ToolListing | None = None
    #: Votes of the servers about the last search, valid until the next one.
    votes: Votes = field(default_factory=Votes)
    #: The client's log level, and the connection for log messages that belong to no request.
    log_level: types.LoggingLevel | None = None
    log_listener: ServerSession | None = None

    @property
    def id(self) -> str:
        """Id of the session. No other session has it."""
        return self.session.id

    @property
    def profile(self) -> Profile:
        """The client's profile at this moment."""
        return self.views.profile

    def view(self) -> View:
        """The tools that the model may use now."""
        return self.session.view(self.votes)

    def app_view(self) -> View:
        """The tools that a user interface in the client may call now."""
        return self.views.view(self.session.state, votes=self.votes, apps=True)

    def permits_server(self, name: str) -> bool:
        """Whether the client may see a server, and use its resources and prompts.

        Args:
            name: name of the server.
        """
        return self.views.permits_server(name, self.view())

    def may_read(self, tool_ids: tuple[str, ...], server: str, permission: object) -> bool:
        """Whether a stored result may be read.

        Args:
            tool_ids: ids of the called tools.
            server: server of the resource or prompt that was read; "" for tools.
            permission: the profile at the time of the call.
        """
        if server and not self.permits_server(server):
            return False
        view = self.app_view()
        return all(self._may_read(view, tool_id, permission) for tool_id in tool_ids)

    def _may_read(self, view: View, tool_id: str, permission: object) -> bool:
        if not view.exists(tool_id):
            return False
        refusal = view.refusal(tool_id)
        return refusal is None or (
            permission == self.profile and refusal.kind in TEMPORARY_REFUSALS
        )


class ClientSessions:
    """The sessions of all clients. For one event loop.

    A client over stdin/stdout has one session. Over HTTP, the header `mcp-session-id` and the
    profile identify a session. Each request without the header has a session of its own. Such
    requests share only the profile's stored results, whose ids cannot be guessed.

    Args:
        fleet: the servers.
        make_session: function that makes a session with the views of a profile.
        default: profile of a request without a token.
        profiles: name to profile. The bearer token of a request selects the name.

    Attributes:
        on_end: called with each deleted session.
    """

    def __init__(
        self,
        fleet: Fleet,
        make_session: Callable[[ProfileViews], Session],
        default: Profile,
        profiles: Mapping[str, Profile] | None = None,
    ) -> None:
        self._fleet = fleet
        self._make_session = make_session
        self._views: dict[str | None, ProfileViews] = {}
        self._clients: OrderedDict[tuple[str | None, str], ClientSession] = OrderedDict()
        self._store = ResultStore()
        self._shared_results: dict[str | None, SessionResults] = {}
        self.on_end: Callable[[ClientSession], None] | None = None
        self.change(default, profiles or {})

    def change(self, default: Profile, profiles: Mapping[str, Profile]) -> None:
        """Replace the profiles. Existing sessions follow at their next request.

        A session whose profile was removed may use nothing.

        Args:
            default: profile of a request without a token.
            profiles: name to profile.
        """
        new_profiles: dict[str | None, Profile] = {None: default}
        new_profiles.update(profiles)
        for name, views in self._views.items():
            views.profile = new_profiles.get(name, NOTHING)
        for name, profile in new_profiles.items():
            if name not in self._views:
                self._views[name] = ProfileViews(
                    self._fleet.engine, profile, lambda: self._fleet.listed.app_only
                )

    def of(self, request: Any) -> ClientSession:
        """The session of a request.

        Args:
            request: the HTTP request; None on stdin and stdout.
        """
        name = None if request is None else request.scope.get("shortlist.profile")
        mcp_session_id = "" if request is None else request.headers.get(_SESSION, "")
        if request is not None and not mcp_session_id:
            results = self._shared_results.get(name)
            if results is None:
                results = self._shared_results[name] = SessionResults(self._store)
            return self._new_session(name, results)
        client = self._clients.get((name, mcp_session_id))
        if client is None:
            client = self._clients[name, mcp_session_id] = self._new_session(
                name, SessionResults(self._store)
            )
        self._clients.move_to_end((name, mcp_session_id))
        if len(self._clients) > MAX_SESSIONS:
            self._discard(self._clients.popitem(last=False)[1])
        return client

    def all(self) -> list[ClientSession]:
        """All sessions."""
        return list(self._clients.values())

    def __len__(self) -> int:
        """Number of sessions."""
        return len(self._clients)

    @property
    def stored_chars(self) -> int:
        """Number of characters of all stored results."""
        return self._store.chars

    def end(self, name: str | None, mcp_session_id: str) -> None:
        """Delete a session and its results.

        Args:
            name: name of its profile; None for the default one.
            mcp_session_id: value of the header `mcp-session-id`.
        """
        if (client := self._clients.pop((name, mcp_session_id), None)) is not None:
            self._discard(client)

    def _discard(self, client: ClientSession) -> None:
        client.results.clear()
        if self.on_end is not None:
            self.on_end(client)

    def _new_session(self, name: str | None, results: SessionResults) -> ClientSession:
        views = self._views[name]
        return ClientSession(views, self._make_session(views), results)


def permitted_servers(fleet: Fleet, client: ClientSession) -> list[str]:
    """Names of the servers that the client may use, in the fleet's order.

    If the client may use none of a server's tools, it may not use the rest of the server either.

    Args:
        fleet: the servers.
        client: session with the permissions.
    """
    view = client.view()
    return [name for name in fleet.upstreams if client.views.permits_server(name, view)]
