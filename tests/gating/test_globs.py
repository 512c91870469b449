"""Globs that deny ignore letter case and character width; globs that grant match exactly."""

from __future__ import annotations

from time import process_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist import Catalog, Engine, Tool
from shortlist.catalog.pattern import Pattern, fold
from shortlist.gating import Gate, Provides, Rule, State, after, not_, requires_scope
from shortlist.gating.admission import Admission
from shortlist.gating.catalog_gate import CatalogGate
from shortlist.gating.gatekeeper import Gatekeeper
from shortlist.gating.quarantine import Quarantine
from shortlist.retrieval.catalog_index import Index
from shortlist.retrieval.id_lookup import Names

SCOPE = requires_scope("s")
WIDE = "ｄｅｌｅｔｅ_ｂｒａｎｃｈ"
TOOLS = [
    Tool("delete_repository", "github"),
    Tool("Delete_issue", "github"),
    Tool(WIDE, "github"),
    Tool("DELETE_ALL", "GitHub"),
    Tool("Straße", "map"),
    Tool("list_repositories", "github"),
    Tool("odd[1]*", "strange"),
    Tool("odd1x", "strange"),
    Tool("run", "shell", id="My-Shell"),
]
IDS = [tool.id for tool in TOOLS]


def index_of(tools: list[Tool]) -> Index:
    catalog = Catalog(tools)
    rows = catalog.in_id_order
    return Index(catalog, rows, rows, Names.of(rows))


INDEX = index_of(TOOLS)


def admission(*rules: Rule, allowed: Any = None, state: State | None = None) -> Admission:
    return Gatekeeper(Gate(rules)).admission(INDEX, Quarantine(), state, allowed)


def admitted(*rules: Rule, allowed: Any = None, state: State | None = None) -> set[str]:
    decided = admission(*rules, allowed=allowed, state=state)
    return set(filter(decided.admits, IDS))


class TestDenying:
    @pytest.mark.parametrize(
        ("selectors", "denied"),
        [
            (
                {"tools": "github/delete_*"},
                {"github/delete_repository", "github/Delete_issue", f"github/{WIDE}",
                 "GitHub/DELETE_ALL"},
            ),
            ({"tools": "delete_issue"}, {"github/Delete_issue"}),
            ({"tools": "DELETE_BRANCH"}, {f"github/{WIDE}"}),
            ({"tools": "ＧＩＴＨＵＢ/list_*"}, {"github/list_repositories"}),
            ({"tools": "STRASSE"}, {"map/Straße"}),
            ({"tools": "Stra?e"}, {"map/Straße"}),
            ({"tools": "my-*"}, {"My-Shell"}),
            ({"tools": "SHELL/run"}, {"My-Shell"}),
            ({"tools": "[!L]ist_*"}, {"github/list_repositories"}),
            ({"tools": "strange/ODD[1]*"}, {"strange/odd[1]*", "strange/odd1x"}),
            ({"server": "GITHUB", "tools": "*_all"}, {"GitHub/DELETE_ALL"}),
            ({"server": "github", "tools": "*_all"}, {"GitHub/DELETE_ALL"}),
        ],
    )  # fmt: skip
    def test_a_condition_is_for_every_form_of_a_name(
        self, selectors: Any, denied: set[str]
    ) -> None:
        assert set(IDS) - admitted(Rule(SCOPE, **selectors)) == denied

    @settings(deadline=None, max_examples=200)
    @given(
        st.lists(st.text("aAbB*?[]!-/ßＡａ", min_size=1, max_size=5), min_size=2, max_size=6),
        st.text("aAbB*?[]!-/ßＡａ", min_size=1, max_size=5),
    )
    def test_folding_only_adds_to_what_is_denied(self, names: list[str], glob: str) -> None:
        tools = Catalog([Tool(name, "aB") for name in dict.fromkeys(names)]).in_id_order
        compiled = CatalogGate(Gate([Rule(SCOPE, tools=glob)]), tools, Names.of(tools))
        exact, folded = (
            compiled.matcher.rows_matching(Pattern(glob), folded=one) for one in (False, True)
        )
        assert not (exact & ~folded).any()
        mask = compiled.permitted_rows(compiled.evaluate(State()))
        assert (~folded).tolist() == ([True] * len(tools) if mask is None else mask.tolist())

    @settings(deadline=None, max_examples=200)
    @given(
        st.lists(st.text("aAbB-/ßＡａ", min_size=1, max_size=4), min_size=1, max_size=6),
        st.text("aAbB*-/ßＡａ", min_size=1, max_size=5),
    )
    def test_a_name_is_denied_in_every_case_and_width(self, names: list[str], glob: str) -> None:
        """Without `?` and `[...]`, which stand for single characters of the folded name."""
        forms = [form for name in names for form in (name, name.upper(), name.lower(), fold(name))]
        tools = Catalog([Tool(form, "aB") for form in dict.fromkeys(forms)]).in_id_order
        folded = CatalogGate(Gate(), tools, Names.of(tools)).matcher.rows_matching(
            Pattern(glob), folded=True
        )
        denied: dict[str, set[bool]] = {}
        for tool, one in zip(tools, folded.tolist(), strict=True):
            denied.setdefault(fold(tool.id), set()).add(one)
        assert all(len(verdicts) == 1 for verdicts in denied.values())


