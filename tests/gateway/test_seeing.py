"""Events, spans and metrics of a gateway over real servers."""

from __future__ import annotations

import json
import re
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families

import shortlist
from shortlist.gateway.connections.server_log import log_opener
from shortlist.gateway.connections.server_spec import ServerSpec
from shortlist.gateway.http_server import serve_http
from shortlist.gateway.observe import observer as observing
from shortlist.gateway.observe.gateway_metrics import Metrics
from shortlist.gateway.observe.observer import Observer
from shortlist.gateway.profiles.profile import Profile
from shortlist.gateway.server import Gateway
from shortlist.gateway.upstream.fleet import Fleet
from shortlist.gateway.upstream.start_cache import ListingCache
from shortlist.integrations.opentelemetry import OpenTelemetry
from shortlist.session import Event, JsonLines, read_events

from .warm_python import warm

SERVER = str(Path(__file__).parent / "everything_server.py")
pytestmark = pytest.mark.anyio
SECRET = "token-VALUE-4711"


@pytest.fixture
def anyio_backend():
    return "asyncio"


def spec(name: str, **changed) -> ServerSpec:
    given = {"transport": "stdio", "command": sys.executable, "args": warm(SERVER, name), **changed}
    return ServerSpec(name=name, **given)


def fleet_of(tmp_path, *specs) -> Fleet:
    return Fleet(
        specs,
        engine_settings={"tiers": ["lexical"]},
        listing_cache=ListingCache(tmp_path / "manifests"),
        open_log=log_opener(tmp_path / "logs"),
    )


@asynccontextmanager
async def gateway(fleet, *sinks, content=False, profile=None):
    observer = Observer(*sinks, content=content)
    made = Gateway(fleet, profile or Profile(pass_through=0.0), observer=observer)
    async with anyio.create_task_group() as group:
        await group.start(fleet.run)
        with anyio.fail_after(30):
            while fleet.unlisted_servers:
                await anyio.sleep(0.05)
        async with Client(made.server) as client:
            yield client
        group.cancel_scope.cancel()
    await anyio.to_thread.run_sync(observer.close)


async def use(client) -> None:
    """A search that finds, one that is wrong, details, calls of each outcome but cancellation."""
    await client.list_tools()
    await client.call_tool("search_tools", {"query": "add two numbers"})
    await client.call_tool("search_tools", {"query": "add", "server": "my secret words"})
    await client.call_tool("get_tool_details", {"names": ["one/add_numbers", "one/nothing"]})
    for name, arguments in (
        ("one/add_numbers", {"first": 1, "second": 2}),
        ("one/fail_on_purpose", {"reason": SECRET}),
        ("one/add_numbers", {"first": SECRET}),
        ("one/nothing", {}),
        ("one/end_process", {}),
    ):
        await client.call_tool("call_tool", {"name": name, "arguments": arguments})


def by_kind(path) -> dict[str, list[dict]]:
    found: dict[str, list[dict]] = {}
    for event in read_events(path):
        assert isinstance(event, Event), event
        found.setdefault(event.kind, []).append(event.model_dump(mode="json"))
    return found


async def test_tools_of_servers_that_start_after_the_first_list_are_recorded(tmp_path):
    path, fleet = tmp_path / "events.jsonl", fleet_of(tmp_path, spec("one"))
    profile = Profile("intern", pass_through=0.0, tools=("*/add_numbers",))
    async with gateway(fleet, JsonLines(path), profile=profile) as client:
        await client.list_tools()
        await fleet.reload([spec("one"), spec("two")])
        with anyio.fail_after(30):
            while not any(tool.server == "two" for tool in fleet.engine.catalog):
                await anyio.sleep(0.05)
        for _ in range(2):
            await client.call_tool("search_tools", {"query": "add two numbers"})
    found = by_kind(path)
    first, second = found["catalog"]
    assert (len(first["tools"]), len(second["tools"])) == (4, 8)
    assert second["profile_tools"] == ["one/add_numbers", "two/add_numbers"]
    assert {row["client"] for row in (first, second, *found["search"])} == {"intern"}


