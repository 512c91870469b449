"""Metrics of the gateway for Prometheus, from its events.

Label values come from the configuration only: names of servers and tiers, states, outcomes. So no
client and no server can increase their number.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Collection, Iterator

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric

from ...session.event import (
    CallEvent,
    DetailsEvent,
    Event,
    ListEvent,
    ScriptEvent,
    SearchEvent,
    ServerEvent,
)
from ..upstream.fleet import Fleet
from ..upstream.server_connection import ServerState

_CALL_SECONDS_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_SEARCH_SECONDS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1)
#: Label for any other server or tier.
_OTHER_LABEL = "none"


class Metrics:
    """An event sink that counts metrics and writes them in the text format of Prometheus.

    Args:
        fleet: the servers; their names and states are labels.
        sessions: returns the number of sessions.
    """

    def __init__(self, fleet: Fleet, sessions: Callable[[], int]) -> None:
        self._fleet = fleet
        self._sessions = sessions
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        registry.register(self)
        self._searches = Counter(
            "shortlist_searches", "Searches, by the tier that ran", ["tier", "outcome"],
            registry=registry,
        )  # fmt: skip
        self._search_seconds = Histogram(
            "shortlist_search_seconds", "Time of a search", ["tier"],
            buckets=_SEARCH_SECONDS_BUCKETS, registry=registry,
        )  # fmt: skip
        self._calls = Counter(
            "shortlist_calls", "Calls of tools, by server", ["server", "outcome"], registry=registry
        )
        self._call_seconds = Histogram(
            "shortlist_call_seconds", "Time a server takes for a call", ["server"],
            buckets=_CALL_SECONDS_BUCKETS, registry=registry,
        )  # fmt: skip
        self._scripts = Counter(
            "shortlist_scripts", "Scripts that clients ran", ["outcome"], registry=registry
        )
        self._starts = Counter(
            "shortlist_server_starts", "Starts of servers", ["server", "outcome"], registry=registry
        )
        self._tokens_defined = Counter(
            "shortlist_tokens_defined",
            "Tokens of all definitions that clients would have read",
            registry=registry,
        )
        self._tokens_sent = Counter(
            "shortlist_tokens_sent",
            "Tokens that clients were given instead: definitions shown, answers, details",
            ["kind"],
            registry=registry,
        )

    def __call__(self, event: Event) -> None:
        """Count an event."""
        match event:
            case SearchEvent():
                tier = self._label(event.tier, self._fleet.engine.tiers)
                self._searches.labels(tier, event.outcome).inc()
                self._search_seconds.labels(tier).observe(event.ms / 1e3)
                self._tokens_sent.labels("search").inc(event.tokens)
            case ScriptEvent():
                self._scripts.labels(event.outcome).inc()
            case DetailsEvent():
                self._tokens_sent.labels("details").inc(event.tokens)
            case ListEvent():
                self._tokens_defined.inc(event.permitted_tokens)
                self._tokens_sent.labels("list").inc(event.tokens)
            case CallEvent():
                server = self._label(event.server or "", self._fleet.upstreams)
                self._calls.labels(server, event.outcome).inc()
                if event.run_ms is not None:
                    self._call_seconds.labels(server).observe(event.run_ms / 1e3)
            case ServerEvent():
                if event.ms is not None or event.problem is not None:
                    outcome = "started" if event.problem is None else "failed"
                    self._starts.labels(event.server, outcome).inc()

    def collect(self) -> Iterator[Metric]:
        """The present numbers of servers by state, tools and sessions."""
        # A copy, because servers may change while a thread counts.
        upstreams = list(self._fleet.upstreams.values())
        states = Tally(upstream.state.value for upstream in upstreams)
        servers = GaugeMetricFamily("shortlist_servers", "Servers, by state", labels=["state"])
        for state in ServerState:
            servers.add_metric([state.value], states[state.value])
        yield servers
        catalog, quarantined = self._fleet.engine.catalog, self._fleet.engine.quarantined
        quarantined_count = sum(tool_id in catalog for tool_id in quarantined)
        tools = GaugeMetricFamily("shortlist_tools", "Tools, by state", labels=["state"])
        tools.add_metric(["offered"], len(catalog) - quarantined_count)
        tools.add_metric(["quarantined"], quarantined_count)
        yield tools
        yield GaugeMetricFamily("shortlist_sessions", "MCP sessions", value=self._sessions())

    def text(self) -> bytes:
        """All metrics in the text format, version 0.0.4."""
        return generate_latest(self._registry)

    @staticmethod
    def _label(name: str, names: Collection[str]) -> str:
        return name if name in names else _OTHER_LABEL
