"""The gate in every tier: nothing denied is offered or named, nothing admitted is lost."""

from __future__ import annotations

import copy
import json
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist import Engine, Tool
from shortlist.errors import RequestError, UnknownToolError
from shortlist.gating import Gate, Refusal, Rule, State, Votes, after, requires_scope

from .conftest import TIERS, cheap_engine
from .fakes import make_tools

TOOLS = make_tools(60)
IDS = sorted(tool.id for tool in TOOLS)
QUERIES = [
    "create an issue",
    "share the page",
    "zebra",
    "github/create_issue",
    "create_issue",
    "the",
]
MakeEngine = Callable[..., Engine]


@pytest.fixture(scope="module")
def sixty() -> Engine:
    return cheap_engine(TOOLS)


def denying(ids: set[str]) -> list[Rule]:
    return [Rule(requires_scope("never"), tools=sorted(ids))] if ids else []


@pytest.mark.parametrize("tier", TIERS)
class TestDenied:
    @settings(deadline=None, max_examples=25)
    @given(st.data())
    def test_the_answer_is_as_long_as_admitted_candidates_allow(
        self, sixty: Engine, tier: str, data: st.DataObject
    ) -> None:
        denied = data.draw(st.sets(st.sampled_from(IDS), max_size=59))
        query = data.draw(st.sampled_from(QUERIES[:2]))
        k = data.draw(st.integers(1, 12))
        # In the lexical tier a candidate is a tool that shares a term with the request.
        full = sixty.search(query, tier=tier, k=60)
        found = sixty.view(allowed=set(IDS) - denied).search(query, tier=tier, k=k)
        candidates = [tool_id for tool_id in full.ids if tool_id not in denied]
        assert len(found) == min(k, len(candidates))
        assert not set(found.ids) & denied

    @settings(deadline=None, max_examples=25)
    @given(st.data())
    def test_no_denied_tool_is_offered_or_named(
        self, sixty: Engine, tier: str, data: st.DataObject
    ) -> None:
        denied = data.draw(st.sets(st.sampled_from(IDS), min_size=1, max_size=59))
        query = data.draw(st.sampled_from([*QUERIES, *sorted(denied)[:2]]))
        gated = gated_over(sixty, denied)
        admission = gated.view()
        found = admission.search(query, tier=tier, k=60)
        assert not set(found.ids) & denied
        assert {refusal.tool_id for refusal in found.denied} == denied
        assert len(found.denied.nearest()) == min(5, len(denied))
        text = json.dumps(found.to_dict())
        for tool in TOOLS:
            if tool.id in denied:
                assert tool.description not in text
        for refusal in found.denied:
            assert not set(refusal.unlocked_by) & denied
            explained = gated.view().explain(query, refusal.tool_id, tier=tier)
            assert explained.refusal == refusal
            assert not explained.offered
            assert explained.rank is None
            assert not explained.stages

    @settings(deadline=None, max_examples=25)
    @given(st.data())
    def test_no_denied_tool_is_near_to_an_unknown_name(
        self, sixty: Engine, tier: str, data: st.DataObject
    ) -> None:
        denied = data.draw(st.sets(st.sampled_from(IDS), min_size=1))
        like = data.draw(st.sampled_from(IDS))
        asked = data.draw(st.sampled_from([like + "s", like[:-1], like.rpartition("/")[2] + "x"]))
        gated = gated_over(sixty, denied)
        [answer] = gated.view().details([asked])
        assert isinstance(answer, UnknownToolError | Tool | Refusal)
        if isinstance(answer, UnknownToolError):
            assert not set(answer.nearest) & denied
        elif isinstance(answer, Tool):
            assert answer.id not in denied
        with pytest.raises(UnknownToolError) as caught:
            gated.view().explain("create an issue", like + "s", tier=tier)
        assert not set(caught.value.nearest) & denied

    def test_every_way_to_deny_gives_the_same_answer(self, sixty: Engine, tier: str) -> None:
        denied = set(IDS[::3])
        allowed = set(IDS) - denied
        answers = [
            gated_over(sixty, denied).search("create an issue", tier=tier),
            sixty.view(allowed=allowed).search("create an issue", tier=tier),
            sixty.view(votes=Votes(excluded=dict.fromkeys(denied, ""))).search(
                "create an issue", tier=tier
            ),
        ]
        sixty.quarantine(dict.fromkeys(denied, "changed"))
        answers.append(sixty.search("create an issue", tier=tier))
        sixty.quarantine({})
        assert len({answer.ids for answer in answers}) == 1
        assert [len(answer.denied) for answer in answers] == [len(denied)] * 4
        kinds = [answer.denied[0].kind for answer in answers]
        assert kinds == ["scope", "not_allowed", "excluded", "quarantined"]

    def test_the_nearest_of_the_held_back_are_those_that_would_have_been_offered(
        self, sixty: Engine, tier: str
    ) -> None:
        full = sixty.search("create an issue", tier=tier, k=8)
        best = full.ids[:3]
        found = sixty.view(allowed=set(IDS) - set(best)).search("create an issue", tier=tier)
        assert {refusal.tool_id for refusal in found.denied.nearest()} == set(best)
        form = found.to_dict()["denied"]
        assert form["count"] == 3
        assert {refusal["tool"] for refusal in form["nearest"]} == set(best)

    def test_nothing_is_held_back_without_a_reason_to(self, sixty: Engine, tier: str) -> None:
        found = sixty.search("create an issue", tier=tier)
        assert list(found.denied) == []
        assert found.denied.to_dict() == {"count": 0, "nearest": []}

    def test_an_answer_copied_elsewhere_says_the_same(self, sixty: Engine, tier: str) -> None:
        found = sixty.view(allowed=IDS[:50]).search("create an issue", tier=tier)
        for same in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
            assert same == found
            assert same.to_dict() == found.to_dict()
            assert list(same.denied) == list(found.denied)
        assert pickle.loads(pickle.dumps(sixty.search("x", tier=tier))).denied.nearest() == ()

    def test_if_all_are_denied_nothing_is_found(self, sixty: Engine, tier: str) -> None:
        found = gated_over(sixty, set(IDS)).search("create an issue", tier=tier)
        assert found.ids == ()
        assert len(found.denied) == 60
        assert found.to_dict()["denied"]["count"] == 60


