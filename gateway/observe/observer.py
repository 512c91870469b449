"""Records the gateway's actions as events."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic, perf_counter
from typing import Any

import mcp.types as types

from ...catalog import Catalog
from ...session import EventSink, Recorder
from ...session.event import (
    CallEvent,
    CatalogEvent,
    DetailsEvent,
    Event,
    FoundTool,
    ListEvent,
    ScriptEvent,
    SearchEvent,
)
from ...view import View
from ..profiles.client_sessions import MAX_SESSIONS, ClientCaller, ClientSession
from ..profiles.profile import GET_TOOL_DETAILS, RUN_CODE, SEARCH_TOOLS
from .call_recorder import CallRecorder, SearchOutcome
from .definition_tokens import DefinitionTokens, answer_tokens, json_chars, shown_tokens

_LOG = logging.getLogger("shortlist.gateway")
#: Requests without an MCP session start a new conversation after this many seconds without one.
_CONVERSATION_PAUSE_S = 1_800.0


@dataclass(frozen=True, slots=True)
class _ProfileOffer:
    """The tools of one profile in one catalog version.

    Args:
        catalog: the version.
        quarantined_ids: ids of its quarantined tools.
        profile_ids: ids of the tools that exist for the profile; None for all.
    """

    catalog: Catalog
    quarantined_ids: frozenset[str]
    profile_ids: Sequence[str] | None

    @classmethod
    def of(cls, client: ClientSession, catalog: Catalog) -> _ProfileOffer:
        """The tools of a client's profile in a version."""
        return cls(
            catalog=catalog,
            quarantined_ids=frozenset(client.profile_views.engine.quarantined),
            profile_ids=client.profile.allowed_ids(catalog),
        )


#: Session, turn, time and client of an event, by the names of its fields.
EventOrigin = dict[str, Any]


@dataclass(slots=True)
class _Conversation:
    """State of a conversation: its number of searches, and whether its list is recorded."""

    searches: int = 0
    is_listed: bool = False


