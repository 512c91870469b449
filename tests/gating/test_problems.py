"""What is wrong with rules, found when they are loaded."""

from __future__ import annotations

import logging

import pytest

from shortlist import Tool
from shortlist.errors import ConfigError
from shortlist.gating import (
    Provides,
    Rule,
    after,
    all_of,
    annotation,
    any_of,
    fact,
    milestone,
    not_,
    requires_scope,
)

from .conftest import make_engine, small_catalog

SCOPE = requires_scope("s")


class TestProblems:
    @pytest.mark.parametrize(
        ("rules", "kind", "reason"),
        [
            (
                [Rule(SCOPE, tools="nowhere/*", name="r")],
                "concerns_nothing",
                "concerns no tool",
            ),
            (
                [Rule(after("nowhere/*"), tools="web/*", name="r")],
                "after_nothing",
                "needs a call of 'nowhere/*', but no matching tool is there",
            ),
            (
                [
                    Rule(
                        all_of(SCOPE, any_of(after("nowhere"), after("x/*"))),
                        tools="clock",
                        name="r",
                    ),
                    Rule(after("nowhere"), tools="web/*", name="q"),
                ],
                "after_nothing",
                "needs a call of 'nowhere', but no matching tool is there",
            ),
        ],
    )  # fmt: skip
    def test_each_is_reported_when_the_rules_meet_the_catalog(
        self,
        rules: list[Rule],
        kind: str,
        reason: str,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        with caplog.at_level(logging.WARNING, "shortlist"):
            engine = make_engine(*rules)
        [problem] = engine.problems
        assert (problem.kind, problem.rule) == (kind, "r")
        assert reason in problem.reason
        assert problem.to_dict()["reason"] == problem.reason
        assert [record.getMessage() for record in caplog.records] == [f"gate: {problem}"]

    def test_problems_of_any_catalog_refuse_the_config(self) -> None:
        with pytest.raises(ConfigError, match="'r': no scope 's'; use one of: none"):
            make_engine(Rule(SCOPE, name="r"), scopes=[])
        with pytest.raises(ConfigError, match="no scope 't'; use one of: s"):
            make_engine(Rule(tools="x", provides=Provides(scopes=("t",))), scopes=["s"])

    @pytest.mark.parametrize(
        "rules",
        [
            [],
            [Rule(SCOPE)],
            [Rule(after("search_*"), tools="delete_*"), Rule(after("get_*"), tools="search_*")],
            [Rule(any_of(after("nowhere"), SCOPE), tools="clock")],
            [Rule(not_(after("nowhere")), tools="clock")],
            [Rule(not_(after("clock")), tools="clock")],
            [Rule(annotation("readOnlyHint"))],
            [Rule(any_of(annotation("readOnlyHint"), after("get_*")), server="github")],
            [Rule(milestone("m"), tools="clock"), Rule(fact("f"), tools="clock")],
        ],
    )
    def test_rules_that_are_well(self, rules: list[Rule]) -> None:
        assert make_engine(*rules).problems == ()

    def test_an_update_of_the_catalog_is_checked_anew(self) -> None:
        engine = make_engine(Rule(after("late/*"), tools="clock"))
        assert [problem.kind for problem in engine.problems] == ["after_nothing"]
        engine.replace([*small_catalog(), Tool("start", "late")])
        assert engine.problems == ()
