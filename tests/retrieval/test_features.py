from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import numpy as np
import pytest
from numpy.typing import NDArray

from shortlist.catalog import Tool
from shortlist.models import TokenVectors
from shortlist.retrieval import Query, Ranking, Run
from shortlist.retrieval.features import WEIGHTS, FeatureScorer

TOOLS = (
    Tool("archive", "mail", "Puts a letter away."),
    Tool("print", "office", "Prints an invoice on paper."),
    Tool("send", "mail", "Sends an invoice by letter."),
)
VECTORS = np.array([[1, 0], [0, 1], [0.6, 0.8]], np.float32)
#: Of two tokens, one and one: the first coordinates are the vector, the last is the weight.
TOKENS = TokenVectors.of(
    [
        np.array([[1, 0, 0.5], [0, 1, 0.5]], np.float32),
        np.array([[0, 1, 1]], np.float32),
        np.array([[-1, 0, 1]], np.float32),
    ],
    2,
)


class Weights:
    """A lexical index of which only the term weights are asked."""

    @classmethod
    def build(cls, documents: Sequence[Mapping[str, str]], boosts: Mapping[str, float]) -> Self:
        raise NotImplementedError

    @classmethod
    def load(cls, folder: Path, boosts: Mapping[str, float]) -> Self:
        raise NotImplementedError

    def save(self, folder: Path) -> None:
        raise NotImplementedError

    def search(self, text: str, depth: int, allowed: NDArray[np.bool_] | None = None) -> Ranking:
        raise NotImplementedError

    def weight(self, term: str) -> float:
        return {"invoic": 3.0, "mail": 1.0}.get(term, 0.0)


def run_for(text: str, vector: list[float] | None, tokens: TokenVectors | None = None) -> Run:
    held = None if vector is None else np.array(vector, np.float32)
    return Run(Query(text, None, held, tokens), 3, {}, {})


def test_the_sum_is_what_the_weights_say() -> None:
    run = run_for("invoice mail", [0.6, 0.8])
    run.rankings["lexical"] = Ranking(np.array([2, 1]), np.array([5.0, 2.0], np.float32))
    scores = FeatureScorer(TOOLS, VECTORS, None, Weights()).score(run, np.array([0, 1, 2]))
    expected = [
        WEIGHTS["dense"] * 0.6 + WEIGHTS["coverage"] * 0.25 + WEIGHTS["server"],
        WEIGHTS["dense"] * 0.8 + WEIGHTS["lexical"] * 2 + WEIGHTS["coverage"] * 0.75,
        WEIGHTS["dense"] + WEIGHTS["lexical"] * 5 + WEIGHTS["coverage"] + WEIGHTS["server"],
    ]
    assert scores == pytest.approx(expected, abs=1e-6)


def test_candidates_keep_their_places_in_any_order() -> None:
    scorer = FeatureScorer(TOOLS, VECTORS, None, Weights())
    forward = scorer.score(run_for("invoice", [0, 1]), np.array([0, 1, 2]))
    backward = scorer.score(run_for("invoice", [0, 1]), np.array([2, 1, 0]))
    assert forward.tolist() == backward[::-1].tolist()


@pytest.mark.parametrize("text", ["", "the of and", "!?", "\ud800"])
def test_a_request_without_terms_is_scored_by_its_vector(text: str) -> None:
    scores = FeatureScorer(TOOLS, VECTORS, None, Weights()).score(
        run_for(text, [1, 0]), np.arange(3)
    )
    assert scores == pytest.approx([1.0, 0.0, 0.6])


def test_no_dense_and_no_lexical_stage_is_no_error() -> None:
    scores = FeatureScorer(TOOLS, None, None, None).score(run_for("invoice", None), np.arange(3))
    assert scores == pytest.approx([0.0, WEIGHTS["coverage"], WEIGHTS["coverage"]])


def test_tokens_add_what_late_interaction_finds() -> None:
    asked = TokenVectors.of([np.array([[1, 0, 0.8], [0, 1, 0.2]], np.float32)], 2)
    run = run_for("", [1, 0], asked)
    rows = np.array([2, 0, 1])
    without = FeatureScorer(TOOLS, VECTORS, None, Weights()).score(run, rows)
    scores = FeatureScorer(TOOLS, VECTORS, TOKENS, Weights()).score(run, rows)
    # Each of the request's tokens with its best of the tool's.
    late = np.array([0.8 * -1 + 0.2 * 0, 1.0, 0.2])
    assert scores - without == pytest.approx(WEIGHTS["late"] * late, abs=1e-6)


def test_a_request_without_tokens_is_scored_by_the_rest() -> None:
    run, rows = run_for("invoice", [1, 0]), np.arange(3)
    scores = FeatureScorer(TOOLS, VECTORS, TOKENS, Weights()).score(run, rows)
    without = FeatureScorer(TOOLS, VECTORS, None, Weights()).score(run, rows)
    assert scores.tolist() == without.tolist()


def test_values_of_the_request_speak_for_tools_that_take_them() -> None:
    def tool(name: str, **properties: str) -> Tool:
        listed = {key: {"type": kind} for key, kind in properties.items()}
        schema = {"type": "object", "properties": listed, "required": list(properties)}
        return Tool(name, input_schema=schema)

    tools = (tool("bare"), tool("square", side="number"), tool("box", a="number", b="number"))
    vectors = np.ones((3, 2), np.float32)
    scorer = FeatureScorer(tools, vectors, None, None)

    def argued(text: str) -> list[float]:
        found: list[float] = scorer.score(run_for(text, [1, 0]), np.arange(3)).tolist()
        return [score - WEIGHTS["dense"] for score in found]

    left, missing = WEIGHTS["left_over"], WEIGHTS["missing"]
    assert left < 0
    assert missing < 0
    assert argued("10") == pytest.approx([left, 0, 0.5 * missing], abs=1e-6)
    assert argued("10 20") == pytest.approx([left, 0.5 * left, 0], abs=1e-6)
    assert argued("?") == pytest.approx([0, missing, missing], abs=1e-6)