class Observer:
    """Makes events of the gateway's actions. Without sinks it does nothing.

    HTTP requests without an MCP session are one conversation for each profile, which ends after
    half an hour without requests.

    Args:
        sinks: called with each event. If a sink raises, the request still succeeds.
        content: whether events contain queries, arguments and results.
        queries: whether events contain queries; as `content` when absent.
    """

    def __init__(
        self, *sinks: EventSink, content: bool = False, queries: bool | None = None
    ) -> None:
        self._has_queries = content if queries is None else queries
        self._recorder = Recorder(*sinks, content=content) if sinks else None
        self._content = content
        self._definition_tokens = DefinitionTokens()
        #: Profile to the fingerprint of the catalog version that was recorded last for it.
        self._recorded_catalogs: dict[str, str] = {}
        self._conversations: OrderedDict[str, _Conversation] = OrderedDict()
        #: Profile to the conversation of its requests without a session, and the time of the last
        #: one.
        self._sessionless: dict[str, tuple[str, float]] = {}
        # Counting an answer's tokens takes a millisecond, and those of hundreds of definitions a
        # second. No client should wait for that. One thread keeps the events in order.
        self._recording = ThreadPoolExecutor(1, "shortlist-events")

    def close(self) -> None:
        """Wait until all events are recorded. No further ones are taken."""
        self._recording.shutdown()

    def _record_later(self, record: Callable[..., None], *arguments: object) -> None:
        """Record an event after those before it, with the context of the present request."""
        recording = self._recording.submit(copy_context().run, record, *arguments)
        recording.add_done_callback(_log_failure)

    def record_list(self, caller: ClientCaller, view: View, tools: Sequence[types.Tool]) -> None:
        """Record the tools that a client sees, once for each conversation.

        Args:
            caller: the client's request.
            view: the tools that the client may use.
            tools: the tools that the client got.
        """
        if self._recorder is None:
            return
        _, conversation = self._conversation(caller)
        if conversation.is_listed:
            return
        conversation.is_listed = True
        permitted = [tool.id for tool in view.tools()]
        offer = _ProfileOffer.of(caller.client, view.catalog)
        origin = self._origin(caller)
        self._record_later(self._record_counted_list, offer, permitted, tools, origin)

    def record_catalog(self, caller: ClientCaller, catalog: Catalog) -> None:
        """Record the tools of a client's profile in a catalog version, once for each version.

        Servers that started after the client's first list have tools too.

        Args:
            caller: a client's request in this version.
            catalog: the version.
        """
        recorded = self._recorded_catalogs.get(caller.client.profile.name)
        if self._recorder is not None and recorded != catalog.fingerprint:
            offer = _ProfileOffer.of(caller.client, catalog)
            self._record_later(self._record_counted_catalog, offer, self._origin(caller))

    @contextmanager
    def recorded_request(
        self, caller: ClientCaller, params: types.CallToolRequestParams, call_recorder: CallRecorder
    ) -> Iterator[None]:
        """Record a search, a request for definitions, a script or a call, after its answer.

        Args:
            caller: the client's request.
            params: parameters of the request.
            call_recorder: collects the answer, and the check, result and times of a call.
        """
        start = perf_counter()
        try:
            yield
        finally:
            call_recorder.end()
            if self._recorder is not None and call_recorder.answer is not None:
                ms = (perf_counter() - start) * 1e3
                self._record_request(self._recorder, caller, params, call_recorder, ms)

    def _record_request(
        self,
        record: Recorder,
        caller: ClientCaller,
        params: types.CallToolRequestParams,
        call_recorder: CallRecorder,
        ms: float,
    ) -> None:
        if call_recorder.verdict is not None:
            self._record_later(self._record_call, record, self._origin(caller), call_recorder)
        elif params.name == SEARCH_TOOLS:
            self._conversation(caller)[1].searches += 1
            origin, arguments = self._origin(caller), params.arguments or {}
            self._record_later(self._record_search, record, origin, arguments, call_recorder, ms)
        elif params.name == GET_TOOL_DETAILS:
            origin = self._origin(caller)
            self._record_later(self._record_details, record, origin, call_recorder.answer, ms)
        elif params.name == RUN_CODE:
            origin = self._origin(caller)
            self._record_later(self._record_script, record, origin, call_recorder.answer, ms)

    def record(self, event: Event) -> None:
        """Record an event after those before it."""
        if self._recorder is not None:
            self._record_later(self._recorder, event)

    def _record_search(
        self,
        record: Recorder,
        origin: EventOrigin,
        arguments: Mapping[str, Any],
        call_recorder: CallRecorder,
        ms: float,
    ) -> None:
        search, answer = call_recorder.search, call_recorder.answer
        outcome = search or SearchOutcome()
        query, server = _query_text(arguments), arguments.get("server")
        record(
            SearchEvent(
                **origin,
                query=record.hashed(query),
                # A name that is not a server's may be text of the model.
                server=server if search is not None and isinstance(server, str) else None,
                tier=outcome.tier,
                outcome=outcome.outcome,
                found=tuple(map(FoundTool.of, outcome.found)),
                reason=outcome.reason,
                starting=outcome.starting,
                quarantined=outcome.quarantined,
                tokens=0 if answer is None else answer_tokens(answer),
                ms=ms,
                content={"query": query} if self._has_queries else None,
            )
        )

    def _record_details(
        self, record: Recorder, origin: EventOrigin, result: types.CallToolResult, ms: float
    ) -> None:
        rows = (result.structured_content or {}).get("tools", ())
        errors = [row.get("error") for row in rows]
        record(
            DetailsEvent(
                **origin,
                found=tuple(row["name"] for row in rows if "error" not in row),
                denied=errors.count("denied"),
                unknown=errors.count("unknown"),
                tokens=answer_tokens(result),
                ms=ms,
            )
        )

    def _record_script(
        self, record: Recorder, origin: EventOrigin, result: types.CallToolResult, ms: float
    ) -> None:
        # Without a structured answer the script did not run: wrong arguments, or no place for it.
        answer = result.structured_content or {"error": {"kind": "refused"}}
        record(
            ScriptEvent(
                **origin,
                outcome=(answer["error"] or {"kind": "ok"})["kind"],
                calls=sum(row.get("count", 1) for row in answer.get("calls", ())),
                received=_content_characters(result),
                ms=ms,
            )
        )

    def _record_call(
        self, record: Recorder, origin: EventOrigin, call_recorder: CallRecorder
    ) -> None:
        verdict, result = call_recorder.verdict, call_recorder.result
        assert verdict is not None
        tool = verdict.tool
        texts = None
        if self._content and result is not None:
            result_json = result.model_dump(mode="json", by_alias=True, exclude_none=True)
            texts = {"arguments": verdict.arguments, "result": result_json}
        record(
            CallEvent.of(
                verdict,
                ms=call_recorder.check_ms,
                content=self._content,
                texts=texts,
                server="" if tool is None else tool.server or "",
                outcome=call_recorder.outcome,
                ok=call_recorder.outcome == "ok",
                run_ms=call_recorder.run_ms,
                sent=json_chars(verdict.arguments),
                received=0 if result is None else _content_characters(result),
                **origin,
            )
        )

    def _conversation(self, caller: ClientCaller) -> tuple[str, _Conversation]:
        """The conversation of a request, and its name."""
        request, profile = caller.context.request, caller.client.profile.name
        name = caller.client.id
        if request is not None and not request.headers.get("mcp-session-id"):
            # No later request can belong to this session.
            now = monotonic()
            last_name, last_request = self._sessionless.get(profile, ("", -_CONVERSATION_PAUSE_S))
            name = last_name if now - last_request < _CONVERSATION_PAUSE_S else name
            self._sessionless[profile] = name, now
        conversation = self._conversations.setdefault(name, _Conversation())
        self._conversations.move_to_end(name)
        if len(self._conversations) > MAX_SESSIONS:
            self._conversations.popitem(last=False)
        return name, conversation

    def _origin(self, caller: ClientCaller) -> EventOrigin:
        """The origin of an event that may be recorded later: another thread counts tokens first."""
        session, conversation = self._conversation(caller)
        return {
            "session": session,
            "turn": conversation.searches,
            "at": datetime.now(UTC),
            "client": caller.client.profile.name,
        }

    def _record_counted_catalog(self, offer: _ProfileOffer, origin: EventOrigin) -> None:
        fingerprint, client = offer.catalog.fingerprint, origin["client"]
        if self._recorder is None or self._recorded_catalogs.get(client) == fingerprint:
            return
        self._recorded_catalogs[client] = fingerprint
        tools = {
            tool_id: count
            for tool_id, count in self._definition_tokens.count(offer.catalog).items()
            if tool_id not in offer.quarantined_ids
        }
        allowed = None
        if offer.profile_ids is not None:
            allowed = tuple(tool_id for tool_id in offer.profile_ids if tool_id in tools)
        self._recorder(
            CatalogEvent(
                **origin,
                catalog=fingerprint,
                tools=tools,
                profile_tools=allowed,
            )
        )

    def _record_counted_list(
        self,
        offer: _ProfileOffer,
        permitted: list[str],
        tools: Sequence[types.Tool],
        origin: EventOrigin,
    ) -> None:
        if self._recorder is None:
            return
        self._record_counted_catalog(offer, origin)
        counts = self._definition_tokens.count(offer.catalog)
        self._recorder(
            ListEvent(
                **origin,
                shown=len(tools),
                tokens=shown_tokens(tools),
                permitted=len(permitted),
                permitted_tokens=sum(counts[tool_id] for tool_id in permitted),
                catalog=offer.catalog.fingerprint,
            )
        )


def _query_text(arguments: Mapping[str, Any]) -> str:
    """The texts of a search, one in each line."""
    queries = arguments.get("queries")
    texts = [arguments.get("query"), *(queries if isinstance(queries, list) else ())]
    return "\n".join(str(text) for text in texts if text is not None)


def _log_failure(recording: Future[None]) -> None:
    if (error := recording.exception()) is not None:
        _LOG.error("an event was not recorded", exc_info=error)


def _content_characters(result: types.CallToolResult) -> int:
    """Number of characters of a result's texts and encoded data."""
    return sum(
        len(part.text if isinstance(part, types.TextContent) else getattr(part, "data", ""))
        for part in result.content
    )