@pytest.mark.parametrize("tier", TIERS)
def test_what_is_denied_takes_no_place_among_the_candidates(tier: str) -> None:
    """Many more tools are denied than a retriever proposes or a reranker reads."""
    tools = [Tool(f"create_issue_{n}", "crowd", "Create an issue") for n in range(300)]
    tools += [Tool(f"issue_maker_{n}", "few", "Create a new issue of a kind") for n in range(15)]
    engine = cheap_engine(tools)
    engine.quarantine({tool.id: "crowd" for tool in tools[:300]})
    found = engine.search("create an issue", tier=tier, k=12)
    assert len(found) == 12
    assert {hit.tool.server for hit in found} == {"few"}


def gated_over(engine: Engine, denied: set[str]) -> Engine:
    """The same index behind other rules."""
    gated = Engine(engine._builder, engine._builder.begin(engine.catalog, engine._version.index))
    gated._gatekeeper = type(engine._gatekeeper)(Gate(denying(denied)))
    return gated


class TestOneDecision:
    def test_search_details_explain_and_batch_agree(self, make_engine: MakeEngine) -> None:
        rules = [Rule(requires_scope("w"), tools="delete_*"), Rule(after("list_*"), tools="copy_*")]
        engine = make_engine(TOOLS, gate=Gate(rules))
        for state in (State(), State().granted("w"), State().after_call(IDS[0])):
            admission = engine.view(state)
            one = engine.view(state).search("delete or copy an issue", k=60)
            [many] = engine.view(state).search_many(["delete or copy an issue"], k=60)
            assert one.ids == many.ids
            for answer, tool_id in zip(engine.view(state).details(IDS), IDS, strict=True):
                explained = engine.view(state).explain("delete or copy an issue", tool_id)
                if admission.permits(tool_id):
                    assert isinstance(answer, Tool)
                    assert explained.refusal is None
                else:
                    assert answer == admission.refusal(tool_id) == explained.refusal
                    assert tool_id not in one.ids
                    assert explained.reason.startswith("denied: needs ")

    def test_a_view_stays_as_it_was_made(self, make_engine: MakeEngine) -> None:
        engine = make_engine(TOOLS, gate=Gate([Rule(requires_scope("w"), tools="delete_*")]))
        admission = engine.view(State().granted("w"))
        assert "github/delete_issue" not in engine.search("delete an issue", k=60).ids
        found = admission.search("delete an issue", k=60)
        assert any("delete_" in tool_id for tool_id in found.ids)

    def test_it_is_answered_from_the_version_it_was_made_for(self, make_engine: MakeEngine) -> None:
        engine = make_engine(TOOLS, gate=Gate([Rule(requires_scope("w"), tools="delete_*")]))
        before = engine.catalog.fingerprint
        admission = engine.view()
        engine.replace([*TOOLS, Tool("create_issue_now", "new", "Create an issue")])
        old = admission.search("create an issue", k=70)
        assert old.catalog == before
        assert "new/create_issue_now" not in old.ids
        assert "new/create_issue_now" in engine.search("create an issue", k=70).ids

    def test_ids_are_a_list(self, sixty: Engine) -> None:
        with pytest.raises(RequestError, match="names: a list"):
            sixty.view().details("github/create_issue")

    async def _asearch(self, engine: Engine) -> Any:
        return await engine.view(State().granted("w")).asearch("create an issue")

    def test_a_search_in_an_event_loop_knows_the_state(self, make_engine: MakeEngine) -> None:
        import asyncio

        engine = make_engine(TOOLS, gate=Gate([Rule(requires_scope("w"))]))
        assert len(asyncio.run(self._asearch(engine))) == 10
        assert len(engine.search("create an issue")) == 0


