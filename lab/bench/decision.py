"""Measures the time that gate, session and decision add to a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from ...catalog import Catalog
from ...config import Config, TrustConfig
from ...engine import Engine
from ...gating import (
    Condition,
    Gate,
    Rule,
    State,
    after,
    all_of,
    annotation,
    any_of,
    fact,
    milestone,
    not_,
    requires_scope,
)
from ...indexing.builder import Builder
from ...indexing.stage_models import StageModels
from ...retrieval.store.versions import read
from ...session.intents import parts_of_message
from .timing import Times, in_turn, warm_up

RULES = 50
_SEARCH, _TURN = "search", "turn"
_TIER = "hybrid"


@dataclass(frozen=True, slots=True)
class Added:
    """Time of a turn beyond a search for the same request; both alternate.

    Args:
        tools: number of tools in the catalog.
        admitted: number of permitted tools.
        threads: CPU threads of the encoder.
        search_ms: median of searches without rules, state, session or decision.
        wall_ms: median of the differences, request by request.
        cpu_ms: the same in CPU time of the whole process.
        requests: pairs timed, by each clock.
    """

    tools: int
    admitted: int
    threads: int
    search_ms: float
    wall_ms: float
    cpu_ms: float
    requests: int

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "tools": self.tools,
            "admitted": self.admitted,
            "rules": RULES,
            "threads": self.threads,
            "search_ms": round(self.search_ms, 4),
            "added_wall_ms": round(self.wall_ms, 4),
            "added_cpu_ms": round(self.cpu_ms, 4),
            "requests": self.requests,
        }


def added(folder: Path, queries: Sequence[str], *, threads: int, rounds: int) -> Added:
    """Single requests as turns of new sessions beside plain searches, over a saved index.

    The plain engine holds nothing back. The other has `RULES` rules and what trust says, and its
    sessions hold a state and abstain by the bundled decider. A request of its own is encoded once
    either way.

    Args:
        folder: folder of the index.
        queries: texts to search for, see `undivided`.
        threads: CPU threads of the encoder.
        rounds: how often each is asked, by each clock.
    """
    gate, state = mixed_rules(read(folder).catalog)
    # One encoder for both, as a process has it.
    configs = (
        Config(threads=threads, gate=gate),
        Config(threads=threads, trust=TrustConfig(scan=False)),
    )
    models = StageModels(configs[0])
    builders = [Builder(config, models) for config in configs]
    gated, plain = (Engine(builder, builder.open(folder)[0]) for builder in builders)
    calls = {
        _SEARCH: lambda position: plain.search(queries[position], tier=_TIER),
        _TURN: lambda position: gated.session(state=state, tier=_TIER).turn(queries[position]),
    }
    for call in calls.values():
        warm_up(call, len(queries))
    wall = in_turn(calls, len(queries), rounds=rounds)
    cpu = in_turn(calls, len(queries), rounds=rounds, clock=process_time)
    return Added(
        tools=len(plain.catalog),
        admitted=len(plain.catalog) - len(gated.view(state).admission.refusals),
        threads=threads,
        search_ms=float(np.median(wall[_SEARCH])),
        wall_ms=_between(wall),
        cpu_ms=_between(cpu),
        requests=len(queries) * rounds,
    )


def undivided(queries: Sequence[str]) -> list[str]:
    """The queries that a session searches for once: others are encoded for each of their parts."""
    return [query for query in queries if len(parts_of_message(query)) < 2]


def _between(times: Mapping[str, Times]) -> float:
    return float(np.median(times[_TURN] - times[_SEARCH]))


def mixed_rules(catalog: Catalog) -> tuple[Gate, State]:
    """Rules of every kind over a catalog's servers and names, and a state that meets about half."""
    servers = [server for server in catalog.servers if server] or ["*"]
    rules = [_rule(number, servers[number % len(servers)]) for number in range(RULES)]
    state = State(
        scopes=frozenset(f"scope {number}" for number in range(0, RULES, 2)),
        called=tuple(tool.id for tool in catalog[:20]),
        milestones=frozenset(f"milestone {number}" for number in range(0, RULES, 3)),
        facts={f"fact {number}": number for number in range(0, RULES, 2)},
    )
    return Gate(rules), state


def _rule(number: int, server: str) -> Rule:
    scope, known = requires_scope(f"scope {number}"), fact(f"fact {number}")
    kinds: tuple[Condition, ...] = (
        scope,
        after("*search*"),
        milestone(f"milestone {number}"),
        known,
        any_of(scope, milestone(f"milestone {number}")),
        all_of(scope, not_(known)),
        any_of(annotation("readOnlyHint", True), known),
    )
    needs = kinds[number % len(kinds)]
    if number % 2:
        return Rule(needs, tools=f"*{'abcdefghijklmnopqrstuvwxyz'[number // 2]}*_*y*")
    return Rule(needs, server=server)
