"""The sessions of clients, with their stored data and the servers they may use."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import mcp.types as types
from mcp.server.session import ServerSession
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ConfigDict

from ...catalog import Tool
from ...gating import Votes
from ...gating.verdict import Verdict
from ...loaders.levels import Level
from ...session import Session
from ...session.hosting import accept, note_read
from ...session.session_data import SessionData
from ...view import View
from ..upstream.call import Caller, RequestContext
from ..upstream.fleet import Fleet
from .approval_states import ApprovalStates
from .long_results import ResultMemory, ResultSource, SessionResults, SharedResults
from .profile import PROFILE_WITHOUT_TOOLS, Profile, ProfileViews

if TYPE_CHECKING:
    from ...retrieval.postgres.stored_texts import StoredTexts

Result = TypeVar("Result")

#: Most sessions; the least recently used ones are deleted.
MAX_SESSIONS = 10_000
_SESSION_HEADER, _VERSION_HEADER = "mcp-session-id", "mcp-protocol-version"
#: Seconds after its last change in which a conversation can be continued at any replica.
CONVERSATION_KEPT_S = 86_400.0
#: Kinds of refusals that calls and votes can cause and lift.
TEMPORARY_REFUSALS = frozenset({"precondition", "excluded"})


class ToolListing(BaseModel):
    """How a session's client sees the tools. Decided at its first request for them.

    Args:
        profile_fingerprint: fingerprint of the profile at that time.
        all_direct: whether all tools are shown directly.
        meta_tools: the meta-tools, with the same bytes until the profile changes.
    """

    model_config = ConfigDict(frozen=True)

    profile_fingerprint: str
    all_direct: bool
    meta_tools: tuple[types.Tool, ...] = ()


@dataclass(frozen=True, slots=True)
class SharedRecord:
    """One conversation in the state that all replicas of a gateway share.

    Args:
        state: the state.
        key: names the conversation. It is a hash of its id and the client's token, so that nobody
            continues a conversation with what is in the database.
    """

    state: StoredTexts
    key: str

    def read(self) -> str | None:
        """The present text; None if there is none."""
        return self.state.read("session", self.key)

    def change(self, change: Callable[[str | None], str | None]) -> None:
        """Replace the text in one step."""
        self.state.change("session", self.key, change, kept_s=CONVERSATION_KEPT_S)


@dataclass(slots=True, eq=False)
class ClientSession:
    """One client's MCP session, with its permissions and its long results.

    Args:
        profile_views: makes views with the client's profile.
        session: the conversation: calls, state and what was shown.
        stored_results: the client's long results.
        tool_listing: how the client sees the tools; None before its first request for them.
        log_level: the level that the client asked for; None if it asked for none.
        log_listener: connection for log messages that belong to no request.
        shared_record: the conversation as other replicas of the gateway see it; None if only this
            one has it.
        change_count: number of changes of the record that the session has seen.
        is_shared: whether the record or the results are in the database of all replicas.
        approvals: states of requests about which the client's user is asked.
    """

    profile_views: ProfileViews
    session: Session
    stored_results: SessionResults
    tool_listing: ToolListing | None = None
    log_level: types.LoggingLevel | None = None
    log_listener: ServerSession | None = None
    shared_record: SharedRecord | None = None
    change_count: int = 0
    is_shared: bool = False
    approvals: ApprovalStates = field(default_factory=ApprovalStates)

    @property
    def id(self) -> str:
        """Id of the session. No other session has it."""
        return self.session.id

    @property
    def profile(self) -> Profile:
        """The client's profile at this moment."""
        return self.profile_views.profile

    def view(self) -> View:
        """The tools that the model may use now."""
        return self.session.view()

    def app_view(self) -> View:
        """The tools that a user interface in the client may call now."""
        return self.profile_views.view(
            self.session.state, votes=self.session.votes, with_app_tools=True
        )

    def check(
        self,
        name: str,
        arguments: object,
        *,
        by_script: bool = False,
        approved: bool = False,
        require: Callable[[Tool], None] | None = None,
    ) -> Verdict:
        """The verdict on a call; see `Session.check`.

        Args:
            name: id, `server__tool`, name of a tool shown directly, or a name that is unique.
            arguments: arguments of the call.
            by_script: whether a script calls.
            approved: whether a person has approved this call.
            require: raises the error of a permitted tool that may not be called like this.
        """

        def decide() -> Verdict:
            view = self.view()
            verdict = view.check(self.tool_id(name, view), arguments, approved=approved)
            if require is not None and verdict.tool is not None:
                require(verdict.tool)
            return accept(self.session, verdict, view, by_script=by_script)

        return self._change(decide)

    def recheck(self, verdict: Verdict) -> Verdict:
        """The verdict on a call that passed `check`, after a wait."""
        return self.session.recheck(verdict)

    def tool_id(self, name: str, view: View) -> str:
        """The id of the tool with a name of the client. An unknown name is returned unchanged."""
        return self.profile_views.call_names(view.catalog).resolve(name, view)

    def note_read(self, levels: Iterable[tuple[Tool, Level]]) -> None:
        """Note how much the model has read of these tools, for all replicas."""
        levels = list(levels)

        def note() -> None:
            for tool, level in levels:
                note_read(self.session, [tool], level)

        if levels:
            self._change(note)

    def record_call(self, tool_id: str, *, ok: bool | None) -> None:
        """Record the outcome of a call that passed `check`; None for an unknown one."""
        self._change(lambda: self.session.record_call(tool_id, ok=ok))

    async def run_step(self, step: Callable[[], Result]) -> Result:
        """Run a step of this session: in a thread where it waits for the state of all replicas."""
        if not self.is_shared:
            return step()
        with anyio.CancelScope(shield=True):
            result = await anyio.to_thread.run_sync(step)
        return result  # noqa: RET504 - the type checker does not know that nothing is swallowed

    def use_votes(self, votes: Votes) -> None:
        """Take over the votes of a search. They hold until the next one."""
        if votes != (self.session.votes or Votes()):
            self._change(lambda: setattr(self.session, "votes", votes))

    def use_listing(self, listing: ToolListing) -> None:
        """Show the client the tools like this from now on."""
        self._change(lambda: setattr(self, "tool_listing", listing))

    def read_record(self) -> None:
        """Take over what other replicas have changed."""
        if self.shared_record is not None:
            self._apply_record(self.shared_record.read())

    def _change(self, step: Callable[[], Result]) -> Result:
        """Run a step that changes the session; the replicas of the gateway run one at a time."""
        if self.shared_record is None:
            return step()
        results: list[Result] = []

        def changed(text: str | None) -> str:
            # Whatever this replica has: the record is what happened.
            self.change_count = -1
            self._apply_record(text)
            results.append(step())
            self.change_count += 1
            votes = self.session.votes or Votes()
            return json.dumps(
                {
                    "changes": self.change_count,
                    "session": self.session.save(),
                    "listing": self.tool_listing
                    and self.tool_listing.model_dump(mode="json", exclude_unset=True),
                    "votes": [dict(votes.excluded), votes.claimed],
                }
            )

        self.shared_record.change(changed)
        # A change that the database ended is tried again: its last result counts.
        return results[-1]

    def _apply_record(self, text: str | None) -> None:
        """Take over a record, unless the session has seen a newer one."""
        if text is None:
            if self.change_count:
                # It has ended, or never began.
                self.session = _new_session(self.profile_views, SessionData(id=self.session.id))
                self.tool_listing, self.change_count = None, 0
            return
        saved = json.loads(text)
        if saved["changes"] <= self.change_count:
            return
        data, _ = SessionData.from_dict(saved["session"])
        self.session = _new_session(self.profile_views, data)
        listing = saved["listing"]
        self.tool_listing = listing and ToolListing.model_validate(listing)
        excluded, claimed = saved["votes"]
        self.session.votes = Votes(excluded, tuple(claimed))
        self.change_count = saved["changes"]

    def permits_server(self, name: str) -> bool:
        """Whether the client may see a server, and use its resources and prompts.

        Args:
            name: name of the server.
        """
        return self.profile_views.permits_server(name, self.view())

    def may_read(self, source: ResultSource) -> bool:
        """Whether a stored result from this source may be read."""
        if source.server and not self.permits_server(source.server):
            return False
        view = self.app_view()
        return all(self._may_read_result_of(view, tool_id, source) for tool_id in source.tool_ids)

    def _may_read_result_of(self, view: View, tool_id: str, source: ResultSource) -> bool:
        if not view.exists(tool_id):
            return False
        refusal = view.refusal(tool_id)
        return refusal is None or (
            source.profile_fingerprint == self.profile.fingerprint
            and refusal.kind in TEMPORARY_REFUSALS
        )