async def test_events_say_what_was_searched_found_and_called(tmp_path):
    path = tmp_path / "events.jsonl"
    async with gateway(fleet_of(tmp_path, spec("one")), JsonLines(path)) as client:
        await use(client)
    found = by_kind(path)
    assert set(found) == {"server", "catalog", "list", "search", "details", "call"}
    assert found["server"][0]["state"] == "started"
    assert found["server"][0]["tools"] == 4
    assert found["server"][0]["ms"] > 0
    assert set(found["catalog"][0]["tools"]) == {
        "one/add_numbers",
        "one/repeat_text",
        "one/fail_on_purpose",
        "one/end_process",
    }
    listed = found["list"][0]
    assert listed["catalog"] == found["catalog"][0]["catalog"]
    assert listed["permitted_tokens"] == sum(found["catalog"][0]["tools"].values())
    assert (listed["shown"], listed["permitted"]) == (5, 4)
    first, wrong = found["search"]
    assert (first["outcome"], first["tier"], first["turn"]) == ("found", "lexical", 1)
    assert first["found"][0]["id"] == "one/add_numbers"
    assert first["tokens"] > 0
    assert first["ms"] > 0
    assert (wrong["outcome"], wrong["server"]) == ("invalid", None)
    details = found["details"][0]
    assert (details["found"], details["unknown"]) == (["one/add_numbers"], 1)
    calls = [(one["tool"], one["status"], one["outcome"], one["ok"]) for one in found["call"]]
    assert calls == [
        ("one/add_numbers", "passed", "ok", True),
        ("one/fail_on_purpose", "passed", "tool_error", False),
        ("one/add_numbers", "invalid", "invalid", False),
        ("one/nothing", "unknown", "unknown", False),
        ("one/end_process", "passed", "server_error", False),
    ]
    assert found["call"][0]["run_ms"] > 0
    assert found["call"][0]["sent"] == len('{"first": 1, "second": 2}')
    assert found["call"][0]["received"] == 1
    assert found["call"][2]["run_ms"] is None
    assert len({one["session"] for one in found["call"] + found["search"]}) == 1


async def test_without_content_no_event_holds_what_was_said(tmp_path):
    path = tmp_path / "events.jsonl"
    async with gateway(fleet_of(tmp_path, spec("one")), JsonLines(path)) as client:
        await use(client)
    text = path.read_text()
    for said in (SECRET, "add two numbers", "my secret words"):
        assert said not in text
    path = tmp_path / "content.jsonl"
    async with gateway(fleet_of(tmp_path, spec("one")), JsonLines(path), content=True) as client:
        await use(client)
    found = by_kind(path)
    assert found["search"][0]["content"] == {"query": "add two numbers"}
    assert found["call"][0]["content"]["arguments"] == {"first": 1, "second": 2}
    assert found["call"][0]["content"]["result"]["structuredContent"] == {"result": 3}
    assert SECRET in json.dumps(found["call"][2]["content"]["got"])


async def test_a_failed_start_is_an_event_without_the_secrets_of_the_configuration(
    tmp_path, caplog
):
    path, problem = tmp_path / "events.jsonl", f"import os; os.write(1, b'{SECRET}'); os._exit(2)"
    broken = spec("broken", args=("-c", problem), env={"KEY": SECRET})
    gone = ServerSpec(
        name="gone",
        transport="http",
        url=f"http://127.0.0.1:1/{SECRET}/mcp",
        headers={"Authorization": f"Bearer {SECRET}"},
        start_timeout_s=5,
    )
    fleet = fleet_of(tmp_path, broken, gone)
    observer = Observer(JsonLines(path))
    made = Gateway(fleet, Profile(pass_through=0.0), observer=observer)
    async with anyio.create_task_group() as group:
        await group.start(fleet.run)
        with anyio.fail_after(30):
            while {one.state.value for one in fleet.upstreams.values()} != {"failed"}:
                await anyio.sleep(0.05)
        async with Client(made.server) as client:
            told = await client.call_tool("list_servers", {})
            call = {"name": "gone/x", "arguments": {}}
            answer = await client.call_tool("call_tool", call)
        group.cancel_scope.cancel()
    failed = {one["server"]: one["problem"] for one in by_kind(path)["server"]}
    assert set(failed) == {"broken", "gone"}
    assert all(failed.values())
    for text in (path.read_text(), caplog.text, str(told), str(answer), str(fleet.problems())):
        assert SECRET not in text


