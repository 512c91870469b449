"""Rules about single calls: they read arguments, and ask for approval or deny."""

from __future__ import annotations

from typing import Any

import pytest

from shortlist import Engine, Gate, Rule, Session, Tool
from shortlist.errors import ConfigError, RequestError
from shortlist.gating import argument, requires_scope
from shortlist.gating.rules import Provides, read_gate
from shortlist.inspector.search_answers import explain_tool
from shortlist.inspector.subject import Subject

SCHEMA = {
    "type": "object",
    "properties": {
        "amount": {"type": ["number", "string"]},
        "to": {"type": "string"},
        "note": {"type": "string"},
    },
}
PAY = Tool("pay", "bank", "Pay an invoice", SCHEMA)
ABOVE = argument("amount", above=100)


def make_engine(*rules: Rule) -> Engine:
    return Engine.from_tools([PAY, Tool("list", "bank")], gate=Gate(rules), tiers=["lexical"])


def make_session(*rules: Rule) -> Session:
    return make_engine(*rules).session(must_offer=False)


@pytest.mark.parametrize(
    ("test", "holding", "failing", "unreadable"),
    [
        (argument("a", above=100), [101, 100.5, 10**400], [100, -1], ["200", True, None, [], {}]),
        (argument("a", below=0), [-1], [0, 5], ["-1", False, float("nan")]),
        (argument("a", above=1, below=3), [2], [1, 3], ["2"]),
        (argument("a", equals="EUR"), ["EUR", "eur", " EUR ", "\uff25UR"], ["USD"], [5, None]),
        (argument("a", equals=[1, True]), [1, 1.0, True], [2, False], ["1"]),
        (argument("a", matches="/etc/*"), ["/etc/passwd", "/ETC/x"], ["/home"], [7]),
        (argument("a", not_matches="*@acme.com"), ["x@y.z", "a@ACME.com"], ["a@acme.com"], [7]),
        (argument("a", not_matches=["a*", "b*"]), ["c"], ["a", "b"], [None]),
        (argument("/a/b", equals="x"), [{"b": "x"}], [{"b": "y"}], ["x", {}]),
        (argument("/a/b", above=1), [[{"b": 1}, {"b": 2}]], [[{"b": 1}]], [[{"b": 0}, {}], []]),
        (argument("a", not_matches="*@acme.com"), [["a@acme.com", "x"]], [["a@acme.com"]], [[]]),
    ],
)
def test_each_test_holds_fails_or_cannot_be_read(
    test: Any, holding: list[Any], failing: list[Any], unreadable: list[Any]
) -> None:
    assert [test.holds({"a": value}) for value in holding] == [True] * len(holding)
    assert [test.holds({"a": value}) for value in failing] == [False] * len(failing)
    assert [test.holds({"a": value}) for value in unreadable] == [None] * len(unreadable)
    assert test.holds({}) is None


def test_approval_is_asked_for_and_nothing_else_sees_the_rule() -> None:
    engine = make_engine(Rule(tools="bank/pay", when=ABOVE, approval=True, name="large"))
    assert engine.search("pay an invoice").ids == ("bank/pay",)
    assert engine.view().permits("bank/pay")
    session = engine.session(must_offer=False)
    assert session.record_call(session.check("bank/pay", {"amount": 100})) == "bank/pay"
    verdict = session.check("bank/pay", {"amount": 512, "note": "s3cret"})
    assert (verdict.status, verdict.passed) == ("unapproved", False)
    assert verdict.refusal is not None
    assert verdict.refusal.detail == {"rules": ["large"], "arguments": ["amount"]}
    assert "512" not in verdict.text
    assert "s3cret" not in verdict.text
    assert "needs a person's approval because of the argument 'amount'" in verdict.message
    with pytest.raises(RequestError, match="no call of"):
        session.record_call(verdict)
    approved = session.check("bank/pay", {"amount": 512}, approved=True)
    assert approved.passed
    assert session.recheck(approved) is approved


@pytest.mark.parametrize("arguments", [{}, {"amount": None}, {"amount": "512"}])
def test_what_cannot_be_read_needs_approval(arguments: dict[str, Any]) -> None:
    """A null that the schema does not allow means absent: the rule sees what will be sent."""
    verdict = make_session(Rule(tools="pay", when=ABOVE, approval=True)).check(
        "bank/pay", arguments
    )
    assert verdict.status == "unapproved"
    assert "'amount': missing, or not of the type" in verdict.message


