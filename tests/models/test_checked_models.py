from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from shortlist import Engine, Tool
from shortlist.errors import ModelError
from shortlist.models.checked_models import CheckedEncoder, CheckedReranker

from ..test_settings import Register

DIM = 4
TOOLS = [Tool("list_invoices", "billing"), Tool("send_mail", "mail"), Tool("read_file", "disk")]


def unit(texts: Sequence[str]) -> Any:
    values = np.ones((len(texts), DIM), np.float32)
    values[:, 0] = [len(text) for text in texts]
    return values / np.linalg.norm(values, axis=1, keepdims=True)


class Answers:
    """An encoder and reranker of another package; `answer` replaces what a query gets."""

    name = "mine-1"
    dim = DIM
    fingerprint = "mine-1"
    answer: Callable[[Sequence[str]], Any] | None = None
    answers_tools = False

    def encode(self, texts: Sequence[str], *, query: bool = False, progress: Any = None) -> Any:
        if progress is not None:
            progress(len(texts))
        answer = type(self).answer
        return answer(texts) if answer and (query or self.answers_tools) else unit(texts)

    def score(self, query: str, texts: Sequence[str]) -> Any:
        answer = type(self).answer
        return np.arange(len(texts), dtype=np.float32) if answer is None else answer(texts)


def lost(texts: Sequence[str]) -> Any:
    raise ConnectionError("host is down")


BAD_VECTORS = [
    (lambda texts: unit(texts).tolist(), "returned a list"),
    (lambda texts: 7 * unit(texts), r"of length 7; .*of\s+length 1"),
    (lambda texts: unit(texts)[:, :3], r"shape \(1, 3\); .*shape \(1, 4\)"),
    (lambda texts: unit(texts)[0], r"shape \(4,\)"),
    (lambda texts: np.ones((len(texts), DIM), np.int64), "an array of int64"),
    (lambda texts: unit(texts).astype(object), "an array of object"),
    (lambda texts: unit(texts) * np.nan, "not finite"),
    (lambda texts: None, "returned a NoneType"),
    (lost, "failed: ConnectionError: host is down"),
]
BAD_SCORES = [
    (lambda texts: [0.5] * len(texts), "returned a list"),
    (lambda texts: np.ones((len(texts), 1), np.float32), "shape"),
    (lambda texts: np.ones(len(texts), np.int64), "int64"),
    (lambda texts: np.full(len(texts), np.inf, np.float32), "not finite"),
    (lost, "host is down"),
]


@pytest.mark.parametrize(("answer", "problem"), BAD_VECTORS)
def test_an_encoder_with_a_bad_answer_is_named(
    monkeypatch: pytest.MonkeyPatch, answer: Any, problem: str
) -> None:
    monkeypatch.setattr(Answers, "answer", answer)
    with pytest.raises(ModelError, match=f"encoder 'mine-1'.*{problem}"):
        CheckedEncoder(Answers()).encode(["list"], query=True)


@pytest.mark.parametrize(("answer", "problem"), BAD_SCORES)
def test_a_reranker_with_a_bad_answer_is_named(
    monkeypatch: pytest.MonkeyPatch, answer: Any, problem: str
) -> None:
    monkeypatch.setattr(Answers, "answer", answer)
    with pytest.raises(ModelError, match=f"reranker 'mine-1'.*{problem}"):
        CheckedReranker(Answers()).score("list", ["a", "b"])


def test_other_precisions_and_zeros_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = CheckedEncoder(Answers())
    for kind in (np.float64, np.float16):
        monkeypatch.setattr(Answers, "answer", lambda texts, kind=kind: unit(texts).astype(kind))
        assert encoder.encode(["list"], query=True).dtype == np.float32
    monkeypatch.setattr(Answers, "answer", lambda texts: np.zeros((len(texts), DIM), np.float32))
    assert not encoder.encode([""], query=True).any()
    assert encoder.encode([]).shape == (0, DIM)


def test_an_error_of_the_callers_progress_is_its_own() -> None:
    def cancel(count: int) -> None:
        raise KeyError("cancelled")

    with pytest.raises(KeyError, match="cancelled"):
        CheckedEncoder(Answers()).encode(["list"], progress=cancel)


@pytest.mark.parametrize(("answer", "problem"), BAD_VECTORS)
def test_a_catalog_is_not_built_of_bad_vectors(
    packages: Register, monkeypatch: pytest.MonkeyPatch, answer: Any, problem: str
) -> None:
    packages("encoder", "mine", f"{__name__}:Answers")
    monkeypatch.setattr(Answers, "answer", lambda texts: answer(texts))
    monkeypatch.setattr(Answers, "answers_tools", True)
    with pytest.raises(ModelError, match="encoder 'mine-1'"):
        Engine.from_tools(TOOLS, encoder="mine")


@pytest.mark.parametrize(("answer", "problem"), BAD_VECTORS)
def test_bad_vectors_of_a_query_give_way_to_a_cheaper_tier(
    packages: Register, monkeypatch: pytest.MonkeyPatch, answer: Any, problem: str
) -> None:
    packages("encoder", "mine", f"{__name__}:Answers")
    engine = Engine.from_tools(TOOLS, encoder="mine")
    usual = engine.search("list the invoices", tier="fast").ids
    monkeypatch.setattr(Answers, "answer", answer)
    for _ in range(2):
        selection = engine.search("list the invoices", tier="hybrid")
        assert (selection.tier, selection.ids) == ("fast", usual)
        assert "encoder 'mine-1'" in str(selection.tier_reason)
    [selection] = engine.view().search_many(["list the invoices"], tier="hybrid")
    assert selection.tier == "fast"


@pytest.mark.parametrize(("answer", "problem"), BAD_SCORES)
def test_bad_scores_give_way_to_the_tier_without_them(
    packages: Register, monkeypatch: pytest.MonkeyPatch, answer: Any, problem: str
) -> None:
    packages("encoder", "mine", f"{__name__}:Answers")
    packages("reranker", "mine", f"{__name__}:Answers")
    engine = Engine.from_tools(TOOLS, encoder="mine", reranker="mine")
    assert engine.search("list the invoices", tier="rerank").tier == "rerank"
    usual = engine.search("list the invoices", tier="hybrid").ids
    monkeypatch.setattr(Answers, "score", lambda self, query, texts: answer(texts))
    selection = engine.search("list the invoices", tier="rerank")
    assert (selection.tier, selection.ids) == ("hybrid", usual)
    assert "reranker 'mine-1'" in str(selection.tier_reason)


class Raises:
    """A fusion of another package that fails."""

    def fuse(self, rankings: Any) -> Any:
        raise ZeroDivisionError("by zero")


def test_a_failing_fusion_gives_way_and_is_named(packages: Register) -> None:
    packages("fusion", "mine", f"{__name__}:Raises")
    engine = Engine.from_tools(TOOLS, fusion={"method": "mine"})
    selection = engine.search("list the invoices", tier="hybrid")
    assert selection.tier == "fast"
    assert "stage 'fusion' failed: ZeroDivisionError: by zero" in str(selection.tier_reason)
