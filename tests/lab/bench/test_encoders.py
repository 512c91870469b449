from __future__ import annotations

import numpy as np
import pytest

from shortlist.lab.bench.bare import BareEncoder
from shortlist.lab.bench.memory import peak_mb, resident_mb
from shortlist.lab.bench.perturbed import PerturbedEncoder
from shortlist.models import Encoder, load_encoder

TEXTS = ["open an issue", "list the files of a folder, newest first", "send a message"]


def test_the_bare_session_computes_what_the_encoder_does() -> None:
    bare, encoder = BareEncoder("bundled", 1), load_encoder(threads=1)
    for text in TEXTS:
        vector = bare.run(bare.feed(text))[0]
        assert float(vector @ encoder.encode([text])[0]) == pytest.approx(
            float(np.linalg.norm(vector)), rel=1e-4
        )


def test_the_bare_encoder_takes_time_for_every_text() -> None:
    assert BareEncoder("bundled", 1).encode_seconds(TEXTS * 20) > 0


def test_perturbed_vectors_are_near_real_ones_and_drawn_by_seed() -> None:
    generator = np.random.default_rng(0)
    vectors = generator.standard_normal((50, 384)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    texts = [str(n) for n in range(200)]
    encoder = PerturbedEncoder(vectors, "of-the-model", seed=1)
    assert isinstance(encoder, Encoder)
    found = encoder.encode(texts)
    assert found.shape == (200, 384)
    assert np.linalg.norm(found, axis=1) == pytest.approx(1, abs=1e-5)
    nearest = (found @ vectors.T).max(axis=1)
    assert nearest.min() > 0.8
    assert nearest.max() < 0.97
    assert np.array_equal(found, PerturbedEncoder(vectors, "m", seed=1).encode(texts))
    assert not np.array_equal(found, PerturbedEncoder(vectors, "m", seed=2).encode(texts))


def test_the_peak_is_no_lower_than_what_is_resident() -> None:
    assert 5 < resident_mb() <= peak_mb()
