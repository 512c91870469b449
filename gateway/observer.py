"""Makes an event of each thing that the gateway does, and gives it to whoever listens."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic
from typing import Any

import mcp.types as types

from ..catalog import Catalog
from ..gating.verdict import Verdict
from ..session import CallEvent, EventSink, Recorder
from ..session.event import Place
from .definition_tokens import DefinitionTokens, characters, shown_tokens, text_tokens
from .events import (
    CatalogEvent,
    DetailsEvent,
    ListEvent,
    Outcome,
    RunEvent,
    SearchEvent,
    ServerEvent,
)
from .sessions import ClientSession

_LOG = logging.getLogger("shortlist.gateway")
#: Seconds without a request after which requests without a session are another conversation.
_PAUSE_S = 1_800.0
#: Session of the events that belong to no client.
GATEWAY = "gateway"


class Observer:
    """Makes the gateway's events. Without sinks it does nothing.

    Requests over HTTP that belong to no session are one conversation of their profile, until half
    an hour passes without any.

    Args:
        sinks: take each event; one that raises fails no request.
        content: whether events hold queries, arguments and results.
    """

    def __init__(self, *sinks: EventSink, content: bool = False) -> None:
        self._recorder = Recorder(*sinks, content=content) if sinks else None
        self._content = content
        self._tokens = DefinitionTokens()
        self._recorded_catalog = ""
        #: Profile to the conversation of its requests without a session, and when the last came.
        self._sessionless: dict[str, tuple[str, float]] = {}
        #: Profile to the last conversation whose list was recorded.
        self._listed: dict[str, str] = {}
        # Counting hundreds of definitions takes a second, which no client should wait for.
        self._counting = ThreadPoolExecutor(1, "shortlist-events")

    def close(self) -> None:
        """Record what is still being counted."""
        self._counting.shutdown()

    def listed(
        self, client: ClientSession, tools: list[types.Tool], quarantined: Collection[str]
    ) -> None:
        """Record which tools a client sees; of requests without a session, once a conversation.

        Args:
            client: who asked.
            tools: as they were given.
            quarantined: ids of tools that nobody is offered.
        """
        if self._recorder is None:
            return
        place = self._place(client)
        if not client.lasting and place.session == self._listed.get(client.name):
            return
        self._listed[client.name] = place.session
        view = client.session.view()
        permitted = [tool.id for tool in view.tools()]
        held = frozenset(quarantined)
        counted = self._counting.submit(
            self._count, view.catalog, held, permitted, tools, place, client.name
        )
        counted.add_done_callback(_log_failure)

    def searched(
        self,
        client: ClientSession,
        arguments: Mapping[str, Any],
        result: types.CallToolResult,
        ms: float,
    ) -> None:
        """Record a search.

        Args:
            client: who searched.
            arguments: of `search_tools`.
            result: the answer.
            ms: milliseconds it took.
        """
        if self._recorder is None:
            return
        client.searches += 1
        told = result.structured_content or {}
        query, server = str(arguments.get("query", "")), arguments.get("server")
        self._recorder(
            SearchEvent(
                place=self._place(client),
                client=client.name,
                query=self._recorder.hashed(query),
                # A name that is no server's is the model's own words.
                server=server if told and isinstance(server, str) else None,
                tier=str(told.get("tier", "")),
                found=tuple((one["name"], one["score"]) for one in told.get("tools", ())),
                abstained=bool(told.get("abstained")),
                reason=told.get("reason"),
                starting=len(told.get("starting", ())),
                quarantined=int(told.get("quarantined", 0)),
                tokens=text_tokens(result),
                ms=ms,
                content={"query": query} if self._content else None,
            )
        )

    def described(self, client: ClientSession, result: types.CallToolResult, ms: float) -> None:
        """Record that definitions were asked for.

        Args:
            client: who asked.
            result: the answer.
            ms: milliseconds it took.
        """
        if self._recorder is None:
            return
        rows = (result.structured_content or {}).get("tools", ())
        errors = [row.get("error") for row in rows]
        self._recorder(
            DetailsEvent(
                place=self._place(client),
                client=client.name,
                found=tuple(row["name"] for row in rows if "error" not in row),
                denied=errors.count("denied"),
                unknown=errors.count("unknown"),
                tokens=text_tokens(result),
                ms=ms,
            )
        )

    def called(
        self,
        client: ClientSession,
        verdict: Verdict,
        *,
        check_ms: float,
        outcome: Outcome | None = None,
        run_ms: float | None = None,
        result: types.CallToolResult | None = None,
    ) -> None:
        """Record a call of a tool.

        Args:
            client: who called.
            verdict: whether the call could go ahead.
            check_ms: milliseconds that the check took.
            outcome: what the call came to; the status of the check when absent.
            run_ms: milliseconds that the server took.
            result: the server's answer.
        """
        if self._recorder is None:
            return
        tool = verdict.tool
        status: Any = verdict.status
        content = None
        if self._content and result is not None:
            shown = result.model_dump(mode="json", by_alias=True, exclude_none=True)
            content = {"arguments": verdict.arguments, "result": shown}
        place = self._place(client)
        self._recorder(
            RunEvent(
                check=CallEvent.of(verdict, place, ms=check_ms, content=self._content),
                client=client.name,
                server="" if tool is None else tool.server or "",
                outcome=status if outcome is None else outcome,
                run_ms=run_ms,
                sent=characters(verdict.arguments),
                received=0 if result is None else _content_characters(result),
                content=content,
            )
        )

    def server(
        self, name: str, state: str, *, ms: float | None, tools: int, problem: str | None
    ) -> None:
        """Record that a server started, stopped or failed.

        Args:
            name: of the server.
            state: its state since.
            ms: milliseconds of the start, None where it did not start now.
            tools: how many of its tools are known.
            problem: what went wrong, without secrets.
        """
        if self._recorder is not None:
            place = Place.now(GATEWAY, 0)
            self._recorder(ServerEvent(place, name, state, ms, tools, problem))

    def _place(self, client: ClientSession) -> Place:
        if client.lasting:
            return Place.now(client.session.id, client.searches)
        now = monotonic()
        name, last = self._sessionless.get(client.name, ("", -_PAUSE_S))
        if now - last >= _PAUSE_S:
            name = client.session.id
        self._sessionless[client.name] = name, now
        return Place.now(name, client.searches)

    def _count(
        self,
        catalog: Catalog,
        quarantined: frozenset[str],
        permitted: list[str],
        tools: list[types.Tool],
        place: Place,
        client: str,
    ) -> None:
        if self._recorder is None:
            return
        counts = self._tokens.of(catalog)
        if catalog.fingerprint != self._recorded_catalog:
            self._recorded_catalog = catalog.fingerprint
            offered = {one: count for one, count in counts.items() if one not in quarantined}
            self._recorder(CatalogEvent(place, catalog.fingerprint, offered))
        self._recorder(
            ListEvent(
                place=place,
                client=client,
                shown=len(tools),
                tokens=shown_tokens(tools),
                permitted=len(permitted),
                permitted_tokens=sum(counts[tool_id] for tool_id in permitted),
                catalog=catalog.fingerprint,
            )
        )


def _log_failure(counted: Future[None]) -> None:
    if (error := counted.exception()) is not None:
        _LOG.error("a list of tools was not recorded", exc_info=error)


def _content_characters(result: types.CallToolResult) -> int:
    """Characters of the texts and of the encoded data of a result."""
    return sum(
        len(part.text if isinstance(part, types.TextContent) else getattr(part, "data", ""))
        for part in result.content
    )
