from __future__ import annotations

import re
import sys
from contextlib import contextmanager

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shortlist import Catalog
from shortlist.trust import scan
from shortlist.trust.lexicon import CONNECTING, POINTED, literals
from shortlist.trust.literals import Literals, required

SCANNING = sys.modules[scan.__module__]
EVERYTHING = POINTED.keys() | CONNECTING.keys()


class Unfiltered:
    def possible(self, text: str) -> set[str]:
        return set(EVERYTHING)


@contextmanager
def without_the_filter(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(SCANNING, "literals", Unfiltered)
        patch.setattr(SCANNING, "still_wanted", lambda said: CONNECTING.keys())
        patch.setattr(SCANNING, "_own_names", all_own_names)
        yield


def all_own_names(tool, siblings, read):
    return frozenset((*siblings, tool.name, *(one.name for one in tool.parameters)))


@pytest.mark.parametrize(
    ("expression", "literal"),
    [
        ("abc", {"abc"}),
        ("abc|de", {"abc", "de"}),
        (r"\bab(?:c|d)e?f\b", {"abcef", "abcf", "abdef", "abdf"}),
        (r"\w+ of \w+", {" of "}),
        (r"(?:the )?tools?", {"tool"}),
        (r"x?\d*", {""}),
        (r"(?<=a)b(?!c)", {"b"}),
        (r"(?:ab){2,}", {"ab"}),
        (r"a|\w", {""}),
        (r"[ab]c", {"ac", "bc"}),
        (r"[^a]", {""}),
    ],
)
def test_what_a_match_cannot_do_without(expression, literal):
    assert required(expression) == literal


def test_only_what_may_match_is_possible():
    some = Literals({"a": "alpha|beta", "b": r"\w+ze\b", "c": r"\d+"})
    assert some.possible("nothing") == {"c"}
    assert some.possible("a beta") == {"a", "c"}
    assert some.possible("freeze") == {"b", "c"}


@settings(max_examples=300)
@given(st.text(alphabet="abc. ", max_size=12))
@example("abc")
def test_an_expression_that_matches_is_always_possible(text):
    for expression in (
        "a(?:b|c )+",
        "ab?c|b{2}",
        "(?:a|b)(?:c|a)",
        "a*b",
        r"[abc]\.",
        "(?=a)[^b]b",
    ):
        if re.search(expression, text):
            assert Literals({"x": expression}).possible(text) == {"x"}


@pytest.mark.parametrize(
    "name",
    [
        "attacks",
        "attacks_held_out",
        "attacks_second",
        "attacks_second_held_out",
        "attacks_third",
        "attacks_fourth",
        "attacks_fourth_held_out",
        "lookalikes",
        "lookalikes_held_out",
        "benign_second",
        "benign_second_held_out",
        "benign_fourth",
        "benign_fourth_held_out",
    ],
)
def test_the_filter_changes_no_finding(cases, name, monkeypatch):
    found = [scan(tool) for tool in cases(name)]
    with without_the_filter(monkeypatch):
        assert [scan(tool) for tool in cases(name)] == found


def test_the_filter_changes_no_finding_in_tools_of_real_servers(shared_data, monkeypatch):
    tools = []
    for name in ("mcp", "mcp_crawl"):
        tools += Catalog.read(shared_data / "train" / name / "tools.jsonl")[::15]
    found = [scan(tool) for tool in tools]
    assert sum(bool(one.findings) for one in found) > 5
    with without_the_filter(monkeypatch):
        assert [scan(tool) for tool in tools] == found


def test_the_literals_spare_most_of_the_search():
    assert len(literals().possible("adds two numbers and returns the sum.")) < len(EVERYTHING) / 4