class ClientCaller(Caller):
    """The sender of a request, with its whole session.

    Args:
        context: context of the request.
        client: its session.
    """

    client: ClientSession

    def __init__(self, context: RequestContext, client: ClientSession) -> None:
        super().__init__(context, client)


class ClientSessions:
    """The sessions of all clients. For one event loop.

    A client over stdin/stdout has one session. Over HTTP, the header `mcp-session-id` and the
    profile identify a session. Each request without the header has a session of its own. Such
    requests share only the profile's stored results and approvals, whose ids cannot be guessed.

    With `shared`, all replicas of the gateway have the sessions and results of clients of the
    stateless protocol. Sessions of the protocol with a handshake stay in the replica that opened
    them.

    Args:
        fleet: the servers.
        default: profile of a request without a token.
        profiles: name to profile. The bearer token of a request selects the name.
        shared: state that all replicas share; None if there is only this one.

    Attributes:
        on_end: called with each deleted session.
    """

    def __init__(
        self,
        fleet: Fleet,
        default: Profile,
        profiles: Mapping[str, Profile] | None = None,
        shared: StoredTexts | None = None,
    ) -> None:
        self._fleet = fleet
        self._views: dict[str | None, ProfileViews] = {}
        self._clients: OrderedDict[tuple[str | None, str], ClientSession] = OrderedDict()
        self._result_memory = ResultMemory()
        self._shared = shared
        #: Profile to the results and approvals of its requests without a session.
        self._stores_by_profile: dict[str | None, tuple[SessionResults, ApprovalStates]] = {}
        self.on_end: Callable[[ClientSession], None] | None = None
        self.replace_profiles(default, profiles or {})

    def replace_profiles(self, default: Profile, profiles: Mapping[str, Profile]) -> None:
        """Replace the profiles. Existing sessions follow at their next request.

        A session whose profile was removed may use nothing.

        Args:
            default: profile of a request without a token.
            profiles: name to profile.
        """
        new_profiles: dict[str | None, Profile] = {None: default}
        new_profiles.update(profiles)
        for name, views in self._views.items():
            views.profile = new_profiles.get(name, PROFILE_WITHOUT_TOOLS)
        for name, profile in new_profiles.items():
            if name not in self._views:
                self._views[name] = ProfileViews(
                    engine=self._fleet.engine,
                    profile=profile,
                    hidden_ids=lambda: self._fleet.hidden_ids,
                )

    def views(self, profile: str | None) -> ProfileViews:
        """The views of a profile; None for that of a request without a token."""
        return self._views[profile]

    def session_of(self, request: Any) -> ClientSession:
        """The session of a request.

        Args:
            request: the HTTP request; None on stdin and stdout.
        """
        name = None if request is None else request.scope.get("shortlist.profile")
        conversation = "" if request is None else request.headers.get(_SESSION_HEADER, "")
        shared = self._shared if _is_stateless(request) else None
        owner = "" if shared is None else request.scope.get("shortlist.owner", "")
        if request is not None and not conversation:
            if shared is not None:
                return self._new_client(name, *_shared_stores(shared, owner), is_shared=True)
            stores = self._stores_by_profile.get(name)
            if stores is None:
                stores = SessionResults(self._result_memory), ApprovalStates()
                self._stores_by_profile[name] = stores
            return self._new_client(name, *stores)
        key = conversation
        if shared is not None:
            text = f"{owner} {conversation}".encode("utf-8", "replace")
            key = hashlib.sha256(text).hexdigest()
        client = self._clients.get((name, key))
        if client is None:
            if shared is None:
                stores = SessionResults(self._result_memory), ApprovalStates()
                client = self._new_client(name, *stores)
            else:
                client = self._new_client(name, *_shared_stores(shared, key), is_shared=True)
                client.session = _new_session(client.profile_views, SessionData(id=key[:32]))
                client.shared_record = SharedRecord(shared, key)
        self._keep_in_use((name, key), client)
        return client

    async def read_shared(self, request: Any) -> None:
        """Take over what other replicas have changed in the session of a request.

        Args:
            request: the HTTP request; None on stdin and stdout.
        """
        if (
            self._shared is not None
            and _is_stateless(request)
            and request.headers.get(_SESSION_HEADER)
        ):
            await anyio.to_thread.run_sync(self.session_of(request).read_record)

    def _keep_in_use(self, key: tuple[str | None, str], client: ClientSession) -> None:
        """Keep a session in use; the least recently used one is deleted if there are too many."""
        self._clients[key] = client
        self._clients.move_to_end(key)
        if len(self._clients) > MAX_SESSIONS:
            self._discard(self._clients.popitem(last=False)[1])

    def all(self) -> list[ClientSession]:
        """All sessions."""
        return list(self._clients.values())

    def __len__(self) -> int:
        """Number of sessions."""
        return len(self._clients)

    def end(self, name: str | None, mcp_session_id: str) -> None:
        """Delete a session and its results.

        Args:
            name: name of its profile; None for the default one.
            mcp_session_id: value of the header `mcp-session-id`.
        """
        if (client := self._clients.pop((name, mcp_session_id), None)) is not None:
            self._discard(client)

    def _discard(self, client: ClientSession) -> None:
        client.stored_results.clear()
        if self.on_end is not None:
            self.on_end(client)

    def _new_client(
        self,
        name: str | None,
        results: SessionResults,
        approvals: ApprovalStates,
        *,
        is_shared: bool = False,
    ) -> ClientSession:
        views = self._views[name]
        return ClientSession(
            views, _new_session(views), results, is_shared=is_shared, approvals=approvals
        )


def _new_session(views: ProfileViews, data: SessionData | None = None) -> Session:
    """A session with the permissions of a profile; a new one without data."""
    return Session(views, views.config.session.changed({"must_offer": False}), data)


def _shared_stores(shared: StoredTexts, owner: str) -> tuple[SessionResults, ApprovalStates]:
    """The results and approvals of an owner, as all replicas have them."""
    return SessionResults(SharedResults(shared), owner), ApprovalStates(shared, owner)


def _is_stateless(request: Any) -> bool:
    """Whether a request is of the protocol without a handshake, which any replica answers."""
    return request is not None and request.headers.get(_VERSION_HEADER) in MODERN_PROTOCOL_VERSIONS


def permitted_servers(fleet: Fleet, client: ClientSession) -> list[str]:
    """Names of the servers that the client may use, in the fleet's order.

    If the client may use none of a server's tools, it may not use the rest of the server either.

    Args:
        fleet: the servers.
        client: session with the permissions.
    """
    view = client.view()
    return [name for name in fleet.upstreams if client.profile_views.permits_server(name, view)]
