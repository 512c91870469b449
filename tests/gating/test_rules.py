"""Rules and gates: which tools they concern, how they are written, what is wrong with them."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist import Catalog, Config, Engine, Tool
from shortlist.errors import ConfigError, RequestError
from shortlist.gating import (
    Gate,
    Provides,
    Rule,
    State,
    after,
    all_of,
    any_of,
    fact,
    milestone,
    not_,
    predicate,
    requires_scope,
)
from shortlist.gating.matcher import HINT_DEFAULTS, Matcher, with_default_hints
from shortlist.gating.rules import read_gate

from .conftest import make_engine, small_catalog

TOOLS = Catalog(small_catalog()).in_id_order
SCOPE = requires_scope("s")
DECLARED = """
[gate]
scopes = ["github:read", "github:write"]

[[gate.rules]]
name = "merging"
tools = "github/merge_*"
needs.all_of = [{ scope = "github:write" }, { after = "get_*" }, { not = { fact = "frozen" } }]

[[gate.rules]]
name = "writing"
server = ["github", "slack"]
annotations = { readOnlyHint = false }
needs = { any_of = [{ milestone = "plan" }, { fact = { name = "env", equals = "test" } }] }

[[gate.rules]]
tools = ["planner/*"]
provides = { milestones = ["plan"], facts = ["plan_id"], scopes = ["github:write"] }
"""
WRITTEN = Gate(
    [
        Rule(
            all_of(requires_scope("github:write"), after("get_*"), not_(fact("frozen"))),
            tools="github/merge_*",
            name="merging",
        ),
        Rule(
            any_of(milestone("plan"), fact("env", equals="test")),
            server=["github", "slack"],
            annotations={"readOnlyHint": False},
            name="writing",
        ),
        Rule(tools="planner/*", provides=Provides(["github:write"], ["plan"], ["plan_id"])),  # type: ignore[arg-type]
    ],
    scopes=["github:read", "github:write"],
)


def concerned(rule: Rule) -> list[str]:
    mask = Matcher(TOOLS).rows_of_rule(rule)
    return [tool.id for tool, meant in zip(TOOLS, mask.tolist(), strict=True) if meant]


class TestConcerns:
    @pytest.mark.parametrize(
        ("selectors", "ids"),
        [
            ({"tools": "github/search_issues"}, ["github/search_issues"]),
            ({"tools": "search_*"}, ["github/search_issues", "slack/search_messages"]),
            ({"tools": "*/search_*"}, ["github/search_issues", "slack/search_messages"]),
            ({"tools": ["clock", "web/*"]}, ["clock", "web/fetch"]),
            ({"tools": "slack/post_message"}, ["slack/post_message", "slack/post_message~2"]),
            ({"tools": "post_message"}, ["slack/post_message", "slack/post_message~2"]),
            ({"tools": "shell/run"}, ["my-shell"]),
            ({"tools": "run"}, ["my-shell"]),
            ({"tools": "my-*"}, ["my-shell"]),
            ({"tools": "Search_*"}, []),
            ({"tools": "git*"}, []),
            ({"server": "sh?ll"}, ["my-shell"]),
            ({"server": "plan*", "tools": "search_*"}, []),
            ({"server": ["slack"], "tools": "search_*"}, ["slack/search_messages"]),
            ({"annotations": {"openWorldHint": False}}, ["clock"]),
            (
                {"annotations": {"destructiveHint": True}},
                [
                    "github/delete_repository",
                    "github/merge_pull_request",
                    "my-shell",
                    "planner/confirm_plan",
                    "slack/post_message~2",
                ],
            ),
            (
                {"server": "github", "annotations": {"readOnlyHint": True, "openWorldHint": True}},
                ["github/get_pull_request", "github/search_issues"],
            ),
        ],
    )
    def test_the_tools_that_all_selectors_mean(self, selectors: Any, ids: list[str]) -> None:
        assert concerned(Rule(SCOPE, **selectors)) == ids

    def test_every_tool_without_a_selector(self) -> None:
        assert len(concerned(Rule(SCOPE))) == len(TOOLS)

    def test_a_name_in_another_form_of_unicode(self) -> None:
        tools = (Tool("caf\u00e9", "x"),)
        assert Matcher(tools).rows_of_rule(Rule(SCOPE, tools="cafe\u0301")).all()

    def test_a_name_of_glob_characters_is_meant_by_itself(self) -> None:
        tools = (Tool("a[b]", "x"), Tool("ab", "x"))
        assert Matcher(tools).rows_of_rule(Rule(SCOPE, tools="x/a[b]")).tolist() == [True, True]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({}, "a rule needs a condition, or what its tools provide"),
            ({"condition": "x"}, "'x' is no condition"),
            ({"condition": SCOPE, "tools": []}, "tools: an empty list concerns no tool"),
            ({"condition": SCOPE, "tools": ["a", ""]}, "tools: '' is no pattern"),
            ({"condition": SCOPE, "server": 3}, "server: a pattern or a list"),
            ({"condition": SCOPE, "annotations": {"x": None}}, "annotation 'x'"),
            ({"provides": Provides(milestones=("m",))}, "needs `tools` or `server`"),
        ],
    )
    def test_a_rule_that_cannot_be(self, arguments: Any, message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            Rule(**arguments)

    def test_what_is_provided_is_a_list(self) -> None:
        with pytest.raises(ConfigError, match=r"provides\.milestones: a list of names"):
            Provides(milestones="plan")  # type: ignore[arg-type]


class TestHints:
    def test_what_mcp_says_of_absent_hints(self) -> None:
        assert dict(with_default_hints(None)) == dict(HINT_DEFAULTS)
        assert with_default_hints({"readOnlyHint": True})["destructiveHint"] is False
        assert (
            with_default_hints({"readOnlyHint": True, "destructiveHint": True})["destructiveHint"]
            is True
        )
        assert with_default_hints({"readOnlyHint": "yes", "openWorldHint": 0}) == dict(
            HINT_DEFAULTS
        )
        assert with_default_hints({"title": "A"})["title"] == "A"


class TestDeclared:
    def test_toml_json_and_code_say_the_same(self, tmp_path: Path) -> None:
        (tmp_path / "a.toml").write_text(DECLARED)
        (tmp_path / "a.json").write_text(json.dumps(tomllib.loads(DECLARED)))
        for config in (
            Config.read(tmp_path / "a.toml"),
            Config.read(tmp_path / "a.json"),
            Config(gate=WRITTEN),
            Config(gate=WRITTEN.to_dict()),
        ):
            assert config.gate == WRITTEN
            assert hash(config.gate) == hash(WRITTEN)
            assert Config(**config.model_dump()) == config
            assert Config.read(json.loads(config.model_dump_json())) == config

    def test_without_a_gate_there_are_no_rules(self) -> None:
        assert Config().gate == Gate()

    def test_a_predicate_is_looked_up_by_its_name(self) -> None:
        gate = Gate([Rule(predicate(lambda _: True, "mine"), tools=["x"])])
        assert gate.to_dict() == {"rules": [{"tools": ["x"], "needs": {"predicate": "mine"}}]}
        with pytest.raises(ConfigError, match=r"gate\.rules\.0: no predicate backend 'mine'"):
            Config(gate=gate.to_dict())
        assert Config(gate=gate).gate is gate

    @pytest.mark.parametrize(
        ("gate", "message"),
        [
            (3, "^gate: a table, not int"),
            ({"rule": []}, "^gate: rule: unknown setting; use one of: scopes, rules"),
            ({"scopes": "a"}, "^gate: scopes: "),
            ({"rules": [3]}, r"^gate\.rules\.0: a table, not int"),
            (
                {"rules": [{"tool": "x"}]},
                r"^gate\.rules\.0: tool: unknown setting; .*: name, tools",
            ),
            ({"rules": [{"name": "n", "tools": 3}]}, r"^gate\.rules\.0 \('n'\): tools"),
            ({"rules": [{"name": "n", "tools": "x"}]}, r"^gate\.rules\.0 \('n'\): a rule needs"),
            (
                {"rules": [{"name": "n", "needs": {"aftr": "x"}}]},
                r"^gate\.rules\.0 \('n'\): no condition 'aftr'",
            ),
            (
                {"rules": [{"tools": "x", "provides": {"milestone": ["m"]}}]},
                r"^gate\.rules\.0: provides\.milestone: unknown setting; .*: scopes, milestones",
            ),
            (
                {"rules": [{"tools": [], "needs": {"scope": "s"}}]},
                r"^gate\.rules\.0: tools: an empty list",
            ),
            (
                {"scopes": ["a"], "rules": [{"name": "n", "needs": {"scope": "b"}}]},
                "^gate: rule 'n': no scope 'b'; use one of: a",
            ),
        ],
    )
    def test_an_error_names_the_rule(self, gate: Any, message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            Config(gate=gate)

    JSON = st.recursive(
        st.none() | st.booleans() | st.integers(-1, 2) | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "rules", "scopes", "name", "tools", "server", "needs",
                        "provides", "annotations", "scope", "milestones",
                    ]
                ),
                inner,
                max_size=3,
            )
        ),
        max_leaves=10,
    )  # fmt: skip

    @settings(deadline=None, max_examples=300)
    @given(JSON)
    def test_any_declaration_is_a_gate_or_an_error(self, declared: Any) -> None:
        try:
            gate = Config(gate=declared).gate
        except ConfigError:
            return
        assert read_gate(gate.to_dict()) == gate

    def test_a_gate_of_something_else(self) -> None:
        with pytest.raises(ConfigError, match="'x' is no Rule"):
            Gate(["x"])  # type: ignore[list-item]
        with pytest.raises(ConfigError, match="scopes: a list of names"):
            Gate([], scopes="admin")


def test_the_state_after_a_call_has_the_milestones_that_rules_say_it_reaches() -> None:
    engine = make_engine(
        Rule(
            tools="planner/*",
            provides=Provides(scopes=("root",), milestones=("plan",), facts=("plan_id",)),
        ),
        Rule(milestone("plan"), tools="delete_*"),
    )
    state = engine.after_call(State(), "planner/confirm_plan")
    assert state == State(called=("planner/confirm_plan",), milestones=frozenset({"plan"}))
    assert engine.view(state).admission.admits("github/delete_repository")
    assert engine.after_call(State(), "gone/tool") == State(called=("gone/tool",))


def test_rules_say_what_they_concern() -> None:
    assert Rule(SCOPE, name="n").described() == "n"
    assert Rule(SCOPE).described() == "for every tool"
    rule = Rule(SCOPE, tools=["a", "b"], server="s", annotations={"readOnlyHint": True})
    assert rule.described() == "for tools a, b; server s; readOnlyHint True"
    assert "Rule(for tools a, b" in repr(rule)
    assert rule == Rule(SCOPE, tools=["a", "b"], server=["s"], annotations={"readOnlyHint": True})
    assert rule != Rule(SCOPE, tools=["a", "b"])
    assert repr(Gate([rule])) == "Gate(1 rules)"


def test_an_engine_is_opened_with_the_rules_of_its_config(tmp_path: Path) -> None:
    make_engine().save(tmp_path)
    engine = Engine.open(tmp_path, tiers=["lexical"], gate=Gate([Rule(SCOPE)]))
    assert len(engine.search("issue").denied) == len(TOOLS)
    assert predicate(lambda _: True, "p") != predicate(lambda _: True, "p")


@pytest.mark.parametrize("rules", [Rule(milestone("m")), Rule, None, "x", {"rules": []}, 7])
def test_a_gate_of_no_list_says_so(rules: Any) -> None:
    with pytest.raises(ConfigError, match="gate: a list of rules, not "):
        Gate(rules)
    with pytest.raises(ConfigError, match="gate: scopes: a list of names, not"):
        Gate([], scopes=7)  # type: ignore[arg-type]
    if rules is not None:
        engine = Engine.from_tools([Tool("read")], tiers=["lexical"])
        with pytest.raises(RequestError, match=r"rules: a Gate, not \w+; write Gate\(\[rule\]\)"):
            engine.view(rules=rules)
