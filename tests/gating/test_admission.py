"""Admissions: the reason of every refusal, and the tools that lead to what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist import Catalog, Engine, Tool
from shortlist.errors import RequestError, UnknownToolError
from shortlist.gating import (
    Gate,
    Provides,
    Refusal,
    Rule,
    State,
    Votes,
    after,
    all_of,
    annotation,
    any_of,
    fact,
    milestone,
    not_,
    predicate,
    requires_scope,
)
from shortlist.gating.admission import Admission

from .conftest import admission_of, make_engine, small_catalog

MERGE = "github/merge_pull_request"
NAMES = sorted(tool.id for tool in Catalog(small_catalog()))
Admit = Callable[..., Admission]


def broken(state: State) -> bool:
    raise KeyError("no clock")


def refused(admission: Admission, tool_id: str = MERGE) -> Refusal:
    refusal = admission.refusal(tool_id)
    assert refusal is not None
    assert not admission.admits(tool_id)
    assert json.loads(json.dumps(refusal.to_dict()))["tool"] == tool_id
    return refusal


class TestReasons:
    @pytest.mark.parametrize(
        ("condition", "kind", "reason"),
        [
            (requires_scope("w"), "scope", "needs the scope 'w'"),
            (
                requires_scope("w", "x"),
                "scope",
                "needs the scope 'w' and the scope 'x'",
            ),
            (after("zz_*"), "precondition", "needs a call of 'zz_*' first"),
            (milestone("m"), "precondition", "needs the milestone 'm'"),
            (fact("f"), "precondition", "needs the fact 'f'"),
            (fact("f", equals=True), "precondition", "needs the fact 'f' to be true"),
            (not_(fact("g")), "precondition", "needs the fact 'g' to be unknown or false"),
            (
                annotation("readOnlyHint"),
                "annotation",
                "needs the annotation 'readOnlyHint' to be true",
            ),
            (
                predicate(lambda _: False, "open"),
                "precondition",
                "needs the predicate 'open' to hold",
            ),
            (
                predicate(broken),
                "predicate_error",
                "needs the predicate 'broken' to hold; 'broken' gives no answer",
            ),
            (
                not_(predicate(broken)),
                "predicate_error",
                "needs the predicate 'broken' not to hold; 'broken' gives no answer",
            ),
            (
                any_of(requires_scope("w"), all_of(milestone("m"), fact("f"))),
                "precondition",
                "needs the scope 'w' or (the milestone 'm' and the fact 'f')",
            ),
            (all_of(requires_scope("w"), milestone("m")), "scope", "needs the scope 'w' and the"),
            (any_of(annotation("readOnlyHint"), requires_scope("w")), "scope", "needs the annot"),
            (
                not_(any_of(fact("g"), fact("f"))),
                "precondition",
                "needs the fact 'g' to be",
            ),
        ],
    )
    def test_of_a_condition(self, admit: Admit, condition: Any, kind: str, reason: str) -> None:
        state = State(facts={"g": 1})
        refusal = refused(admit(Rule(condition, tools="merge_*", name="r"), state=state))
        assert refusal.kind == kind
        assert refusal.reason.startswith(reason)
        assert refusal.detail["rules"] == ["r"]
        assert refusal.unlocked_by == ()

    def test_of_several_rules(self, admit: Admit) -> None:
        refusal = refused(
            admit(
                Rule(any_of(milestone("m"), fact("f")), tools="merge_*", name="one"),
                Rule(requires_scope("w"), server="github", name="two"),
                Rule(requires_scope("held"), server="github", name="three"),
                state=State().granted("held"),
            )
        )
        assert refusal.kind == "scope"
        assert refusal.reason == "needs (the milestone 'm' or the fact 'f') and the scope 'w'"
        assert refusal.detail["rules"] == ["one", "two"]
        assert refusal.detail["unmet"] == [{"milestone": "m"}, {"fact": "f"}, {"scope": "w"}]

    def test_the_exception_of_a_predicate_is_in_the_log_only(
        self, admit: Admit, caplog: pytest.LogCaptureFixture
    ) -> None:
        def no_database(state: State) -> bool:
            raise OSError("postgres://admin:hunter2@db " + "x" * 10_000)

        refusal = refused(admit(Rule(predicate(no_database), tools="merge_*")))
        error = {"predicate": "no_database", "error": "gives no answer; the log says why"}
        assert refusal.detail["unmet"] == [error]
        assert "hunter2" not in f"{refusal!r} {json.dumps(refusal.to_dict())}"
        assert "hunter2" in caplog.text
        assert len(caplog.text) < 1_000

    def test_tools_of_one_reason_are_told_apart(self, admit: Admit) -> None:
        either = any_of(annotation("readOnlyHint"), requires_scope("w"))
        refusals = admit(Rule(milestone("m"), server="slack"), Rule(either)).refusals
        assert len({refusal.tool_id for refusal in refusals}) == len(refusals) == 8
        for refusal in refusals:
            assert ("the milestone 'm'" in refusal.reason) == refusal.tool_id.startswith("slack/")
            search = refusal.tool_id == "slack/search_messages"
            assert ("the scope 'w'" in refusal.reason) != search

    def test_of_what_is_decided_elsewhere(self) -> None:
        engine = make_engine(Rule(requires_scope("w")))
        engine.quarantine({MERGE: "its description changed"})
        votes = Votes(excluded={"web/fetch": "offline", "clock": ""})
        admission = engine.view(allowed=[MERGE, "web/fetch", "clock"], votes=votes).admission
        kinds = {refusal.tool_id: refusal.kind for refusal in admission.refusals}
        assert kinds.pop(MERGE) == "quarantined"
        assert kinds.pop("web/fetch") == "excluded"
        assert kinds.pop("clock") == "excluded"
        assert set(kinds.values()) == {"not_allowed"}
        assert refused(admission).reason == "It waits for an operator's approval."
        excluded = refused(admission, "web/fetch")
        assert excluded.reason == "its server leaves it out this turn"
        assert excluded.detail == {"code": "excluded_by_server", "server": "web"}
        assert excluded.quote == "offline"


class TestUnlocking:
    def test_the_admitted_tools_that_the_pattern_means(self, admit: Admit) -> None:
        rules = (
            Rule(after("search_*"), tools="merge_*"),
            Rule(requires_scope("s"), server="slack"),
        )
        assert refused(admit(*rules)).unlocked_by == ("github/search_issues",)
        both = admit(*rules, state=State().granted("s"))
        assert refused(both).unlocked_by == ("github/search_issues", "slack/search_messages")

    def test_not_one_that_is_held_back_itself(self, admit: Admit) -> None:
        chain = (
            Rule(after("github/get_*"), tools="merge_*"),
            Rule(after("github/search_*"), tools="get_*"),
        )
        assert refused(admit(*chain)).unlocked_by == ()
        assert refused(admit(*chain), "github/get_pull_request").unlocked_by == (
            "github/search_issues",
        )

    @pytest.mark.parametrize(
        ("condition", "provides"),
        [
            (requires_scope("x"), Provides(scopes=("x",))),
            (milestone("x"), Provides(milestones=("x",))),
            (fact("x"), Provides(facts=("x",))),
            (fact("x", equals=3), Provides(facts=("x",))),
        ],
    )
    def test_tools_that_provide_what_is_lacking(
        self, admit: Admit, condition: Any, provides: Provides
    ) -> None:
        rules = (
            Rule(condition, tools="merge_*"),
            Rule(tools="confirm_*", provides=provides),
            Rule(tools="clock", provides=provides),
            Rule(tools="fetch", provides=Provides(("y",), ("y",), ("y",))),
        )
        assert refused(admit(*rules)).unlocked_by == ("clock", "planner/confirm_plan")

    def test_everything_lacking_has_to_be_reachable(self, admit: Admit) -> None:
        needs = all_of(after("clock"), requires_scope("w"))
        refusal = refused(admit(Rule(needs, tools="merge_*")))
        assert refusal.unlocked_by == ()
        assert refusal.detail["unmet"] == [
            {"after": "clock", "unlocked_by": ["clock"]},
            {"scope": "w"},
        ]
        two = all_of(after("clock"), after("web/*"), fact("g"))
        state = State(facts={"g": 1})
        assert refused(admit(Rule(two, tools="merge_*"), state=state)).unlocked_by == (
            "clock",
            "web/fetch",
        )

    def test_one_choice_that_is_reachable_is_enough(self, admit: Admit) -> None:
        needs = any_of(requires_scope("w"), after("clock"), after("nowhere"))
        assert refused(admit(Rule(needs, tools="merge_*"))).unlocked_by == ("clock",)

    def test_a_few_of_many(self) -> None:
        tools = [Tool(f"search_{n}", "s") for n in range(20)] + [Tool("act", "s")]
        admission = make_engine(Rule(after("search_*"), tools="act"), tools=tools).view().admission
        assert len(refused(admission, "s/act").unlocked_by) == 5

    @settings(deadline=None, max_examples=60)
    @given(
        st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=10),
        st.sets(st.sampled_from(NAMES)),
        st.sets(st.sampled_from(NAMES)),
    )
    def test_calling_what_unlocks_admits_the_tool(
        self, pairs: list[tuple[str, str]], called: set[str], denied: set[str]
    ) -> None:
        rules = [Rule(after(first), tools=then) for first, then in pairs]
        state = State(called=tuple(sorted(called)))
        allowed = set(NAMES) - denied
        admission = admission_of(*rules, state=state, allowed=allowed)
        for refusal in admission.refusals:
            assert all(admission.admits(tool_id) for tool_id in refusal.unlocked_by)
            if refusal.unlocked_by:
                later = state
                for tool_id in refusal.unlocked_by:
                    later = later.after_call(tool_id)
                after_calls = admission_of(*rules, state=later, allowed=allowed)
                assert after_calls.admits(refusal.tool_id)


class TestAdmission:
    def test_all_is_admitted_without_rules(self, admit: Admit) -> None:
        admission = admit()
        assert admission.mask is None
        assert list(admission.refusals) == []
        assert admission.refusal(MERGE) is None
        assert admission.admits(MERGE)

    def test_its_mask_is_over_rows_and_cannot_change(self, admit: Admit) -> None:
        admission = admit(Rule(requires_scope("w"), server="github"))
        assert admission.mask is not None
        ids = {tool.id for tool, one in zip(admission.tools, admission.mask, strict=True) if one}
        assert ids == {tool.id for tool in admission.tools if tool.server != "github"}
        with pytest.raises(ValueError, match="read-only"):
            admission.mask[0] = True
        with pytest.raises(ValueError, match="cannot set WRITEABLE"):
            admission.mask.flags.writeable = True
        assert [one.tool_id for one in admission.refusals] == sorted(
            tool.id for tool in admission.tools if tool.server == "github"
        )

    def test_an_unknown_id_is_not_admitted(self, admit: Admit) -> None:
        admission = admit(Rule(requires_scope("w"), tools="merge_*"))
        assert not admission.admits("github/merge")
        with pytest.raises(UnknownToolError) as caught:
            admission.refusal("github/merge_pull_requests")
        assert MERGE not in str(caught.value).replace("merge_pull_requests", "")

    def test_names_are_resolved(self, admit: Admit) -> None:
        admission = admit(Rule(requires_scope("w"), tools=["merge_*", "slack/search_*"]))
        clock, merge = admission.resolve("clock"), admission.resolve("merge_pull_request")
        assert isinstance(clock, Tool)
        assert isinstance(merge, Refusal)
        assert merge.tool_id == "merge_pull_request"
        twice = admission.resolve("post_message")
        assert isinstance(twice, UnknownToolError)
        assert set(twice.nearest) == {"slack/post_message", "slack/post_message~2"}
        spelt = admission.resolve("serch_issues")
        assert isinstance(spelt, UnknownToolError)
        assert spelt.nearest == ("github/search_issues",)
        for odd in (7, ["clock"], None, {}):
            assert isinstance(admission.resolve(odd), UnknownToolError)  # type: ignore[arg-type]
            assert not admission.admits(odd)  # type: ignore[arg-type]

    def test_refusals_are_a_sequence(self, admit: Admit) -> None:
        refusals = admit(Rule(requires_scope("w"), server="github")).refusals
        assert len(refusals) == 5
        assert refusals[0] == next(iter(refusals))
        assert refusals[-1] == list(refusals)[-1]
        assert refusals[1:3] == tuple(refusals)[1:3]
        with pytest.raises(IndexError):
            refusals[5]
        assert repr(refusals) == "Denials(5 tools)"
        assert refusals.to_dict()["count"] == 5

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"state": {"scopes": []}}, "state: a State, not dict; see State.from_dict"),
            ({"votes": {}}, "votes: Votes as collected, not dict"),
            ({"allowed": "clock"}, "allowed: a list of ids and globs, not the text 'clock'"),
            ({"allowed": ["clock", 7]}, "allowed: an id or a glob, not 7"),
            ({"allowed": [["clock"]]}, "allowed: a list of ids and globs: unhashable"),
        ],
    )
    def test_arguments_of_the_wrong_type(self, arguments: Any, message: str) -> None:
        with pytest.raises(RequestError, match=message):
            make_engine().view(**arguments)

    @pytest.mark.parametrize("reasons", ["clock", {"clock": 1}, {1: "x"}, ["clock"]])
    def test_a_quarantine_is_a_mapping_of_texts(self, reasons: Any) -> None:
        engine = make_engine()
        engine.quarantine({"clock": "wrong"})
        with pytest.raises(RequestError, match="quarantined: a mapping"):
            engine.quarantine(reasons)
        with pytest.raises(RequestError, match="quarantined: a mapping"):
            engine.replace(small_catalog(), quarantined=reasons)
        assert not engine.view().admission.admits("clock")


@pytest.mark.no_cover
def test_an_id_near_to_one_of_many_tools() -> None:
    tools = [Tool(f"list_things_{n}", "big") for n in range(2_500)] + [Tool("create_issue", "big")]
    admission = Engine.from_tools(tools, tiers=["lexical"]).view().admission
    found = admission.unknown("big/creat_issue_now_issue")
    assert found.nearest == ("big/create_issue",)


def test_what_a_caller_may_not_see_is_named_only_if_it_asks_for_exactly_that() -> None:
    tools = [Tool("token", "secret"), Tool("send", "mail"), Tool("tokens", "mail")]
    gate = Gate([Rule(after("secret/token"), tools="mail/send", name="sending")])
    view = Engine.from_tools(tools, tiers=["lexical"], gate=gate).view(allowed=["mail/*"])
    for asked in ("mail/send", "token", "secret/toke", "secret/tokens", "send"):
        assert "secret/token" not in view.check(asked).text.replace(asked, "")
        (found,) = view.details([asked])
        assert "secret/token'" not in repr(found)
    assert view.check("token").status == "denied"
    assert view.check("secret/token").refusal is not None
    assert "an earlier call of a tool that you may not use" in view.check("mail/send").message
    for call in (view.explain, lambda _, asked: view.refusal(asked)):
        with pytest.raises(UnknownToolError) as caught:
            call("send", "secret/tokex")
        assert caught.value.nearest == ()


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        (after("secret/token"), "needs an earlier call of a tool that you may not use"),
        (not_(after("secret/token")), "needs no earlier call of a tool that you may not use"),
        (
            not_(any_of(after("secret/token"), milestone("m"))),
            "needs no earlier call of a tool that you may not use and the milestone 'm' not to be "
            "reached yet",
        ),
        (
            all_of(not_(all_of(after("secret/token"), requires_scope("w"))), fact("f")),
            "needs (no earlier call of a tool that you may not use or the scope 'w' not to be "
            "granted) and the fact 'f'",
        ),
        (not_(not_(requires_scope("x"))), "needs the scope 'x'"),
    ],
)
def test_a_negated_rule_says_what_it_needs_without_hidden_ids(condition: Any, reason: str) -> None:
    gate = Gate([Rule(condition, tools="mail/send", name="sending")])
    tools = [Tool("token", "secret"), Tool("send", "mail")]
    engine = Engine.from_tools(tools, tiers=["lexical"], gate=gate)
    state = State(called=("secret/token",), milestones={"m"}, scopes={"w"})
    if condition == after("secret/token"):
        state = State()
    verdict = engine.view(state, allowed=["mail/*"]).check("mail/send")
    assert verdict.refusal is not None
    assert verdict.refusal.reason == reason
    assert "secret" not in verdict.text
    assert "tell the user" in verdict.message


def test_a_pinned_tool_that_is_not_there_names_no_hidden_one() -> None:
    engine = Engine.from_tools([Tool("token", "secret"), Tool("a", "mail")], tiers=["lexical"])
    with pytest.raises(UnknownToolError) as caught:
        engine.session(allowed=["mail/*"], pinned=["secret/tokem"])
    assert caught.value.nearest == ()


def test_no_tool_answers_to_the_id_of_another_servers_tool() -> None:
    view = Engine.from_tools([Tool("github/get_me", "evil")], tiers=["lexical"]).view()
    assert view.check("github/get_me", {}).status == "unknown"
    assert view.check("evil/github/get_me", {}).status == "passed"
