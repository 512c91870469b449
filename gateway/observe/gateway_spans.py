"""OpenTelemetry spans from the gateway's events, by the conventions for generative AI.

A search is a `retrieval` span, a call is an `execute_tool` span, the start of a server is a
`shortlist.server.start` span. If the program sets up no OpenTelemetry SDK, spans are dropped.
"""

from __future__ import annotations

from datetime import datetime
from importlib.metadata import version

from opentelemetry import trace

from ...session.event import CallEvent, Event, SearchEvent, ServerEvent

Attributes = dict[str, str | bool | int | float | list[str]]


class GatewaySpans:
    """An event sink that makes a span for each search, call and server start.

    The parent of a span is the current span, which is that of the request.

    Args:
        tracers: provider of the tracer; the global one by default.
        queries: whether the spans have the queries of events. Spans may leave this machine.
    """

    def __init__(
        self, tracers: trace.TracerProvider | None = None, *, queries: bool = True
    ) -> None:
        self._has_queries = queries
        self._tracer = trace.get_tracer("shortlist.gateway", version("shortlist"), tracers)

    def __call__(self, event: Event) -> None:
        """Make the span of an event."""
        match event:
            case SearchEvent():
                attributes = _search_attributes(event)
                if event.content is not None and self._has_queries:
                    attributes["gen_ai.retrieval.query.text"] = event.content["query"]
                self._span("retrieval tools", event, event.ms, attributes, None)
            case CallEvent():
                error = None if event.outcome == "ok" else event.outcome
                ms = event.ms if event.run_ms is None else event.run_ms
                name = f"execute_tool {event.tool}"
                self._span(name, event, ms, _call_attributes(event), error)
            case ServerEvent():
                if event.ms is not None or event.problem is not None:
                    attributes = {
                        "shortlist.server": event.server,
                        "shortlist.server.tools": event.tools,
                    }
                    failed = None if event.problem is None else "failed"
                    self._span("shortlist.server.start", event, event.ms or 0.0, attributes, failed)

    def _span(
        self, name: str, event: Event, ms: float, attributes: Attributes, error: str | None
    ) -> None:
        """A span that ends at the time of the event."""
        end = _nanoseconds(event.at)
        attributes["gen_ai.conversation.id"] = event.session
        if error is not None:
            attributes["error.type"] = error
        span = self._tracer.start_span(
            name,
            kind=trace.SpanKind.CLIENT,
            attributes=attributes,
            start_time=end - int(ms * 1e6),
        )
        if error is not None:
            span.set_status(trace.StatusCode.ERROR, error)
        span.end(end)


def _search_attributes(event: SearchEvent) -> Attributes:
    return {
        "gen_ai.operation.name": "retrieval",
        "gen_ai.provider.name": "shortlist",
        "gen_ai.data_source.id": "tools",
        "shortlist.client": event.client,
        "shortlist.query.hash": event.query,
        "shortlist.tier": event.tier,
        "shortlist.outcome": event.outcome,
        "shortlist.found": [tool.id for tool in event.found],
        "shortlist.tokens": event.tokens,
    }


def _call_attributes(event: CallEvent) -> Attributes:
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": event.tool,
        "gen_ai.tool.type": "function",
        "shortlist.client": event.client,
        "shortlist.server": event.server,
        "shortlist.outcome": event.outcome,
        "shortlist.sent": event.sent,
        "shortlist.received": event.received,
    }
    return {name: value for name, value in attributes.items() if value is not None}


def _nanoseconds(time: datetime) -> int:
    return int(time.timestamp() * 1e9)