async def test_spans_of_a_search_and_of_calls(tmp_path):
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    async with gateway(fleet_of(tmp_path, spec("one")), OpenTelemetry(tracers=provider)) as client:
        await use(client)
    spans = exporter.get_finished_spans()
    names = [one.name for one in spans if one.name != "shortlist.server.start"]
    assert names[:2] == ["retrieval tools", "retrieval tools"]
    assert names[2:] == [
        "execute_tool one/add_numbers",
        "execute_tool one/fail_on_purpose",
        "execute_tool one/add_numbers",
        "execute_tool one/nothing",
        "execute_tool one/end_process",
    ]
    assert spans[0].name == "shortlist.server.start"
    assert spans[0].attributes["shortlist.server.tools"] == 4
    calls = [one for one in spans if one.name.startswith("execute_tool")]
    assert [one.attributes.get("error.type") for one in calls] == [
        None,
        "tool_error",
        "invalid",
        "unknown",
        "server_error",
    ]
    assert calls[0].end_time > calls[0].start_time
    assert calls[0].attributes["shortlist.server"] == "one"
    assert all(SECRET not in str(one.to_json()) for one in spans)


def samples(text: str) -> dict[tuple, float]:
    return {
        (one.name, *sorted(one.labels.items())): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


async def test_metrics_count_calls_searches_servers_and_tokens(tmp_path):
    fleet = fleet_of(tmp_path, spec("one"))
    metrics = Metrics(fleet, lambda: 7)
    async with gateway(fleet, metrics) as client:
        await use(client)
        # Events are counted in a thread of their own.
        last = ("shortlist_calls_total", ("outcome", "server_error"), ("server", "one"))
        with anyio.fail_after(30):
            while last not in (found := samples(metrics.text().decode())):
                await anyio.sleep(0.02)
    for outcome in ("ok", "tool_error", "invalid", "server_error"):
        name = ("shortlist_calls_total", ("outcome", outcome), ("server", "one"))
        assert found[name] == 1, outcome
    assert found["shortlist_calls_total", ("outcome", "unknown"), ("server", "none")] == 1
    assert found["shortlist_searches_total", ("outcome", "found"), ("tier", "lexical")] == 1
    assert found["shortlist_searches_total", ("outcome", "invalid"), ("tier", "none")] == 1
    assert found["shortlist_call_seconds_count", ("server", "one")] == 3
    assert found["shortlist_search_seconds_count", ("tier", "lexical")] == 1
    assert found["shortlist_server_starts_total", ("outcome", "started"), ("server", "one")] >= 1
    states = [value for key, value in found.items() if key[0] == "shortlist_servers"]
    assert sum(states) == 1
    assert found["shortlist_tools", ("state", "offered")] == 4
    assert found[("shortlist_sessions",)] == 7
    closed = samples(metrics.text().decode())
    assert closed[("shortlist_tokens_defined_total",)] > 0
    assert closed["shortlist_tokens_sent_total", ("kind", "search")] > 0
    assert closed["shortlist_tokens_sent_total", ("kind", "list")] > 100


async def test_names_that_a_client_makes_up_add_no_label(tmp_path):
    fleet = fleet_of(tmp_path, spec("one"))
    metrics = Metrics(fleet, lambda: 0)
    async with gateway(fleet, metrics) as client:
        await use(client)
        before = len(samples(metrics.text().decode()))
        for number in range(20):
            given = {"name": f"server{number}/tool", "arguments": {}}
            await client.call_tool("call_tool", given)
            await client.call_tool("search_tools", {"query": "x", "tier": f"tier{number}"})
            await client.call_tool("search_tools", {"query": "x", "server": f"s{number}"})
        assert len(samples(metrics.text().decode())) <= before + 8


@pytest.mark.parametrize(
    ("tokens", "metrics_token", "sent", "expected"),
    [
        ({}, None, {}, 200),
        ({}, None, {"Host": "evil.example"}, 421),
        ({}, "for-metrics", {}, 401),
        ({}, "for-metrics", {"Authorization": "Bearer for-metrics"}, 200),
        ({"a": "of-a-client"}, None, {}, 401),
        ({"a": "of-a-client"}, None, {"Authorization": "Bearer of-a-client"}, 401),
        ({"a": "of-a-client"}, "for-metrics", {"Authorization": "Bearer of-a-client"}, 401),
        ({"a": "of-a-client"}, "for-metrics", {"Authorization": "Bearer for-metrics"}, 200),
    ],
)
async def test_strangers_see_no_metrics(tmp_path, tokens, metrics_token, sent, expected):
    fleet = fleet_of(tmp_path)
    metrics = Metrics(fleet, lambda: 0)
    made = Gateway(fleet, profiles={"a": Profile()}, observer=Observer(metrics))
    ports: list[int] = []
    async with anyio.create_task_group() as group:
        group.start_soon(
            lambda: serve_http(
                made,
                "127.0.0.1",
                0,
                tokens,
                metrics=metrics,
                metrics_token=metrics_token,
                on_start=ports.append,
            )
        )
        with anyio.fail_after(30):
            while not ports:
                await anyio.sleep(0.05)
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{ports[0]}") as http:
            answer = await http.get("/metrics", headers=sent)
            healthy = await http.get("/healthz")
        group.cancel_scope.cancel()
    assert answer.status_code == expected
    if expected != 200:
        assert ("shortlist.metrics_token" in answer.text) == (expected == 401)
        assert "shortlist_servers" not in answer.text
    else:
        assert samples(answer.text)["shortlist_servers", ("state", "failed")] == 0
    assert healthy.json() == {"status": "ok", "servers": {}}


async def test_health_names_no_server(tmp_path):
    fleet = fleet_of(tmp_path, spec("one"))
    made = Gateway(fleet, Profile(pass_through=0.0))
    ports: list[int] = []
    async with anyio.create_task_group() as group:
        group.start_soon(
            lambda: serve_http(made, "127.0.0.1", 0, {"a": "t"}, on_start=ports.append)
        )
        with anyio.fail_after(30):
            while not ports or fleet.unlisted_servers:
                await anyio.sleep(0.05)
        url = f"http://127.0.0.1:{ports[0]}"
        async with httpx2.AsyncClient() as http:
            answer = await http.get(f"{url}/healthz")
        group.cancel_scope.cancel()
    assert answer.json() == {"status": "ok", "servers": {"started": 1}}


async def test_requests_without_a_session_are_one_conversation_until_a_pause(tmp_path, monkeypatch):
    path = tmp_path / "events.jsonl"
    fleet, observer = fleet_of(tmp_path, spec("one")), Observer(JsonLines(path))
    made = Gateway(fleet, Profile(pass_through=0.0), observer=observer)
    ports: list[int] = []
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: serve_http(made, "127.0.0.1", 0, on_start=ports.append))
        with anyio.fail_after(30):
            while not ports or fleet.unlisted_servers:
                await anyio.sleep(0.05)
        transport = streamable_http_client(f"http://127.0.0.1:{ports[0]}/mcp")
        async with Client(transport) as client:
            for _ in range(3):
                await client.list_tools()
            await client.call_tool("search_tools", {"query": "add two numbers"})
            given = {"name": "one/add_numbers", "arguments": {"first": 1, "second": 2}}
            await client.call_tool("call_tool", given)
            assert len(made.sessions) == 0
            monkeypatch.setattr(observing, "_CONVERSATION_PAUSE_S", 0.0)
            await client.call_tool("call_tool", given)
        group.cancel_scope.cancel()
    await anyio.to_thread.run_sync(observer.close)
    found = by_kind(path)
    first, later = found["call"]
    assert first["session"] == found["search"][0]["session"] == found["list"][0]["session"]
    # Each request asks for a list of its own, which is read once.
    assert sum(one["session"] == first["session"] for one in found["list"]) == 1
    assert later["session"] != first["session"]


async def test_the_page_names_every_metric(tmp_path):
    page = (Path(shortlist.__file__).parent / "docs" / "observing.md").read_text(encoding="utf-8")
    text = Metrics(fleet_of(tmp_path), lambda: 0).text().decode()
    for name in re.findall(r"^# TYPE (shortlist_\w+)", text, re.M):
        if not name.endswith("_created"):
            assert name in page, name


async def test_a_query_that_this_machine_records_stays_out_of_spans(tmp_path):
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    kept = []
    observer = Observer(OpenTelemetry(tracers=provider, queries=False), kept.append, queries=True)
    made = Gateway(fleet_of(tmp_path, spec("one")), observer=observer)
    async with anyio.create_task_group() as group:
        await group.start(made.fleet.run)
        async with Client(made.server) as client:
            await client.call_tool("search_tools", {"query": "add two numbers"})
        group.cancel_scope.cancel()
    await anyio.to_thread.run_sync(observer.close)
    [search] = [event for event in kept if event.kind == "search"]
    assert search.content == {"query": "add two numbers"}
    [span] = [each for each in exporter.get_finished_spans() if "retrieval" in each.name]
    assert "add two numbers" not in str(dict(span.attributes or {}))