class TestGranting:
    def test_what_a_rule_provides_is_of_exact_matches(self) -> None:
        rule = Rule(SCOPE, tools="github/delete_*", provides=Provides(milestones=("m",)))
        engine = Engine.from_tools(TOOLS, tiers=["lexical"], gate=Gate([rule]))
        exact = engine.after_call(State(), "github/delete_repository")
        assert exact.milestones == {"m"}
        for other in ("github/Delete_issue", f"github/{WIDE}", "GitHub/DELETE_ALL"):
            assert engine.after_call(State(), other).milestones == frozenset()
            assert not engine.view(exact).admission.admits(other)

    def test_a_rule_that_provides_nothing_for_its_case_is_a_problem(self) -> None:
        provides = Provides(milestones=("m",))
        for rule in (
            Rule(tools="MAP/*", provides=provides),
            Rule(SCOPE, tools="MAP/*", provides=provides),
        ):
            engine = Engine.from_tools(TOOLS, tiers=["lexical"], gate=Gate([rule]))
            [problem] = engine.problems
            assert problem.kind == "concerns_nothing"
            assert "letter case counts" in problem.reason
        [problem] = Engine.from_tools(
            TOOLS, tiers=["lexical"], gate=Gate([Rule(SCOPE, tools="x", provides=provides)])
        ).problems
        assert problem.reason == "it concerns no tool of the catalog"

    def test_a_tool_that_unlocks_is_an_exact_match(self) -> None:
        refusal = admission(Rule(after("delete_*"), tools="list_*")).refusal(
            "github/list_repositories"
        )
        assert refusal is not None
        assert refusal.unlocked_by == ("github/delete_repository",)

    @pytest.mark.parametrize(
        ("called", "holds", "fails"),
        [
            ((), False, True),
            (("map/Straße",), False, True),
            (("github/delete_repository",), True, False),
            (("github/Delete_issue",), False, False),
            ((f"github/{WIDE}",), False, False),
            (("github/Delete_issue", "github/delete_repository"), True, False),
            (("github/delete_gone",), True, False),
            (("github/DELETE_GONE",), False, False),
            (("ＧITHUB/delete_gone",), False, False),
            (("other/gone",), False, True),
        ],
    )
    @pytest.mark.parametrize("glob", ["github/delete_*", "delete_*"])
    def test_after_holds_for_exact_calls_and_fails_without_folded_ones(
        self, glob: str, called: tuple[str, ...], holds: bool, fails: bool
    ) -> None:
        if glob == "delete_*" and called == ("ＧITHUB/delete_gone",):
            holds = True  # The name alone is the same.
        state, tool = State(called=called), "github/list_repositories"
        assert (tool in admitted(Rule(after(glob), tools="list_*"), state=state)) is holds
        assert (tool in admitted(Rule(not_(after(glob)), tools="list_*"), state=state)) is fails

    @settings(deadline=None, max_examples=100)
    @given(
        st.lists(st.sampled_from([*IDS, "gone/Delete_x", "gone/delete_x"]), max_size=4),
        st.sampled_from(["delete_*", "github/*", "GitHub/*", "*/Delete_*", "*ß*", "[!D]elete_*"]),
    )
    def test_after_and_its_opposite_never_both_grant(self, called: list[str], glob: str) -> None:
        state = State(called=tuple(called))
        both = [Rule(after(glob), tools="list_*"), Rule(not_(after(glob)), tools="list_*")]
        assert "github/list_repositories" not in admitted(*both, state=state)


class TestAllowed:
    @pytest.mark.parametrize(
        ("allowed", "ids", "unmatched"),
        [
            ([], set(), ()),
            (["github/*"], {one for one in IDS if one.startswith("github/")}, ()),
            (["github/delete_*"], {"github/delete_repository"}, ()),
            (["delete_*", "run"], {"github/delete_repository"}, ("run",)),
            (["r*n", "My-Shell"], {"My-Shell"}, ()),
            (["my-*", "GITHUB/*"], set(), ("my-*", "GITHUB/*")),
            (["strange/odd[1]*"], {"strange/odd[1]*"}, ()),
            (["strange/odd[1]?"], {"strange/odd1x"}, ()),
            (["x", "git/no", "x", "zz*", "map/*"], {"map/Straße"}, ("x", "git/no", "zz*")),
            (["*"], set(IDS), ()),
            ([" ", "", "*" * 700], set(), (" ", "", "*" * 700)),
            (iter(["My-Shell", "none"]), {"My-Shell"}, ("none",)),
        ],
    )  # fmt: skip
    def test_ids_and_globs_match_exactly(
        self, allowed: Any, ids: set[str], unmatched: tuple[str, ...]
    ) -> None:
        decided = admission(allowed=allowed)
        assert set(filter(decided.admits, IDS)) == ids
        assert decided.unmatched == unmatched

    def test_without_a_limit_nothing_is_unmatched(self) -> None:
        assert admission().unmatched == ()

    @settings(deadline=None, max_examples=100)
    @given(st.lists(st.sampled_from(IDS) | st.text("aA*?[]/", max_size=4), max_size=6))
    def test_every_entry_matches_or_is_reported(self, allowed: list[str]) -> None:
        decided = admission(allowed=allowed)
        for entry in allowed:
            alone = admitted(allowed=[entry])
            assert bool(alone) == (entry not in decided.unmatched)
            assert all(decided.admits(tool_id) for tool_id in alone)
            assert entry not in IDS or alone == {entry}

    def test_thousands_of_ids_are_looked_up(self) -> None:
        tools = [Tool(f"tool_{n}", "big") for n in range(5_000)]
        index, keeper = index_of(tools), Gatekeeper(Gate())
        allowed = [tool.id for tool in tools[::2]] + ["big/tool_1*"]
        keeper.admission(index, Quarantine(), None, allowed)
        start = process_time()
        for _ in range(10):
            decided = keeper.admission(index, Quarantine(), None, allowed)
        assert process_time() - start < 0.5
        assert decided.admits("big/tool_1001")
        assert not decided.admits("big/tool_2001")
