from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from shortlist.lab.training.data import TrainingQuery, TrainingTool, read_training_data
from shortlist.lab.training.negatives import Bm25, TrainingTwins, mine


def _tool(number: int, server: str | None, name: str) -> TrainingTool:
    return TrainingTool(f"s:{number}", "s", server, name, "")


def _unit(rows: list[list[float]]) -> NDArray[np.float32]:
    vectors = np.array(rows, dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_twins_are_near_copies_on_other_servers() -> None:
    tools = [
        _tool(0, "a", "get_weather"),
        _tool(1, "b", "forecast"),  # same text, other name, other server
        _tool(2, "a", "weather_now"),  # same text, same server: a sibling, no twin
        _tool(3, "c", "getWeather"),  # same name, related text
        _tool(4, "c", "get_weather"),  # same name, unrelated text
        _tool(5, None, "forecast_x"),  # no server counts as a server of its own
    ]
    vectors = _unit([[1, 0], [1, 0.01], [1, 0], [1, 0.7], [0, 1], [1, 0]])
    twins = TrainingTwins(tools, vectors)
    assert twins.of(0) == {1, 3, 5}
    assert twins.of(4) == set()
    assert twins.answers([0]) == {0, 1, 3, 5}
    for one in range(len(tools)):
        assert all(one in twins.of(other) for other in twins.of(one))


def test_bm25_prefers_rare_words_and_shorter_texts() -> None:
    index = Bm25(["delete a file", "delete a folder", "delete folder", "list files"])
    assert np.argsort(-index.scores("delete folder")).tolist()[:2] == [2, 1]
    assert index.scores("nothing of it").tolist() == [0, 0, 0, 0]


def test_mined_are_wrong_and_near(toy_sets: Path) -> None:
    data = read_training_data(toy_sets)
    rng = np.random.default_rng(0)
    tools = _unit(rng.normal(size=(len(data.tools), 8)).tolist())
    requests = _unit(rng.normal(size=(len(data.requests), 8)).tolist())
    twins = TrainingTwins(data.tools, tools)
    mined = mine(data.requests, data.tools, twins, requests, tools, each=4)
    assert len(mined) == len(data.requests)
    for request, negatives in zip(data.requests, mined, strict=True):
        assert 0 < len(negatives) <= 4
        assert len(set(negatives)) == len(negatives)
        assert not set(negatives) & twins.answers(request.relevant)
    row = next(i for i, r in enumerate(data.requests) if r.text == "where is my song")
    assert any("song" in data.tools[tool].name for tool in mined[row])


@pytest.mark.parametrize(("server", "kept"), [("b", False), ("a", True)])
def test_a_look_alike_that_outscores_the_answer_is_suspect_unless_a_sibling(
    server: str, kept: bool
) -> None:
    tools = [_tool(0, "a", "x"), _tool(1, server, "y"), _tool(2, "c", "z")]
    vectors = _unit([[1, 0.0], [0.8, 0.6], [0, 1]])
    asked = _unit([[0.8, 0.6]])
    mined = mine(
        [TrainingQuery("q", (0,), "", "s")], tools, TrainingTwins(tools, vectors), asked, vectors
    )
    assert (1 in mined[0]) is kept
    assert 2 in mined[0]


def test_what_was_judged_to_serve_as_well_is_not_mined() -> None:
    tools = [_tool(0, "a", "x"), _tool(1, "a", "y"), _tool(2, "c", "z")]
    vectors = _unit([[1, 0.0], [0.8, 0.6], [0, 1]])
    asked = _unit([[0.8, 0.6]])
    request = TrainingQuery("q", (0,), "", "s", also=(1,))
    (mined,) = mine([request], tools, TrainingTwins(tools, vectors), asked, vectors)
    assert mined == (2,)
