from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist import Hit, Selection, Tool
from shortlist.session.conversation_search import ScoreBoard


def answer(**scores: float) -> Selection:
    """A selection of tools `server__name`, or of one without a server."""
    hits = []
    for rank, (key, score) in enumerate(sorted(scores.items(), key=lambda one: -one[1]), 1):
        server, _, name = key.rpartition("__")
        hits.append(Hit(Tool(name, server or None), rank, score, {}))
    return Selection("asked", tuple(hits), "hybrid", "hybrid")


def best(board: ScoreBoard, scores: np.ndarray, count: int) -> list[str]:
    return [board.tools[at].name for at in np.argsort(-scores, kind="stable")[:count]]


def test_what_a_search_did_not_list_counts_with_its_lowest_score() -> None:
    board = ScoreBoard([answer(a__x=0.9, a__y=0.5), answer(a__y=0.8, b__z=0.4)], 2)
    assert [tool.name for tool in board.tools] == ["x", "y", "z"]
    assert board.scores.tolist() == [[0.9, 0.5, 0.5], [0.4, 0.8, 0.4]]


def test_what_a_complete_list_does_not_hold_was_not_found() -> None:
    board = ScoreBoard([answer(a__x=3.0), answer(b__z=2.0)], 50)
    assert board.scores.tolist() == [[3.0, 0.0], [0.0, 2.0]]


def test_a_server_lends_to_its_tools_and_the_best_stays_best() -> None:
    board = ScoreBoard([answer(a__x=0.9, b__y=0.52, a__z=0.5, w=0.51)], 50)
    scores = board.with_server_share(board.scores[0])
    assert best(board, scores, 4) == ["x", "z", "y", "w"]


def test_tools_without_a_server_lend_nothing_to_each_other() -> None:
    board = ScoreBoard([answer(x=0.9, y=0.5, z=0.4)], 50)
    assert best(board, board.with_server_share(board.scores[0]), 3) == ["x", "y", "z"]


def test_parts_with_tools_of_their_own_are_intents() -> None:
    whole = answer(mail__send=0.6, web__search=0.5)
    first = answer(mail__send=0.7, web__search=0.1)
    board = ScoreBoard([whole, first, answer(web__search=0.6, mail__send=0.1)], 50)
    assert board.intents(board.scores[0], [1, 2]) == [1, 2]


def test_parts_with_the_same_tool_or_with_no_sure_one_are_none() -> None:
    whole = answer(shop__buy=0.6, web__search=0.2)
    same = ScoreBoard([whole, answer(shop__buy=0.7), answer(shop__buy=0.6)], 50)
    assert same.intents(same.scores[0], [1, 2]) == []
    unsure = ScoreBoard([whole, answer(shop__buy=0.7), answer(web__search=0.3)], 50)
    assert unsure.intents(unsure.scores[0], [1, 2]) == []


def test_every_intent_gets_its_tool_near_the_top() -> None:
    crowd = {f"hub__tool{at}": 0.55 - at / 100 for at in range(12)}
    whole = answer(**crowd, audio__play=0.3)
    second = answer(audio__play=0.9, hub__tool0=0.2)
    board = ScoreBoard([whole, answer(**crowd, audio__play=0.1), second], 50)
    intents = board.intents(board.scores[0], [1, 2])
    assert intents == [1, 2]
    assert "play" in best(board, board.credit_for_intents(board.scores[0], intents), 5)
    assert "play" not in best(board, board.scores[0], 12)


@settings(deadline=None)
@given(
    st.lists(
        st.dictionaries(st.sampled_from("abcdefgh"), st.floats(-5, 50), min_size=1), min_size=3
    )
)
def test_credit_is_a_distribution_whatever_the_scores(searches: list[dict[str, float]]) -> None:
    board = ScoreBoard(
        [answer(**{f"s__{name}": score for name, score in one.items()}) for one in searches], 8
    )
    credit = board.credit_for_intents(board.scores[0], range(1, len(searches)))
    assert np.isfinite(credit).all()
    assert credit.sum() == pytest.approx(1)


def test_nothing_found_is_no_error() -> None:
    board = ScoreBoard([answer(), answer(), answer()], 50)
    assert board.intents(board.scores[0], [1, 2]) == []
    assert len(board.with_server_share(board.scores[0])) == 0
