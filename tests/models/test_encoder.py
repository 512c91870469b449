from __future__ import annotations

import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.errors import MissingExtraError, ModelError
from shortlist.models import DEFAULT_ENCODER, Encoder, load_encoder
from shortlist.models.hub import WEIGHTS_FOLDER

TEXTS = [
    "delete a file",
    "Send an e-mail to everyone who has not answered yet",
    "",
    "読み込む",
    "create_issue. Open a new issue in a repository. title body labels " * 20,
]


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return load_encoder()


def test_bundled_is_the_default_encoder(encoder: Encoder) -> None:
    assert isinstance(encoder, Encoder)
    assert encoder.name == DEFAULT_ENCODER
    assert encoder.dim == 384
    assert encoder.fingerprint == load_encoder(DEFAULT_ENCODER).fingerprint


def test_similar_texts_are_near(encoder: Encoder) -> None:
    query, near, far = encoder.encode(
        ["remove a file from disk", "delete_file: deletes a file", "send a chat message"]
    )
    assert query @ near > query @ far + 0.2


def test_a_text_has_one_vector_whatever_it_is_embedded_with(encoder: Encoder) -> None:
    many = TEXTS * 20
    together = encoder.encode(many)
    for i, text in enumerate(TEXTS):
        alone = encoder.encode([text])[0]
        for row in range(i, len(many), len(TEXTS)):
            np.testing.assert_array_equal(together[row], alone)


def test_shapes_and_progress(encoder: Encoder) -> None:
    assert encoder.encode([]).shape == (0, 384)
    for count in (1, 2, 70):
        done: list[int] = []
        vectors = encoder.encode(["x"] * count, progress=done.append)
        assert vectors.shape == (count, 384)
        assert vectors.dtype == np.float32
        assert sum(done) == count


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(st.characters(), max_size=300), min_size=1, max_size=4))
def test_any_text_becomes_a_unit_vector(texts: list[str]) -> None:
    vectors = load_encoder_once().encode(texts)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)


def load_encoder_once(cache: list[Encoder] = []) -> Encoder:  # noqa: B006
    if not cache:
        cache.append(load_encoder())
    return cache[0]


@pytest.mark.parametrize(
    "text",
    ["\ud800", "a\udfffb", "\ud83d\ude00", "x" * 100_000, "ab " * 33_000, "漢" * 100_000, "\0"],
)
def test_hostile_text_becomes_a_unit_vector(encoder: Encoder, text: str) -> None:
    assert np.linalg.norm(encoder.encode([text])) == pytest.approx(1.0, abs=1e-5)


def test_a_surrogate_pair_is_the_character_it_stands_for(encoder: Encoder) -> None:
    pair = encoder.encode(["party \ud83c\udf89"])
    np.testing.assert_array_equal(pair, encoder.encode(["party \U0001f389"]))


def test_many_threads_get_the_vectors_one_gets(encoder: Encoder) -> None:
    expected = encoder.encode(TEXTS)
    with ThreadPoolExecutor(8) as pool:
        for i, vector in enumerate(
            pool.map(lambda j: encoder.encode([TEXTS[j % 5]])[0], range(80))
        ):
            np.testing.assert_array_equal(vector, expected[i % 5])


def test_one_thread_and_two_agree() -> None:
    one, two = (load_encoder(threads=n).encode(TEXTS[:3]) for n in (1, 2))
    assert (one * two).sum(axis=1).min() > 0.9999


def test_an_exception_from_progress_reaches_the_caller(encoder: Encoder) -> None:
    def stop(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encoder.encode(["x"] * 100, progress=stop)


def test_nothing_heavy_is_imported_before_a_model_is_loaded() -> None:
    code = (
        "import sys, shortlist.models as m; m.load_encoder; m.load_reranker; m.TokenCounter;"
        "print([x for x in ('onnxruntime', 'tokenizers', 'tiktoken') if x in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_missing_extra_names_its_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtraError, match=r"\[sentence-transformers\]"):
        load_encoder("sentence-transformers:all-mpnet-base-v2")


def copy_of_bundled(folder: Path) -> Path:
    shutil.copytree(WEIGHTS_FOLDER / DEFAULT_ENCODER, folder)
    return folder


def test_prompts_of_a_sentence_transformers_folder_are_used(
    tmp_path: Path, encoder: Encoder
) -> None:
    folder = copy_of_bundled(tmp_path / "model")
    (folder / "shortlist.json").unlink()
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 256}')
    prompts = {"prompts": {"query": "query: ", "document": "passage: "}}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    prompted = load_encoder(str(folder))
    np.testing.assert_array_equal(
        prompted.encode(["files"], query=True), encoder.encode(["query: files"])
    )
    np.testing.assert_array_equal(prompted.encode(["files"]), encoder.encode(["passage: files"]))
    assert prompted.fingerprint != encoder.fingerprint


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("model.onnx", "nonsense", "cannot open"),
        ("tokenizer.json", "{}", "not a tokenizer"),
        ("shortlist.json", "{", "not JSON"),
        ("shortlist.json", "[1]", "expected a JSON object"),
    ],
)
def test_a_damaged_folder_is_an_error(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    folder = copy_of_bundled(tmp_path / "model")
    (folder / name).write_text(content)
    with pytest.raises(ModelError, match=message):
        load_encoder(str(folder))


def test_a_reranker_is_not_an_encoder() -> None:
    with pytest.raises(ModelError, match="its outputs are logits"):
        load_encoder(str(Path(__file__).parent / "tiny_reranker"))
