"""Whatever the public methods are given, the outcome is a result or a ShortlistError.

`SHORTLIST_FUZZ_EXAMPLES=1000 pytest --hypothesis-seed=1 tests/engine/test_fuzz_public.py` runs the
long profile; every example is a fresh session of up to a dozen calls, 0.1 s each. Hypothesis keeps
some 50 kB of each, so run 20,000 examples in parts, each with its own seed.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from shortlist import Catalog, Engine, ShortlistError, State, Tool
from shortlist.catalog import read_tools
from shortlist.catalog.readers import READERS
from shortlist.config import Config

from .fuzz_values import (
    ALLOWED,
    ARGUMENTS,
    CONFIG,
    COUNT,
    DEFINITIONS,
    DOCUMENT,
    FOLDER,
    GATE,
    IDENTITY,
    MESSAGES,
    QUERY,
    SCHEMA,
    SERVER,
    SETTINGS,
    STATE,
    TIER,
    TOOLS,
    VOTES,
    WRONG,
    either,
)

EXAMPLES = int(os.environ.get("SHORTLIST_FUZZ_EXAMPLES", "120"))
STEPS = 12
ENGINE = Engine.from_tools(TOOLS, tiers=["lexical"], gate=GATE)


class PublicMethods(RuleBasedStateMachine):
    """A session of calls over one engine, a view, a session and a catalog."""

    @initialize(provider=st.sampled_from([None, "openai", "anthropic", "text"]))
    def begin(self, provider: str | None) -> None:
        """From the same catalog every time."""
        ENGINE.replace(TOOLS, quarantined={})
        self.view = ENGINE.view()
        self.session = ENGINE.session(provider, session_id="fuzz")
        self.catalog = ENGINE.catalog

    def _try(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except ShortlistError as error:
            self.told = str(error)
            return None

    @rule(query=QUERY, tier=TIER, k=COUNT, budget=either(None, 1.0, 1_000), abstain=st.booleans())
    def search(self, query: Any, tier: Any, k: Any, budget: Any, abstain: bool) -> None:
        """Both ways to search, and what an answer is written as."""
        self._try(lambda: ENGINE.search(query, tier=tier, k=k, budget_ms=budget))
        options = {"tier": tier, "k": k, "budget_ms": budget, "abstain": abstain}
        found = self._try(lambda: self.view.search(query, **options))
        if found is not None:
            json.dumps(found.to_dict())
            assert all(self.view.permits(one) for one in found.ids)

    @rule(query=QUERY, k=COUNT)
    def asearch(self, query: Any, k: Any) -> None:
        """In an event loop."""
        self._try(lambda: asyncio.run(self.view.asearch(query, k=k)))

    @rule(queries=either(["a", "b"], st.lists(QUERY, max_size=3)), tier=TIER, k=COUNT)
    def search_many(self, queries: Any, tier: Any, k: Any) -> None:
        """Several at once."""
        self._try(lambda: self.view.search_many(queries, tier=tier, k=k))

    @rule(query=QUERY, tool_id=IDENTITY, tier=TIER, k=COUNT)
    def explain(self, query: Any, tool_id: Any, tier: Any, k: Any) -> None:
        """Also where there is no such tool."""
        self._try(lambda: self.view.explain(query, tool_id, tier=tier, k=k))

    @rule(names=either(st.lists(IDENTITY, max_size=3)), one=IDENTITY, arguments=ARGUMENTS)
    def ask_view(self, names: Any, one: Any, arguments: Any) -> None:
        """What a view says of single tools."""
        self._try(lambda: self.view.details(names))
        self._try(lambda: self.view.permits(one))
        self._try(lambda: self.view.refusal(one))
        verdict = self._try(lambda: self.view.check(one, arguments))
        assert verdict is None or json.loads(verdict.text)

    @rule(state=STATE, allowed=ALLOWED, votes=VOTES)
    def new_view(self, state: Any, allowed: Any, votes: Any) -> None:
        """The view that later steps ask."""
        self.view = self._try(lambda: ENGINE.view(state, allowed=allowed, votes=votes)) or self.view
        self.view.tools()
        json.dumps(self.view.unmatched)

    @rule(
        provider=either(None, "openai", "text"),
        way=either(None, "list", "call_tool"),
        state=STATE,
        allowed=ALLOWED,
        name=either(None, "n"),
        given=SETTINGS,
    )
    def new_session(
        self,
        provider: Any,
        way: Any,
        state: Any,
        allowed: Any,
        name: Any,
        given: Any,
    ) -> None:
        """The session that later steps use."""
        made = self._try(
            lambda: ENGINE.session(
                provider,
                tools=way,
                state=state,
                allowed=allowed,
                session_id=name,
                **given,
            )
        )
        self.session = made or self.session

    @rule(messages=MESSAGES, votes=VOTES)
    def turn(self, messages: Any, votes: Any) -> None:
        """What the user says."""
        self._try(lambda: setattr(self.session, "votes", votes))
        turn = self._try(lambda: self.session.turn(messages))
        if turn is not None:
            assert all(self.session.level(one) is None or one for one in turn.ids)
            json.dumps(turn.appended if hasattr(turn, "appended") else [], default=str)

    @rule(name=IDENTITY, arguments=ARGUMENTS, content=either("done", {"a": 1}), ok=st.booleans())
    def call(self, name: Any, arguments: Any, content: Any, ok: bool) -> None:
        """A call and what came of it."""
        verdict = self._try(lambda: self.session.check(name, arguments))
        if verdict is not None:
            json.loads(verdict.text)
        target = verdict.tool.id if verdict is not None and verdict.tool else name
        self._try(lambda: self.session.result(target, content, ok=ok))
        self._try(lambda: self.session.level(name))

    @rule(text=either(None, "done"), state=STATE, allowed=ALLOWED)
    def change_session(self, text: Any, state: Any, allowed: Any) -> None:
        """What a host sets between the turns."""
        self._try(lambda: self.session.answered(text))
        self._try(lambda: setattr(self.session, "state", state))
        before = self.session.allowed
        self._try(lambda: setattr(self.session, "allowed", allowed))
        if self._try(self.session.view) is None:
            self.session.allowed = before
        self._try(lambda: self.session.tools)

    @rule(key=st.sampled_from([None, "version", "active", "prompt", "messages", "state", "passed",
                               "allowed", "settings", "turn", "called", "provider", "id"]),
          value=WRONG)  # fmt: skip
    def resume(self, key: str | None, value: Any) -> None:
        """A session saved, damaged or not."""
        saved = self._try(self.session.save)
        if saved is not None:
            saved = json.loads(json.dumps(saved))
            damaged = saved if key is None else saved | {key: value}
            self._try(lambda: ENGINE.resume(damaged, state=State()))
        self._try(lambda: ENGINE.resume(value, state=State()))

    @rule(tools=DEFINITIONS, server=SERVER, reasons=either(None, {"mail/list_message": "why"}))
    def update(self, tools: Any, server: Any, reasons: Any) -> None:
        """Under a view and a session that go on."""
        if server is None:
            self._try(lambda: ENGINE.replace(tools, quarantined=reasons))
        else:
            self._try(lambda: ENGINE.replace_server(server, tools, quarantined=reasons))
        self.catalog = ENGINE.catalog

    @rule(
        reasons=either({}, {"mail/list_message": "why"}),
        state=STATE,
        tool_id=IDENTITY,
    )
    def manage(self, reasons: Any, state: Any, tool_id: Any) -> None:
        """What an operator does with an engine."""
        self._try(lambda: ENGINE.quarantine(reasons))
        self._try(lambda: ENGINE.after_call(state, tool_id))
        assert len(ENGINE.problems) >= 0

    @rule(tools=DEFINITIONS, config=either(None), given=CONFIG)
    def new_engine(self, tools: Any, config: Any, given: Any) -> None:
        """Made of anything; lexical only, for the time it takes."""
        small = {"tiers": ["lexical"]} | given
        if small.get("tiers") == ["lexical"]:
            self._try(lambda: Engine.from_tools(tools, config, **({} if config else small)))
        self._try(lambda: Config(**given))

    @rule(folder=FOLDER)
    def save_and_open(self, folder: Any) -> None:
        """On disk."""
        self._try(lambda: ENGINE.save(folder))
        self._try(lambda: Engine.open(folder, tiers=["lexical"]))
        self._try(lambda: Config.read(folder))
        self._try(lambda: read_tools(folder, strict=False))

    @rule(one=IDENTITY, index=either(0, 5, slice(2)))
    def ask_catalog(self, one: Any, index: Any) -> None:
        """What a catalog says."""
        self._try(lambda: self.catalog.get(one))
        self._try(lambda: self.catalog.named(one))
        self._try(lambda: self.catalog[index])
        self._try(lambda: one in self.catalog)
        self._try(lambda: self.catalog == one)

    @rule(tools=DEFINITIONS, many=either(st.lists(IDENTITY, max_size=3)), server=SERVER)
    def change_catalog(self, tools: Any, many: Any, server: Any) -> None:
        """New versions of it."""
        for call in (
            lambda: Catalog(tools),
            lambda: self.catalog.add(tools),
            lambda: self.catalog.remove(many),
            lambda: self.catalog.replace_server(server, tools),
        ):
            made = self._try(call)
            if made is not None:
                assert len(made.fingerprint) == 32

    @rule(
        document=DOCUMENT,
        form=either("auto", st.sampled_from([reader.name for reader in READERS])),
        server=SERVER,
        strict=st.booleans(),
        keep_ids=st.booleans(),
    )
    def read(self, document: Any, form: Any, server: Any, strict: bool, keep_ids: bool) -> None:
        """Any value as tools."""
        options: dict[str, Any] = {"format": form, "server": server, "keep_ids": keep_ids}
        found = self._try(lambda: read_tools(document, strict=strict, **options))
        if found is not None and isinstance(server, str):
            assert {tool.server for tool in found.tools} <= {server, server.strip()} or found.tools
        self._try(lambda: Catalog.read(document, **options))

    @rule(
        fields=st.dictionaries(
            st.sampled_from(
                "name server description input_schema id title output_schema tags".split()
            ),
            either("text", SCHEMA),
            max_size=5,
        ),
        kinds=st.dictionaries(
            st.sampled_from(["scopes", "called", "milestones", "facts"]), WRONG, max_size=2
        ),
    )
    def values(self, fields: Any, kinds: Any) -> None:
        """Tools and states of anything."""
        self._try(lambda: Tool(**({"name": "t"} | fields)))
        self._try(lambda: Tool.from_dict(fields))
        self._try(lambda: State(**kinds))
        self._try(lambda: State.from_dict(kinds))


def test_a_rule_is_described_in_few_words() -> None:
    """Hypothesis keeps the description of all rules for each example: once 800 kB of it."""
    marked = (
        getattr(one, "hypothesis_stateful_rule", None) for one in vars(PublicMethods).values()
    )
    rules = [one for one in marked if one is not None]
    assert len(rules) > 15
    assert sum(len(repr(one)) for one in rules) < 50_000


TestPublicMethods = PublicMethods.TestCase
TestPublicMethods.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    database=None,
    derandomize=EXAMPLES < 1_000,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink] if EXAMPLES < 1_000 else [Phase.generate],
)
