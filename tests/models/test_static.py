from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shortlist.errors import ModelError
from shortlist.models import DEFAULT_ENCODER, Encoder, load_encoder
from shortlist.models.hub import WEIGHTS_FOLDER
from shortlist.models.loading import STATIC_TABLES
from shortlist.models.static_encoder import StaticEncoder, character_grams

FOLDER = WEIGHTS_FOLDER / STATIC_TABLES
#: Bytes of the tables of both sides.
MOST_BYTES = 12_000_000


@pytest.fixture(scope="module")
def encoder() -> StaticEncoder:
    found = load_encoder("static")
    assert isinstance(found, StaticEncoder)
    return found


def test_is_an_encoder(encoder: StaticEncoder) -> None:
    assert isinstance(encoder, Encoder)
    assert encoder.name == "static"
    assert encoder.fingerprint == load_encoder("static").fingerprint


def test_tables_are_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.glob("*.npy")) <= MOST_BYTES


def test_tables_belong_to_the_bundled_encoder(encoder: StaticEncoder) -> None:
    assert encoder.teacher_fingerprint == load_encoder(DEFAULT_ENCODER).fingerprint


@pytest.mark.parametrize("query", [True, False])
def test_similar_texts_are_near(encoder: StaticEncoder, query: bool) -> None:
    texts = ["delete a file", "remove a document", "play some music"]
    vectors = encoder.encode(texts, query=query)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]


def test_a_query_is_near_the_teachers_vector_of_it(encoder: StaticEncoder) -> None:
    texts = ["list my unpaid invoices", "what is the weather in Oslo", "open a pull request"]
    teacher = encoder.project(load_encoder().encode(texts, query=True))
    near = encoder.encode(texts, query=True) @ teacher.T
    assert (near.argmax(1) == np.arange(len(texts))).all()
    assert (near.diagonal() > 0.4).all()


def test_definitions_and_teacher_share_a_space(encoder: StaticEncoder) -> None:
    texts = [
        "delete file (files): Removes a file.",
        "get forecast (weather): The weather of a place.",
    ]
    near = encoder.encode(texts) @ encoder.project(load_encoder().encode(texts)).T
    assert (near.argmax(1) == np.arange(len(texts))).all()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(st.characters()), max_size=4), st.booleans())
def test_any_text_has_a_finite_vector_of_its_own(texts: list[str], query: bool) -> None:
    encoder = load_encoder("static")
    vectors = encoder.encode(texts, query=query)
    assert vectors.shape == (len(texts), encoder.dim)
    assert vectors.dtype == np.float32
    assert np.isfinite(vectors).all()
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3)
    for text, vector in zip(texts, vectors, strict=True):
        assert np.array_equal(encoder.encode([text], query=query)[0], vector)


_PIECES = st.one_of(
    st.sampled_from(["[CLS]", "word-2", "ΑΣ", "e\u0301", "\x1c", "\u00a0", "—", "中文", "\n"]),
    st.text(st.characters(codec="ascii"), max_size=5),
    st.text(st.characters(), max_size=5),
)


@settings(max_examples=50, deadline=None)
@example(["word-2 " * 200])
@given(st.lists(st.lists(_PIECES, max_size=200).map("".join), min_size=1, max_size=4))
def test_many_texts_have_the_vectors_of_each(texts: list[str]) -> None:
    # From 16 texts on they are tokenised word by word.
    encoder = load_encoder("static")
    vectors = encoder.encode([*texts, *["as many as are needed"] * 16])
    for text, vector in zip(texts, vectors, strict=False):
        assert np.array_equal(encoder.encode([text])[0], vector)


def test_progress_counts_texts(encoder: StaticEncoder) -> None:
    done: list[int] = []
    encoder.encode(["a", "b", "c"], progress=done.append)
    assert sum(done) == 3


@given(st.text(), st.sampled_from([16, 1024]))
def test_grams_are_places_in_the_table(text: str, buckets: int) -> None:
    grams = character_grams(text, buckets)
    assert ((grams >= 0) & (grams < buckets)).all()
    assert np.array_equal(grams, character_grams(f"  {text} ", buckets))


def test_grams_share_what_words_share() -> None:
    one, other = (
        set(character_grams(text, 1 << 14).tolist()) for text in ("Wetter", "wetterbericht")
    )
    assert len(one & other) >= 4
    assert character_grams("a" * 5_000, 16).size < 2_000


def test_damaged_tables_are_named(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(FOLDER, tmp_path / "tables"))
    (folder / "static.json").write_text(json.dumps({"teacher": "x"}))
    with pytest.raises(ModelError, match="no tables of static vectors"):
        StaticEncoder(folder, WEIGHTS_FOLDER / DEFAULT_ENCODER)
