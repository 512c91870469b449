"""Events as spans and metrics of OpenTelemetry, with its conventions for generative AI.

A turn of a session and a search through the gateway are `retrieval` spans. A call through the
gateway, and one of a session that does not pass the check, is an `execute_tool` span; `error.type`
says why it failed. The start of a server is a `shortlist.server.start` span. Attributes that the
conventions do not have start with `shortlist.`. The conventions are those of November 2026, still
in development: https://github.com/open-telemetry/semantic-conventions-genai
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ..errors import MissingExtraError
from ..session.event import CallEvent, Event, SearchEvent, ServerEvent, TurnEvent

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    Attributes = dict[str, str | bool | int | float | list[str]]

_INSTRUMENTATION_SCOPE = "shortlist"
#: What all spans and metrics of searches have.
_RETRIEVAL: Attributes = {
    "gen_ai.operation.name": "retrieval",
    "gen_ai.provider.name": _INSTRUMENTATION_SCOPE,
}
#: Boundaries in seconds that the conventions recommend for durations.
_CALL_SECONDS_BUCKETS = tuple(0.01 * 2**step for step in range(14))
#: Boundaries for the duration of a turn, which is milliseconds.
_TURN_SECONDS_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_TOOL_COUNT_BUCKETS = (0, 1, 2, 3, 5, 8, 12, 20, 30, 50, 100)
_TOKEN_BUCKETS = (0, 100, 250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000)


class OpenTelemetry:
    """A sink that makes spans and metrics with the OpenTelemetry API.

    The API drops them unless an SDK is set up. Spans are children of the current span. They have
    texts only if events have content.

    Args:
        source: value of `gen_ai.data_source.id`, the name of the catalog.
        tracers: tracer provider; the global one when absent.
        meters: meter provider; the global one when absent.
        queries: whether the spans of the gateway's searches have queries, where events have them.

    Raises:
        MissingExtraError: the API is not installed.
    """

    def __init__(
        self,
        *,
        source: str = "tools",
        tracers: TracerProvider | None = None,
        meters: MeterProvider | None = None,
        queries: bool = True,
    ) -> None:
        try:
            from opentelemetry import metrics, trace
        except ImportError as error:
            raise MissingExtraError("events for OpenTelemetry", "otel") from error
        self._trace = trace
        self._source = source
        self._has_queries = queries
        self._tracer = trace.get_tracer(_INSTRUMENTATION_SCOPE, version("shortlist"), tracers)
        meter = metrics.get_meter(_INSTRUMENTATION_SCOPE, version("shortlist"), meters)
        self._turn_seconds = meter.create_histogram(
            "gen_ai.client.operation.duration",
            "s",
            "Duration of an operation; here, of deciding which tools a turn offers",
            explicit_bucket_boundaries_advisory=_TURN_SECONDS_BUCKETS,
        )
        self._active = meter.create_histogram(
            "shortlist.turn.active_tools",
            "{tool}",
            "Tools active in a turn",
            explicit_bucket_boundaries_advisory=_TOOL_COUNT_BUCKETS,
        )
        self._tokens = meter.create_histogram(
            "shortlist.prompt.tokens",
            "{token}",
            "Tokens that tools take in the prompt of a turn",
            explicit_bucket_boundaries_advisory=_TOKEN_BUCKETS,
        )
        self._calls = meter.create_counter(
            "shortlist.calls", "{call}", "Calls of a model, by what was decided"
        )
        self._tool_seconds = meter.create_histogram(
            "gen_ai.execute_tool.duration",
            "s",
            "Duration of a tool's execution",
            explicit_bucket_boundaries_advisory=_CALL_SECONDS_BUCKETS,
        )

    def __call__(self, event: Event) -> None:
        """Make the spans and metrics of an event."""
        match event:
            case TurnEvent():
                self._record_turn(event)
            case CallEvent(outcome=None):
                self._record_check(event)
            case CallEvent():
                self._record_gateway_call(event)
            case SearchEvent():
                self._record_search(event)
            case ServerEvent() if event.ms is not None or event.problem is not None:
                self._span(
                    "shortlist.server.start",
                    event,
                    event.ms or 0.0,
                    {"shortlist.server": event.server, "shortlist.server.tools": event.tools},
                    error=None if event.problem is None else "failed",
                )

    @contextmanager
    def execute_tool(self, tool_id: str, *, call_id: str | None = None) -> Iterator[None]:
        """A context manager with the `execute_tool` span around the execution of a tool.

        Args:
            tool_id: id of the tool.
            call_id: id of the call, from the model.
        """
        attributes = self._tool_attributes(tool_id)
        if call_id is not None:
            attributes["gen_ai.tool.call.id"] = call_id
        measured: Attributes = {
            name: attributes[name]
            for name in ("gen_ai.operation.name", "gen_ai.tool.name", "gen_ai.tool.type")
        }
        start = perf_counter()
        with self._tracer.start_as_current_span(
            f"execute_tool {tool_id}",
            attributes=attributes,
            # The text of an exception may quote arguments: its type is told, below.
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield
            except BaseException as error:
                kind = type(error).__qualname__
                measured["error.type"] = kind
                span.set_attribute("error.type", kind)
                span.set_status(self._trace.StatusCode.ERROR, kind)
                raise
            finally:
                self._tool_seconds.record(perf_counter() - start, measured)

    def _record_turn(self, event: TurnEvent) -> None:
        seconds = (event.timings.get("search", 0.0) + event.timings.get("session", 0.0)) / 1e3
        tokens = event.prompt_tokens
        attributes: Attributes = {
            **_RETRIEVAL,
            "gen_ai.data_source.id": self._source,
            "shortlist.turn": event.turn,
            "shortlist.query.hash": event.query,
            "shortlist.searches": event.searches,
            "shortlist.intents": event.intents,
            "shortlist.context": event.context,
            "shortlist.offered": list(event.offered),
            "shortlist.added": list(event.added),
            "shortlist.active": list(event.active),
            "shortlist.left": [denied.tool for denied in event.left],
            "shortlist.denied.count": event.denied.count,
            "shortlist.denied.nearest": [
                f"{denied.tool}: {denied.kind}" for denied in event.denied.nearest
            ],
            "shortlist.abstained": event.abstained,
        }
        optional = {
            "shortlist.tier": event.tier,
            "shortlist.tier.asked": event.tier_asked,
            "shortlist.tier.reason": event.tier_reason,
            "shortlist.catalog": event.catalog,
            "shortlist.called": event.called,
            "shortlist.ok": event.ok,
            "shortlist.reason": event.reason,
            "shortlist.fits": event.fits,
            "shortlist.dropped": event.dropped,
            "shortlist.tokens": None if tokens is None else sum(tokens.values()),
        }
        attributes |= {name: value for name, value in optional.items() if value is not None}
        attributes |= {f"shortlist.ms.{stage}": ms for stage, ms in event.timings.items()}
        if event.content is not None:
            attributes |= _content_attributes(event, event.content)
        self._span(f"retrieval {self._source}", event, seconds * 1e3, attributes, is_client=True)
        metric_attributes: Attributes = {"shortlist.abstained": event.abstained}
        if event.tier is not None:
            metric_attributes["shortlist.tier"] = event.tier
        self._active.record(len(event.active), metric_attributes)
        for part, count in (tokens or {}).items():
            self._tokens.record(count, {"shortlist.prompt.part": part})
        self._turn_seconds.record(seconds, metric_attributes | _RETRIEVAL)

    def _record_check(self, event: CallEvent) -> None:
        self._calls.add(1, {"shortlist.call.status": event.status})
        if event.status == "passed":
            # Executing it is whose span it is: see `execute_tool`.
            return
        attributes = self._tool_attributes(event.tool) | {"shortlist.turn": event.turn}
        if event.denied is not None:
            attributes["shortlist.denied.kind"] = event.denied.kind
            attributes["shortlist.denied.reason"] = event.denied.reason
            attributes["shortlist.denied.unlocked_by"] = list(event.denied.unlocked_by)
        if event.nearest:
            attributes["shortlist.nearest"] = list(event.nearest)
        if event.problems:
            attributes["shortlist.problems"] = [problem.path for problem in event.problems]
        name = f"execute_tool {event.tool}"
        self._span(name, event, event.ms, attributes, error=event.status)

    def _record_gateway_call(self, event: CallEvent) -> None:
        attributes = self._tool_attributes(event.tool)
        for name in ("client", "server", "outcome", "sent", "received"):
            attributes[f"shortlist.{name}"] = getattr(event, name)
        ms = event.ms if event.run_ms is None else event.run_ms
        error = None if event.ok else event.outcome
        name = f"execute_tool {event.tool}"
        self._span(name, event, ms, attributes, error=error, is_client=True)

    def _record_search(self, event: SearchEvent) -> None:
        attributes: Attributes = {
            **_RETRIEVAL,
            "gen_ai.data_source.id": self._source,
            "shortlist.client": event.client,
            "shortlist.query.hash": event.query,
            "shortlist.tier": event.tier,
            "shortlist.outcome": event.outcome,
            "shortlist.found": [tool.id for tool in event.found],
            "shortlist.tokens": event.tokens,
        }
        if event.query_text is not None and self._has_queries:
            attributes["gen_ai.retrieval.query.text"] = event.query_text
        self._span(f"retrieval {self._source}", event, event.ms, attributes, is_client=True)

    def _span(
        self,
        name: str,
        event: Event,
        ms: float,
        attributes: Attributes,
        *,
        error: str | None = None,
        is_client: bool = False,
    ) -> None:
        """A span that ends at the time of the event."""
        end = int(event.at.timestamp() * 1e9)
        attributes["gen_ai.conversation.id"] = event.session
        if error is not None:
            attributes["error.type"] = error
        span = self._tracer.start_span(
            name,
            kind=self._trace.SpanKind.CLIENT if is_client else self._trace.SpanKind.INTERNAL,
            attributes=attributes,
            start_time=end - int(ms * 1e6),
        )
        if error is not None:
            span.set_status(self._trace.StatusCode.ERROR, error)
        span.end(end)

    def _tool_attributes(self, tool_id: str) -> Attributes:
        return {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool_id,
            "gen_ai.tool.type": "function",
        }


def _content_attributes(event: TurnEvent, content: Any) -> Attributes:
    """Attributes with texts, which the conventions make opt-in."""
    documents = [candidate.model_dump() for candidate in event.candidates]
    return {
        "gen_ai.retrieval.query.text": content["queries"][0],
        "gen_ai.retrieval.documents": json.dumps(documents),
    }
