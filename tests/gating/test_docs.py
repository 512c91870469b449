"""The pages on permissions: their examples run, and each reason comes from a real refusal."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from shortlist import Config, Engine, View, registry
from shortlist.errors import ConfigError
from shortlist.gating import (
    Refusal,
    Rule,
    State,
    Votes,
    after,
    annotation,
    milestone,
    predicate,
    requires_scope,
)
from shortlist.gating.admission import Admission
from shortlist.gating.argument import read_tests
from shortlist.gating.condition import parse_condition

from .conftest import make_engine

DOCS = Path(__file__).parents[2] / "docs"
GATE, VIEWS = ((DOCS / name).read_text(encoding="utf-8") for name in ("gate.md", "views.md"))


def table(title: str) -> list[str]:
    """The first column of a table in the page on views."""
    section = VIEWS.split(f"## {title}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def boom(state: State) -> bool:
    raise OSError("no")


def refusals() -> dict[str, Admission]:
    """An admission for each kind in which `clock` is refused for that reason."""
    held = make_engine()
    held.quarantine({"clock": "it changed"})
    return {
        "scope": make_engine(Rule(requires_scope("s"), tools="clock")).view().admission,
        "precondition": make_engine(Rule(after("fetch"), tools="clock")).view().admission,
        "annotation": make_engine(Rule(annotation("openWorldHint"), tools="clock"))
        .view()
        .admission,
        "predicate_error": make_engine(Rule(predicate(boom), tools="clock")).view().admission,
        "excluded": make_engine().view(votes=Votes(excluded={"clock": ""})).admission,
        "quarantined": held.view().admission,
        "not_allowed": make_engine().view(allowed=["web/fetch"]).admission,
    }


def test_every_reason_is_produced() -> None:
    produced = refusals()
    # Those of single calls: `test_call_rules.py`.
    assert table("Reasons") == [*produced, "argument", "approval"]
    for kind, admission in produced.items():
        refusal = admission.refusal("clock")
        assert refusal is not None
        assert refusal.kind == kind
        assert f"`{kind}`" in (Refusal.__doc__ or "")


def test_every_problem_is_found() -> None:
    cases = [
        make_engine(Rule(after("nowhere"), tools="clock")).problems,
        make_engine(Rule(milestone("m"), tools="nowhere")).problems,
    ]
    kinds = [[problem.kind for problem in problems] for problems in cases]
    assert kinds == [[kind] for kind in table("Problems with rules")]


BEFORE_CALLS, ABOUT_CALLS = GATE.split("## Rules about single calls")
FORMS = re.findall(r"\| `(\{ \w+ = [^.]*? \})` \|", BEFORE_CALLS)
TESTS_OF_ARGUMENTS = re.findall(r"\| `(\{ \w+ = \{.*? \})` \|", ABOUT_CALLS)


@pytest.mark.parametrize("form", FORMS)
def test_every_condition_reads_as_written(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "load", lambda _kind, _name: boom)
    parse_condition(tomllib.loads(f"x = {form}")["x"])


def test_the_conditions_of_the_table_are_there() -> None:
    assert len(FORMS) == 7


def test_the_tests_of_arguments_read_as_written() -> None:
    tests = [read_tests(tomllib.loads(f"x = {form}")["x"])[0] for form in TESTS_OF_ARGUMENTS]
    assert [list(test.to_dict()) for test in tests] == [
        ["above"],
        ["equals"],
        ["matches"],
        ["not_matches"],
    ]


@pytest.mark.parametrize("page", [GATE, VIEWS], ids=["gate", "views"])
def test_the_examples_run(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    build = Engine.from_tools
    monkeypatch.setattr(
        Engine, "from_tools", lambda tools, **settings: build(tools, tiers=["lexical"], **settings)
    )
    names: dict[str, Any] = {}
    for block in blocks(page, "python"):
        exec(compile(block, "docs", "exec"), names)


def test_the_configurations_are_read() -> None:
    declared, about_calls = blocks(GATE, "toml")
    config = Config(**tomllib.loads(declared))
    assert len(config.gate.rules) == 3
    [rule] = Config(**tomllib.loads(about_calls)).gate.rules
    assert rule.approval
    assert [test.name for test in rule.when] == ["amount", "currency"]
    with pytest.raises(ConfigError, match="no scope"):
        Config(**tomllib.loads(declared.replace('scope = "github:write"', 'scope = "oops"')))


def test_every_verb_of_a_view_is_on_the_page() -> None:
    public = {name for name in vars(View) if not name.startswith("_")}
    listed = set(re.findall(r"`(\w+)(?:\(.*?\))?`", VIEWS))
    # What an example shows, and what only other modules of the package use.
    assert public - listed <= {"catalog", "state", "decision"}