def test_a_denying_rule_denies_also_what_is_approved() -> None:
    session = make_session(
        Rule(tools="BANK/*", when=argument("to", not_matches="*@acme.com"), deny=True),
        Rule(tools="bank/pay", approval=True),
    )
    for approved in (False, True):
        verdict = session.check("pay", {"to": "x@evil.org"}, approved=approved)
        assert (verdict.status, verdict.tool) == ("denied", None)
        assert verdict.refusal is not None
        assert (verdict.refusal.kind, verdict.refusal.tool_id) == ("argument", "pay")
        assert "evil" not in verdict.text
    assert session.check("pay", {"to": "a@acme.com"}).status == "unapproved"
    assert session.check("pay", {"to": "a@acme.com"}, approved=True).passed


def test_arguments_are_read_again_before_the_call() -> None:
    engine = make_engine(Rule(tools="bank/pay", when=ABOVE, approval=True))
    passed = Engine.from_tools([PAY], tiers=["lexical"]).view().check("bank/pay", {"amount": 120})
    assert passed.passed
    assert engine.view().recheck(passed).status == "unapproved"


def test_an_unread_tool_is_shown_before_a_person_is_asked() -> None:
    session = make_engine(Rule(tools="bank/pay", approval=True)).session(
        "openai", pass_through=0, pool_tokens=0, must_offer=True
    )
    session.turn("hello")
    verdict = session.check("bank/pay", {})
    assert (verdict.status, verdict.refusal) == ("promoted", None)
    assert session.check("bank/pay", {}).status == "unapproved"


def test_all_tests_of_a_rule_have_to_pass() -> None:
    session = make_session(
        Rule(tools="pay", when=[ABOVE, argument("to", equals="x")], approval=True)
    )
    assert session.check("pay", {"amount": 120, "to": "y"}).passed
    assert session.check("pay", {"amount": 120}).status == "unapproved"


def test_rules_are_written_and_read() -> None:
    rule = Rule(
        tools="bank/pay",
        when=[ABOVE, argument("to", equals=["x", 1, True], not_matches="a*")],
        deny=True,
    )
    form = Gate([rule]).to_dict()
    assert form["rules"][0]["when"] == {
        "amount": {"above": 100},
        "to": {"equals": ["x", 1, True], "not_matches": ["a*"]},
    }
    assert read_gate(form) == Gate([rule])
    assert Rule(tools="x", when=argument("a", equals=1), deny=True) != Rule(
        tools="x", when=argument("a", equals=True), deny=True
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: argument("a"), "give a test, one of: above, below, equals"),
        (lambda: argument(""), "is no name of an argument"),
        (lambda: argument("a", above="1"), "above: a number, not '1'"),  # type: ignore[arg-type]
        (lambda: argument("a", above=True), "above: a number, not True"),
        (lambda: argument("a", equals=[None]), "equals: None; a text"),  # type: ignore[list-item]
        (lambda: argument("a", matches=""), "matches: '' is no pattern"),
        (lambda: Rule(tools="x", when=ABOVE), "needs either `approval` or `deny`"),
        (lambda: Rule(tools="x", approval=True, deny=True), "needs either"),
        (lambda: Rule(tools="x", deny=True), "`deny` needs `when`"),
        (lambda: Rule(requires_scope("s"), approval=True), "write two rules"),
        (lambda: Rule(tools="x", provides=Provides(["s"]), approval=True), "write two rules"),
        (lambda: Rule(tools="x", when={"a": 1}, deny=True), "when: argument"),  # type: ignore[arg-type]
        (lambda: Rule(tools="x", when=[ABOVE, ABOVE], deny=True), "one argument twice"),
        (lambda: read_gate({"rules": [{"when": {"a": {"over": 1}}}]}), "no test 'over'; use"),
        (lambda: read_gate({"rules": [{"when": {"a": 1}}]}), "when: a: no test 1"),
        (lambda: read_gate({"rules": [{"when": [1], "deny": True}]}), "when"),
    ],
)
def test_mistakes_are_named(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


def test_a_rule_for_no_tool_is_a_problem() -> None:
    [problem] = make_engine(Rule(tools="nowhere", approval=True)).problems
    assert problem.kind == "concerns_nothing"


def test_the_page_shows_them() -> None:
    engine = make_engine(
        Rule(tools="bank/pay", when=ABOVE, approval=True, name="large"),
        Rule(tools="bank/list", approval=True),
    )
    subject = Subject(engine, "x")
    answer = explain_tool(subject, engine.view(), "pay an invoice", "bank/pay")
    assert answer["call_rules"] == ["large: a person has to approve calls with amount above 100"]