class TestQuarantine:
    def test_it_stays_when_the_catalog_changes(self, make_engine: MakeEngine) -> None:
        engine = make_engine(TOOLS)
        engine.quarantine({IDS[0]: "changed", "new/tool": "never seen"})
        assert not engine.view().permits(IDS[0])
        engine.replace([*TOOLS, Tool("tool", "new")])
        assert [refusal.tool_id for refusal in engine.view().admission.refusals] == [
            IDS[0],
            "new/tool",
        ]
        assert all(refusal.kind == "quarantined" for refusal in engine.view().admission.refusals)

    def test_it_is_replaced_with_the_catalog(self, make_engine: MakeEngine) -> None:
        engine = make_engine(TOOLS)
        engine.quarantine({IDS[0]: "changed"})
        engine.replace(TOOLS, quarantined={IDS[1]: "new text"})
        assert [refusal.tool_id for refusal in engine.view().admission.refusals] == [IDS[1]]

    def test_no_state_and_no_permission_lifts_it(self, make_engine: MakeEngine) -> None:
        engine = make_engine(TOOLS)
        engine.quarantine({IDS[0]: "changed"})
        found = engine.view(allowed=IDS, votes=Votes(claimed=(IDS[0],))).search(IDS[0])
        assert IDS[0] not in found.ids
        assert found.voter_failures[0].tool_id == IDS[0]

    def test_a_request_never_sees_a_version_without_its_quarantine(
        self, make_engine: MakeEngine
    ) -> None:
        """Each version holds one bad tool and quarantines exactly that; readers never get one."""
        engine = make_engine(
            [Tool("bad_0", "s", "find it"), Tool("good", "s", "find it")], tiers=["lexical"]
        )
        engine.quarantine({"s/bad_0": "bad"})
        stop, seen = threading.Event(), []

        def read() -> None:
            while not stop.is_set():
                seen.append(engine.search("find it").ids)

        readers = [threading.Thread(target=read) for _ in range(2)]
        for reader in readers:
            reader.start()
        try:
            for number in range(1, 15):
                bad = Tool(f"bad_{number}", "s", "find it")
                engine.replace([bad, Tool("good", "s", "find it")], quarantined={bad.id: "bad"})
        finally:
            stop.set()
            for reader in readers:
                reader.join()
        assert set(seen) == {("s/good",)}
