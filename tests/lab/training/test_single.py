"""The encoder for one text at a time: its vectors are those of the trained encoder."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


from shortlist.lab.training.export import (  # noqa: E402
    export_encoder,
    export_text,
    quantize,
)
from shortlist.lab.training.single import SingleText  # noqa: E402
from shortlist.lab.training.text_encoder import TextEncoder  # noqa: E402
from shortlist.models.hub import ModelFiles  # noqa: E402
from shortlist.models.onnx_models import OnnxEncoder  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

TEXTS = [
    "find the song",
    "delete one picture in the files app",
    "",
    "where is my album",
    "unheard of",
]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Two threads wait for each other longer than they work on tensors this small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@torch.no_grad()
def test_bucketing_does_not_change_vectors(start: Path) -> None:
    encoder = TextEncoder(start, torch.device("cpu"))
    texts = [" ".join(["song"] * (1 + i % 7)) + " folder" for i in range(40)]
    vectors = encoder(texts, 32)
    for row in range(0, 40, 9):
        alone = encoder(texts[row : row + 1], 32)
        torch.testing.assert_close(vectors[row], alone[0], atol=5e-2, rtol=0)


@pytest.fixture(scope="module")
def transformer(start: Path) -> Any:
    return transformers.AutoModel.from_pretrained(start, attn_implementation="eager").eval()


@pytest.fixture(scope="module")
def folder(start: Path, transformer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny encoder exported for one text and for batches, and its tokenizer."""
    folder = tmp_path_factory.mktemp("exported")
    shutil.copy(start / "tokenizer.json", folder)
    (folder / "shortlist.json").write_text('{"max_tokens": 16}')
    export_text(SingleText(transformer), folder / "single.onnx")
    export_encoder(transformer, folder / "batch.onnx")
    return folder


def opened(folder: Path, name: str, threads: int = 1) -> OnnxEncoder:
    return OnnxEncoder(ModelFiles(name, folder, folder / f"{name}.onnx"), threads=threads)


class TestExport:
    def test_vectors_are_those_of_torch(self, folder: Path, transformer: Any) -> None:
        encoder = opened(folder, "single")
        assert encoder.dim == 32
        vectors = encoder.encode(TEXTS)
        tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_file=str(folder / "tokenizer.json")
        )
        for row, text in enumerate(TEXTS):
            ids = torch.tensor([tokenizer(text)["input_ids"]])
            with torch.no_grad():
                states = transformer(ids, torch.ones_like(ids)).last_hidden_state
            mean = torch.nn.functional.normalize(states.mean(1), dim=-1)
            np.testing.assert_allclose(vectors[row], mean[0].numpy(), rtol=0, atol=1e-5)

    def test_vectors_are_those_of_the_export_for_batches(self, folder: Path) -> None:
        vectors = opened(folder, "single").encode(TEXTS)
        np.testing.assert_allclose(
            vectors, opened(folder, "batch").encode(TEXTS), rtol=0, atol=1e-5
        )

    def test_a_text_has_the_same_vector_whatever_it_is_encoded_with(self, folder: Path) -> None:
        done: list[int] = []
        many = opened(folder, "single", threads=2).encode(TEXTS * 9, progress=done.append)
        assert sum(done) == len(many) == 9 * len(TEXTS)
        encoder = opened(folder, "single")
        for row, text in enumerate(TEXTS):
            [alone] = encoder.encode([text])
            for place in range(row, len(many), len(TEXTS)):
                np.testing.assert_allclose(many[place], alone, rtol=0, atol=1e-6)

    def test_no_texts_have_no_vectors(self, folder: Path) -> None:
        assert opened(folder, "single").encode([]).shape == (0, 32)

    def test_a_long_text_is_cut(self, folder: Path) -> None:
        encoder = opened(folder, "single")
        # Of 16 tokens, two mark the text's begin and end.
        cut, whole = encoder.encode(["song " * 100, "song " * 14])
        np.testing.assert_array_equal(cut, whole)

    def test_int8_keeps_the_vectors(self, folder: Path) -> None:
        quantize(folder / "single.onnx", folder / "int8.onnx")
        exact, rounded = (opened(folder, name).encode(TEXTS) for name in ("single", "int8"))
        assert (exact * rounded).sum(axis=1).min() > 0.97
