"""Learning from usage: what helps is taken, what does not is refused, and all of it can go."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from shortlist import Engine, Tool
from shortlist.errors import RequestError, StoreError
from shortlist.indexing import stage_models
from shortlist.retrieval.learning import MIN_HELD_OUT, Comparison, rejection_reason, scores
from shortlist.retrieval.ranking_metrics import Judgement
from shortlist.retrieval.usage import LearnedChange, UsageEvent

DIM = 48
TOOLS = 120


class DialectEncoder:
    """Tools and requests have random vectors by their words; requests come out bent.

    The bend is the same for all requests, so that events of some tools can undo it for others.
    """

    dim, name, fingerprint = DIM, "dialect", "dialect"

    def __init__(self) -> None:
        random = np.random.default_rng(5)
        self._bend = np.linalg.qr(random.normal(size=(DIM, DIM)))[0]
        self.encoded: list[str] = []

    def encode(
        self,
        texts: Sequence[str],
        *,
        query: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> NDArray[np.float32]:
        if not query:
            self.encoded.extend(texts)
        values = np.array([self._vector(text) for text in texts]).reshape(-1, DIM)
        if query:
            values = values + 2.5 * values @ self._bend
        values /= np.linalg.norm(values, axis=1, keepdims=True)
        return values.astype(np.float32)

    def _vector(self, text: str) -> NDArray[np.float64]:
        total = np.zeros(DIM)
        for word in text.lower().replace(":", " ").split():
            seed = int.from_bytes(word.encode()[-8:], "big")
            total += np.random.default_rng(seed).normal(size=DIM) * (8 if word[:1] == "t" else 1)
        return total


def name(number: int) -> str:
    """A word that stays one however names are split."""
    return "t" + "".join("abcdefghij"[int(digit)] for digit in str(number))


def tools(count: int = TOOLS, note: str = "") -> list[Tool]:
    return [Tool(name(number), None, f"does w{number} {note}".strip()) for number in range(count)]


def events(count: int = TOOLS, each: int = 4) -> list[UsageEvent]:
    return [
        UsageEvent(f"{name(number)} please q{number} r{turn}", (name(number),))
        for number in range(count)
        for turn in range(each)
    ]


@pytest.fixture
def encoder(monkeypatch: pytest.MonkeyPatch) -> DialectEncoder:
    made = DialectEncoder()
    monkeypatch.setattr(stage_models, "load_encoder", lambda spec, threads: made)
    return made


def make_engine(catalog: Sequence[Tool] | None = None) -> Engine:
    return Engine.from_tools(tools() if catalog is None else catalog, tiers=["embed"])


@pytest.fixture(scope="module")
def taught_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An index that has learned, saved."""
    with pytest.MonkeyPatch.context() as patch:
        made = DialectEncoder()
        patch.setattr(stage_models, "load_encoder", lambda spec, threads: made)
        engine = make_engine()
        assert engine.learn(events()).accepted
        folder = tmp_path_factory.mktemp("taught") / "index"
        engine.save(folder)
    return folder


@pytest.fixture
def taught(taught_folder: Path, encoder: DialectEncoder, tmp_path: Path) -> Path:
    return Path(shutil.copytree(taught_folder, tmp_path / "index"))


def hits(engine: Engine, asked: Sequence[UsageEvent]) -> float:
    return float(np.mean([engine.search(one.query, k=1).ids == one.relevant for one in asked]))


def answers(engine: Engine) -> list[list[tuple[str, float]]]:
    return [
        [(hit.id, hit.score) for hit in engine.search(one.query, k=20)] for one in events()[::50]
    ]


class TestAccepted:
    def test_seen_and_unseen_rise_and_new_requests_with_them(self, encoder: DialectEncoder) -> None:
        engine = make_engine()
        others = [
            UsageEvent(f"{name(number)} another s{number}", (name(number),))
            for number in range(TOOLS)
        ]
        before = hits(engine, others)
        report = engine.learn(events())
        assert report.accepted
        assert report.reason is None
        assert report.seen.gain[0] > 0
        assert report.unseen.change[0] > 0
        assert (report.events, report.tools, report.skipped) == (4 * TOOLS, TOOLS, 0)
        assert hits(engine, others) > before + 0.05
        assert engine.learned is not None
        assert engine.learned["events"] == 4 * TOOLS
        json.dumps(report.to_dict())

    def test_tools_are_not_encoded_again(self, encoder: DialectEncoder) -> None:
        engine = make_engine()
        encoder.encoded.clear()
        engine.learn(events())
        assert encoder.encoded == []

    @pytest.mark.no_cover
    def test_the_same_events_teach_the_same(self, encoder: DialectEncoder) -> None:
        engine = make_engine()
        engine.learn(events())
        first = answers(engine)
        engine.learn(events())
        assert answers(engine) == first

    def test_events_of_tools_that_are_gone_are_counted(self, encoder: DialectEncoder) -> None:
        report = make_engine().learn([*events(), UsageEvent("old", ("gone",))])
        assert report.skipped == 1
        assert report.accepted


