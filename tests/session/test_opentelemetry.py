"""Spans and metrics, as an SDK exports them."""

from __future__ import annotations

import json
import sys
from typing import Any, NamedTuple

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from shortlist.errors import MissingExtraError
from shortlist.gating import Rule, after
from shortlist.integrations.opentelemetry import OpenTelemetry
from shortlist.session.recorder import Recorder

from .conftest import make_engine


class Exported(NamedTuple):
    """A sink, and what comes out of the SDK behind it."""

    sink: OpenTelemetry
    tracers: TracerProvider
    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader

    @property
    def spans(self) -> Any:
        return self.exporter.get_finished_spans()

    @property
    def metrics(self) -> dict[str, Any]:
        data = self.reader.get_metrics_data()
        scopes = data.resource_metrics[0].scope_metrics
        assert [one.scope.name for one in scopes] == ["shortlist"]
        return {metric.name: metric for metric in scopes[0].metrics}


@pytest.fixture
def exported():
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    meters = MeterProvider([reader], shutdown_on_exit=False)
    sink = OpenTelemetry(source="demo", tracers=tracers, meters=meters)
    yield Exported(sink, tracers, exporter, reader)
    tracers.shutdown()
    meters.shutdown()


def points(metric: Any) -> list[tuple[dict[str, Any], Any]]:
    return [(dict(point.attributes), point) for point in metric.data.data_points]


def test_a_turn_is_a_retrieval_span(engine, exported):
    events: list[Any] = []
    recorder = Recorder(exported.sink, events.append)
    turn = engine.session(k=4, events=recorder, session_id="s1").turn("list my messages")
    (span,) = exported.spans
    assert span.name == "retrieval demo"
    assert span.kind is SpanKind.CLIENT
    assert span.attributes["gen_ai.operation.name"] == "retrieval"
    assert span.attributes["gen_ai.data_source.id"] == "demo"
    assert span.attributes["gen_ai.conversation.id"] == "s1"
    assert span.attributes["shortlist.turn"] == 1
    assert span.attributes["shortlist.tier"] == "lexical"
    assert span.attributes["shortlist.offered"] == turn.ids
    assert span.attributes["shortlist.active"] == turn.active
    assert span.attributes["shortlist.catalog"] == engine.catalog.fingerprint
    assert span.status.status_code is StatusCode.UNSET
    lasted = (span.end_time - span.start_time) / 1e6
    timings = events[0].timings
    assert lasted == pytest.approx(timings["search"] + timings["session"], abs=0.01)


def test_texts_only_where_events_carry_them(engine, exported):
    engine.session(events=Recorder(exported.sink)).turn("list my zanzibar")
    engine.session(events=Recorder(exported.sink, content=True)).turn("list my zanzibar")
    silent, telling = exported.spans
    assert "zanzibar" not in str(dict(silent.attributes))
    assert "gen_ai.retrieval.documents" not in silent.attributes
    assert telling.attributes["gen_ai.retrieval.query.text"] == "list my zanzibar"
    documents = json.loads(telling.attributes["gen_ai.retrieval.documents"])
    assert {tuple(one) for one in documents} == {("id", "score")}
    assert documents[0]["id"] in engine.catalog


def test_spans_are_children_of_the_current_one(engine, exported):
    session = engine.session(events=Recorder(exported.sink))
    with exported.tracers.get_tracer("agent").start_as_current_span("invoke_agent") as agent:
        session.turn("list my messages")
        session.check("nothing", {})
    retrieval, call, _ = exported.spans
    assert retrieval.parent.span_id == call.parent.span_id == agent.context.span_id


def test_a_call_that_may_not_go_ahead_is_a_failed_execution(exported):
    engine = make_engine(Rule(after("mail/list_*"), tools=["mail/delete_*"]))
    session = engine.session(k=1, events=Recorder(exported.sink), session_id="s1")
    session.turn("share a song")
    for name, arguments in [
        ("mail/delete_message", {"id": "secret"}),
        ("mail/delete_mesage", {}),
        ("mail/list_message", {"id": "1"}),
        ("mail/list_message", {"id": 7}),
        ("mail/list_message", {"id": "1"}),
    ]:
        session.check(name, arguments)
    held, unknown, promoted, invalid = exported.spans[1:]
    assert held.name == "execute_tool mail/delete_message"
    assert held.kind is SpanKind.INTERNAL
    assert held.status.status_code is StatusCode.ERROR
    assert held.attributes["gen_ai.operation.name"] == "execute_tool"
    assert held.attributes["gen_ai.tool.name"] == "mail/delete_message"
    assert held.attributes["gen_ai.tool.type"] == "function"
    assert held.attributes["shortlist.denied.kind"] == "precondition"
    assert "mail/list_message" in held.attributes["shortlist.denied.unlocked_by"]
    kinds = [one.attributes["error.type"] for one in (held, unknown, promoted, invalid)]
    assert kinds == ["denied", "unknown", "promoted", "invalid"]
    assert "mail/delete_message" not in unknown.attributes.get("shortlist.nearest", ())
    assert invalid.attributes["shortlist.problems"] == ("/id",)
    assert "secret" not in str([dict(one.attributes) for one in exported.spans])
    counted = {
        attributes["shortlist.call.status"]: point.value
        for attributes, point in points(exported.metrics["shortlist.calls"])
    }
    assert counted == dict.fromkeys(["passed", "denied", "unknown", "promoted", "invalid"], 1)


def test_the_metrics_of_turns(engine, exported):
    recorder = Recorder(exported.sink)
    session = engine.session("openai", k=4, pass_through=0, pool_tokens=0, events=recorder)
    for _ in range(3):
        session.turn("list my messages")
    metrics = exported.metrics
    ((attributes, seconds),) = points(metrics["gen_ai.client.operation.duration"])
    assert attributes == {
        "gen_ai.operation.name": "retrieval",
        "gen_ai.provider.name": "shortlist",
        "shortlist.tier": "lexical",
        "shortlist.abstained": False,
    }
    assert metrics["gen_ai.client.operation.duration"].unit == "s"
    assert seconds.count == 3
    assert 0 < seconds.sum < 5
    ((_, active),) = points(metrics["shortlist.turn.active_tools"])
    assert (active.count, active.max) == (3, len(session.active))
    phases = {
        attributes["shortlist.prompt.part"]: point.sum
        for attributes, point in points(metrics["shortlist.prompt.tokens"])
    }
    assert phases.keys() == {"head", "messages"}
    assert min(phases.values()) > 0


def test_the_span_of_an_execution(exported):
    http = exported.tracers.get_tracer("http")
    with exported.sink.execute_tool("mail/list_message", call_id="call_1"):
        http.start_span("GET").end()
    inner, span = exported.spans
    assert span.name == "execute_tool mail/list_message"
    assert span.attributes["gen_ai.tool.call.id"] == "call_1"
    assert inner.parent.span_id == span.context.span_id
    with pytest.raises(LookupError), exported.sink.execute_tool("mail/list_message"):
        raise LookupError("no such message 55512345")
    failed = exported.spans[-1]
    assert failed.attributes["error.type"] == "LookupError"
    assert failed.status.status_code is StatusCode.ERROR
    assert "55512345" not in failed.to_json()
    counts = [point.count for _, point in points(exported.metrics["gen_ai.execute_tool.duration"])]
    assert counts == [1, 1]


def test_without_an_sdk_nothing_happens(engine):
    recorder = Recorder(OpenTelemetry())
    engine.session(events=recorder).turn("list my messages")
    assert recorder.failures == (0,)


def test_without_the_api_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(MissingExtraError, match=r"\[otel\]"):
        OpenTelemetry()
