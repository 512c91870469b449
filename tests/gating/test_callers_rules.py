"""Rules of one caller beside those of the engine, and views limited further."""

from __future__ import annotations

import pytest

from shortlist import Engine, Tool
from shortlist.gating import Gate, Provides, Rule, State, after, requires_scope


class TestCallersOwnRules:
    """Rules of one caller beside those of the engine."""

    TOOLS = (Tool("read", "files"), Tool("write", "files"), Tool("send", "mail"))

    def engine(self, **settings) -> Engine:
        gate = Gate([Rule(requires_scope("files"), tools="files/write")])
        return Engine.from_tools(self.TOOLS, tiers=["lexical"], gate=gate, **settings)

    def test_both_must_hold(self) -> None:
        own = Gate([Rule(after("files/read"), tools="mail/*")])
        view = self.engine().view(rules=own)
        assert [tool.id for tool in view.tools()] == ["files/read"]
        refusal = view.refusal("mail/send")
        assert (refusal.kind, refusal.unlocked_by) == ("precondition", ("files/read",))
        assert view.refusal("files/write").kind == "scope"

    def test_no_other_caller_has_them(self) -> None:
        engine = self.engine()
        own = Gate([Rule(requires_scope("mail"), tools="mail/*")])
        assert not engine.view(rules=own).permits("mail/send")
        assert engine.view().permits("mail/send")

    def test_they_follow_the_catalog(self) -> None:
        engine = self.engine()
        own = Gate([Rule(requires_scope("mail"), tools="mail/*")])
        engine.view(rules=own)
        engine.replace([*self.TOOLS, Tool("delete", "mail")])
        assert not engine.view(rules=own).permits("mail/delete")

    def test_a_call_reaches_their_milestones(self) -> None:
        engine = self.engine()
        own = Gate([Rule(tools="mail/send", provides=Provides(milestones=("sent",)))])
        assert engine.after_call(State(), "mail/send", rules=own).milestones == {"sent"}
        assert engine.after_call(State(), "mail/send").milestones == frozenset()

    def test_limited_is_a_limit_more(self) -> None:
        view = (
            self.engine().view(allowed=["files/*"]).limited_to(["mail/send", "files/read", "none"])
        )
        assert [tool.id for tool in view.tools()] == ["files/read"]
        assert view.search("send a mail, read a file").ids == ("files/read",)
        assert view.refusal("mail/send").kind == "not_allowed"
        assert view.exists("mail/send")

    @pytest.mark.parametrize(
        ("rule", "concerned"),
        [
            ({"server": "FILES"}, True),
            ({"server": "mail"}, False),
            ({}, True),
            ({"tools": "files/x"}, True),
            ({"tools": "mail/*"}, False),
            ({"tools": "read"}, True),
            ({"server": "files", "annotations": {"destructiveHint": True}}, False),
        ],
    )
    def test_what_a_rule_may_concern_besides_tools(self, rule, concerned) -> None:
        assert Rule(requires_scope("x"), **rule).may_concern("files") is concerned