class TestRefused:
    def test_events_that_teach_nothing_change_nothing(self, encoder: DialectEncoder) -> None:
        engine = make_engine()
        random = np.random.default_rng(0)
        noise = [
            UsageEvent(f"{name(random.integers(TOOLS))} r{turn}", (name(random.integers(TOOLS)),))
            for turn in range(400)
        ]
        before = answers(engine)
        report = engine.learn(noise)
        assert not report.accepted
        assert report.reason
        assert engine.learned is None
        assert answers(engine) == before

    def test_a_refusal_keeps_what_was_learned_before(self, taught: Path) -> None:
        engine = Engine.open(taught, tiers=["embed"])
        before = answers(engine)
        report = engine.learn(events(4, 2))
        assert report.reason is not None
        assert report.reason.startswith("too few events")
        assert answers(engine) == before

    def test_no_known_tool(self, encoder: DialectEncoder) -> None:
        with pytest.raises(RequestError, match="none of 1 names a tool"):
            make_engine().learn([UsageEvent("x", ("gone",))])

    def test_no_vectors(self) -> None:
        engine = Engine.from_tools(tools(3), tiers=["lexical"])
        with pytest.raises(RequestError, match="no tier uses vectors"):
            engine.learn(events(3))

    def test_the_rule(self) -> None:
        groups = np.arange(200)
        worse, same, better = (
            np.repeat([[share, share]], 200, axis=0).astype(float) for share in (0.4, 0.5, 0.6)
        )
        rises = Comparison.of(same, better, groups)
        stays = Comparison.of(same, same, groups)
        falls = Comparison.of(same, worse, groups)
        assert rejection_reason(rises, stays) is None
        assert rejection_reason(rises, rises) is None
        assert "no rise" in (rejection_reason(stays, rises) or "")
        assert "with events falls by 10.0%" in (rejection_reason(falls, rises) or "")
        assert "without events falls by 10.0%" in (rejection_reason(rises, falls) or "")
        noise = np.random.default_rng(0).choice([-1.0, 0.0, 1.0], 60, p=[0.14, 0.75, 0.11])
        both = np.repeat(noise[:, None], 2, axis=1)
        noisy = Comparison.of(np.zeros((60, 2)), both, np.arange(60))
        assert noisy.low[0] < -0.1 < noisy.change[0] < -0.02 < 0.03 < noisy.high[0]
        assert rejection_reason(rises, noisy) is None, "a fall within noise is no harm"
        few = Comparison.of(
            same[: MIN_HELD_OUT - 1], better[: MIN_HELD_OUT - 1], groups[: MIN_HELD_OUT - 1]
        )
        assert "too few events: 19" in (rejection_reason(few, rises) or "")
        none = Comparison.of(same[:0], same[:0], groups[:0])
        assert "too few events: 0" in (rejection_reason(rises, none) or "")

    def test_many_requests_for_one_tool_are_one_draw(self) -> None:
        before, after = np.zeros((100, 2)), np.zeros((100, 2))
        after[:50] = 1
        groups = np.repeat(np.arange(4), 25)
        clustered = Comparison.of(before, after, groups)
        single = Comparison.of(before, after, np.arange(100))
        assert clustered.low[0] < single.low[0] < 0.5 < single.high[0] < clustered.high[0]


class TestInForce:
    def test_what_is_saved_is_what_is_opened(self, taught: Path) -> None:
        engine = Engine.open(taught, tiers=["embed"])
        assert engine.learned is not None
        before = answers(engine)
        engine.save(taught)
        assert answers(Engine.open(taught, tiers=["embed"])) == before

    def test_forgetting_gives_the_first_answers_back(self, taught: Path) -> None:
        engine = Engine.open(taught, tiers=["embed"])
        fresh = answers(make_engine())
        assert answers(engine) != fresh
        engine.forget()
        assert engine.learned is None
        assert answers(engine) == fresh
        engine.save(taught)
        assert answers(Engine.open(taught, tiers=["embed"])) == fresh
        engine.forget()
        assert answers(engine) == fresh

    def test_an_update_encodes_the_new_and_keeps_the_rest(
        self, taught: Path, encoder: DialectEncoder
    ) -> None:
        engine = Engine.open(taught, tiers=["embed"])
        before = engine.learned
        encoder.encoded.clear()
        engine.replace([*tools()[20:], Tool("tnew", None, "brand new")])
        assert len(encoder.encoded) == 1
        assert engine.learned == before
        assert before is not None

    def test_another_encoder_drops_all_of_it(
        self, taught: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other = DialectEncoder()
        other.fingerprint = "other"
        monkeypatch.setattr(stage_models, "load_encoder", lambda spec, threads: other)
        assert Engine.open(taught, tiers=["embed"]).learned is None

    @pytest.mark.parametrize("name", ["learned.npz"])
    def test_damage_is_an_error(self, taught: Path, name: str) -> None:
        file = taught / (taught / "CURRENT").read_text() / name
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
        with pytest.raises(StoreError, match=name):
            Engine.open(taught, tiers=["embed"])


UNIT = arrays(np.float32, (6, 4), elements=st.floats(-1, 1, width=32)).filter(
    lambda values: bool((np.linalg.norm(values, axis=1) > 0.1).all())
)


@given(UNIT, arrays(np.float32, (4, 4), elements=st.floats(-0.125, 0.125, width=32)))
def test_changed_vectors_have_length_one(
    values: NDArray[np.float32], change: NDArray[np.float32]
) -> None:
    done = LearnedChange(change, "model", 1).vectors(values)
    assert np.allclose(np.linalg.norm(done, axis=1), 1, atol=1e-4)
    same = LearnedChange(np.zeros_like(change), "model", 1).vectors(values)
    assert np.allclose(same, values / np.linalg.norm(values, axis=1, keepdims=True), atol=1e-6)


def test_scores() -> None:
    found = np.zeros((2, 10), np.bool_)
    found[0, 0] = found[0, 9] = found[1, 3] = True
    assert scores(Judgement(found, np.array([2, 4]))).tolist() == [[1.0, 1.0], [0.0, 0.25]]
