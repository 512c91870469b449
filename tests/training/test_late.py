from __future__ import annotations

import shutil
from collections.abc import Iterator
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


from shortlist.errors import ModelError  # noqa: E402
from shortlist.models import TokenVectors, encoded  # noqa: E402
from shortlist.models.hub import ModelFiles  # noqa: E402
from shortlist.models.onnx_encoder import OnnxEncoder  # noqa: E402
from shortlist.models.training.export import (  # noqa: E402
    export_encoder,
    export_text,
    quantize,
)
from shortlist.models.training.late import (  # noqa: E402
    TOKEN_DIM,
    PaddedTokens,
    TokenHead,
    late_interaction,
)
from shortlist.models.training.single import SingleText  # noqa: E402
from shortlist.models.training.text_encoder import TextEncoder  # noqa: E402
from shortlist.retrieval.features import late_interaction as indexed_late_interaction  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

Floats = NDArray[np.float32]
DIM = 8
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


def unit(vectors: Floats) -> Floats:
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)


def random_texts(seed: int, lengths: list[int]) -> list[Floats]:
    """Tokens of texts: unit vectors, and in the last column weights that sum to 1."""
    random = np.random.default_rng(seed)
    texts = []
    for length in lengths:
        shares = random.integers(1, 9, size=(length, 1))
        vectors = unit(random.normal(size=(length, DIM)))
        texts.append(np.hstack([vectors, shares / shares.sum()]).astype(np.float32))
    return texts


def padded(texts: list[Floats], margin: int = 0, filling: float = 0.0) -> PaddedTokens:
    """The texts as they are trained, padded beyond the longest by a margin."""
    longest = max(len(text) for text in texts) + margin
    vectors = np.full((len(texts), longest, DIM), filling, np.float32)
    weights = np.zeros((len(texts), longest), np.float32)
    for row, text in enumerate(texts):
        vectors[row, : len(text)] = text[:, :-1]
        weights[row, : len(text)] = text[:, -1]
    return PaddedTokens(torch.from_numpy(vectors), torch.from_numpy(weights))


def indexed(queries: list[Floats], documents: list[Floats]) -> Floats:
    """Late interaction as the index computes it, of all queries with all documents."""
    held = TokenVectors.of(documents, DIM)
    return np.stack(
        [indexed_late_interaction(TokenVectors.of([query], DIM), held) for query in queries]
    )


def rounded(texts: list[Floats]) -> list[Floats]:
    """The texts as the index holds them."""
    return [
        np.hstack([TokenVectors.of([text], DIM).units(), text[:, -1:]]).astype(np.float32)
        for text in texts
    ]


LENGTHS = st.lists(st.integers(1, 6), min_size=1, max_size=4)


class TestLateInteraction:
    @settings(deadline=None, max_examples=40)
    @given(seed=st.integers(0, 2**32 - 1), asked=LENGTHS, offered=LENGTHS)
    def test_it_is_that_of_the_index(self, seed: int, asked: list[int], offered: list[int]) -> None:
        queries, documents = random_texts(seed, asked), random_texts(seed + 1, offered)
        expected = indexed(queries, documents)
        same = late_interaction(padded(rounded(queries)), padded(rounded(documents)))
        np.testing.assert_allclose(same.numpy(), expected, rtol=0, atol=1e-5)
        exact = late_interaction(padded(queries), padded(documents)).numpy()
        # Half a step a coordinate, in each of two unit vectors.
        error = sqrt(DIM) * 0.5 / 127
        np.testing.assert_allclose(exact, expected, rtol=0, atol=2.1 * error)

    @settings(deadline=None, max_examples=40)
    @given(
        seed=st.integers(0, 2**32 - 1),
        asked=LENGTHS,
        offered=LENGTHS,
        margin=st.integers(1, 5),
        filling=st.sampled_from([0.0, 1.0, -7.0]),
    )
    def test_padding_changes_nothing(
        self, seed: int, asked: list[int], offered: list[int], margin: int, filling: float
    ) -> None:
        queries, documents = random_texts(seed, asked), random_texts(seed + 1, offered)
        tight = late_interaction(padded(queries), padded(documents))
        loose = late_interaction(
            padded(queries, margin, filling), padded(documents, margin, filling)
        )
        torch.testing.assert_close(loose, tight, atol=1e-6, rtol=0)

    def test_a_gradient_reaches_vectors_and_weights_but_no_padding(self) -> None:
        queries, documents = padded(random_texts(0, [3])), padded(random_texts(1, [2, 4]))
        documents.vectors.requires_grad_()
        queries.weights.requires_grad_()
        late_interaction(queries, documents).sum().backward()
        assert documents.vectors.grad[0, :2].abs().sum() > 0
        assert queries.weights.grad.abs().min() > 0
        assert documents.vectors.grad[0, 2:].abs().sum() == 0


class TestHead:
    def head(self, width: int = 12) -> TokenHead:
        head = TokenHead(width)
        torch.nn.init.normal_(head.weight.weight)
        return head

    def mask(self, lengths: list[int]) -> Any:
        return torch.arange(max(lengths) + 1)[None, :] < torch.tensor(lengths)[:, None]

    @settings(deadline=None, max_examples=40)
    @given(lengths=LENGTHS, seed=st.integers(0, 1000))
    def test_weights_sum_to_one_over_a_text_and_vectors_have_length_one(
        self, lengths: list[int], seed: int
    ) -> None:
        torch.manual_seed(seed)
        mask = self.mask(lengths)
        with torch.no_grad():
            tokens = self.head()(torch.randn(*mask.shape, 12), mask)
        torch.testing.assert_close(tokens.weights.sum(1), torch.ones(len(lengths)))
        assert (tokens.weights[mask] > 0).all()
        assert (tokens.weights[~mask] == 0).all()
        torch.testing.assert_close(tokens.vectors.norm(dim=-1), torch.ones(mask.shape))

    def test_a_new_head_counts_all_tokens_alike(self) -> None:
        mask = self.mask([1, 4])
        weights = TokenHead(12)(torch.randn(2, 5, 12), mask).weights
        assert weights.tolist() == [[1, 0, 0, 0, 0], [0.25, 0.25, 0.25, 0.25, 0]]

    def test_vectors_are_short_however_wide_the_states(self) -> None:
        mask = self.mask([2])
        for width, dim in ((12, 12), (TOKEN_DIM, TOKEN_DIM), (200, TOKEN_DIM)):
            assert TokenHead(width)(torch.randn(1, 3, width), mask).vectors.shape == (1, 3, dim)

    def test_it_starts_with_the_directions_in_which_the_states_differ(self) -> None:
        torch.manual_seed(0)
        states = torch.randn(300, TOKEN_DIM // 2) @ torch.randn(TOKEN_DIM // 2, 200)
        head = TokenHead(200)
        head.start(states)
        vectors = head(states[None], torch.ones(1, 300, dtype=torch.bool)).vectors[0]
        exact = torch.nn.functional.normalize(states, dim=-1)
        torch.testing.assert_close(vectors @ vectors.T, exact @ exact.T, atol=1e-4, rtol=0)

    def test_what_is_saved_is_what_is_loaded(self, tmp_path: Path) -> None:
        head, other = self.head(), self.head()
        before = {name: value.clone() for name, value in other.state_dict().items()}
        assert not other.load(tmp_path)
        assert all(torch.equal(value, before[name]) for name, value in other.state_dict().items())
        head.save(tmp_path)
        assert other.load(tmp_path)
        saved = head.state_dict()
        assert all(torch.equal(value, saved[name]) for name, value in other.state_dict().items())
        assert not torch.equal(before["projection.weight"], saved["projection.weight"])


class TestEncoder:
    def test_a_saved_encoder_has_its_head(self, start: Path, tmp_path: Path) -> None:
        encoder = TextEncoder(start, torch.device("cpu"))
        assert not encoder.head_loaded
        encoder.start_head(TEXTS, 32)
        encoder.save(tmp_path)
        again = TextEncoder(tmp_path, torch.device("cpu"))
        assert again.head_loaded
        assert torch.equal(again.head.projection.weight, encoder.head.projection.weight)

    @torch.no_grad()
    def test_bucketing_does_not_change_tokens(self, start: Path) -> None:
        encoder = TextEncoder(start, torch.device("cpu"))
        texts = [" ".join(["song"] * (1 + i % 7)) + " folder" for i in range(40)]
        vectors, tokens = encoder.with_tokens(texts, 32)
        torch.testing.assert_close(vectors, encoder(texts, 32))
        assert ((tokens.weights > 0).sum(1) == torch.tensor([4 + i % 7 for i in range(40)])).all()
        for row in range(0, 40, 9):
            alone = encoder.with_tokens(texts[row : row + 1], 32)[1]
            count = alone.weights.shape[1]
            torch.testing.assert_close(
                tokens.vectors[row, :count], alone.vectors[0], atol=5e-2, rtol=0
            )
            torch.testing.assert_close(tokens.weights[row, :count], alone.weights[0])


@pytest.fixture(scope="module")
def transformer(start: Path) -> Any:
    return transformers.AutoModel.from_pretrained(start, attn_implementation="eager").eval()


@pytest.fixture(scope="module")
def head() -> TokenHead:
    torch.manual_seed(1)
    head = TokenHead(32).eval()
    torch.nn.init.normal_(head.weight.weight)
    return head


@pytest.fixture(scope="module")
def folder(
    start: Path, transformer: Any, head: TokenHead, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The tiny encoder exported with a head and without, and its tokenizer."""
    folder = tmp_path_factory.mktemp("exported")
    shutil.copy(start / "tokenizer.json", folder)
    (folder / "shortlist.json").write_text('{"max_tokens": 16}')
    export_text(SingleText(transformer), folder / "with.onnx", head=head)
    export_encoder(transformer, folder / "without.onnx")
    return folder


def opened(folder: Path, name: str, threads: int = 1) -> OnnxEncoder:
    return OnnxEncoder(ModelFiles(name, folder, folder / f"{name}.onnx"), threads=threads)


class TestExport:
    def test_tokens_are_those_of_torch(
        self, folder: Path, transformer: Any, head: TokenHead
    ) -> None:
        encoder = opened(folder, "with")
        assert (encoder.dim, encoder.token_dim) == (32, 32)
        vectors, tokens = encoder.encode_with_tokens(TEXTS)
        assert len(tokens) == len(vectors) == len(TEXTS)
        assert len(set(np.diff(tokens.starts).tolist())) > 1
        tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_file=str(folder / "tokenizer.json")
        )
        for row, text in enumerate(TEXTS):
            ids = torch.tensor([tokenizer(text)["input_ids"]])
            with torch.no_grad():
                states = transformer(ids, torch.ones_like(ids)).last_hidden_state
                expected = head.side_by_side(states, torch.ones_like(ids).bool())
            mean = torch.nn.functional.normalize(states.mean(1), dim=-1)
            np.testing.assert_allclose(vectors[row], mean[0].numpy(), rtol=0, atol=1e-5)
            found = tokens.take([row])
            assert found.vectors.shape == (ids.shape[1], 32)
            np.testing.assert_allclose(
                found.units(), expected[0, :, :-1].numpy(), rtol=0, atol=0.5 / 127 + 1e-5
            )
            np.testing.assert_allclose(found.weights, expected[0, :, -1], rtol=0, atol=1e-5)

    def test_the_vectors_are_those_of_encoding_without_tokens(self, folder: Path) -> None:
        encoder = opened(folder, "with")
        vectors, _ = encoder.encode_with_tokens(TEXTS)
        np.testing.assert_array_equal(vectors, encoder.encode(TEXTS))
        np.testing.assert_allclose(
            vectors, opened(folder, "without").encode(TEXTS), rtol=0, atol=1e-5
        )

    def test_a_text_has_the_same_tokens_whatever_it_is_encoded_with(self, folder: Path) -> None:
        done: list[int] = []
        many = opened(folder, "with", threads=2).encode_with_tokens(
            TEXTS * 9, progress=done.append
        )[1]
        assert sum(done) == len(many) == 9 * len(TEXTS)
        encoder = opened(folder, "with")
        for row, text in enumerate(TEXTS):
            alone = encoder.encode_with_tokens([text])[1]
            for place in range(row, len(many), len(TEXTS)):
                found = many.take([place])
                np.testing.assert_array_equal(found.vectors, alone.vectors)
                np.testing.assert_allclose(found.weights, alone.weights, atol=1e-6)

    def test_no_texts_have_no_tokens(self, folder: Path) -> None:
        vectors, tokens = opened(folder, "with").encode_with_tokens([])
        assert vectors.shape == (0, 32)
        assert (len(tokens), tokens.dim) == (0, 32)

    def test_a_long_text_is_cut(self, folder: Path) -> None:
        tokens = opened(folder, "with").encode_with_tokens(["song " * 100])[1]
        assert len(tokens.vectors) == 16

    def test_int8_keeps_the_tokens(self, folder: Path) -> None:
        quantize(folder / "with.onnx", folder / "int8.onnx")
        exact = opened(folder, "with").encode_with_tokens(TEXTS)[1]
        found = opened(folder, "int8").encode_with_tokens(TEXTS)[1]
        np.testing.assert_array_equal(found.starts, exact.starts)
        assert (found.units() * exact.units()).sum(axis=1).min() > 0.97
        np.testing.assert_allclose(np.add.reduceat(found.weights, found.starts[:-1]), 1, atol=1e-5)

    def test_an_encoder_without_the_output_gives_none(self, folder: Path) -> None:
        encoder = opened(folder, "without")
        assert encoder.token_dim == 0
        with pytest.raises(ModelError, match=r"without\.onnx: has no output 'tokens'"):
            encoder.encode_with_tokens(TEXTS)
        vectors, tokens = encoded(encoder, TEXTS)
        assert tokens is None
        np.testing.assert_array_equal(vectors, encoder.encode(TEXTS))

    def test_an_encoder_with_the_output_gives_them_when_wanted(self, folder: Path) -> None:
        tokens = encoded(opened(folder, "with"), TEXTS)[1]
        assert tokens is not None
        assert len(tokens) == len(TEXTS)
        assert encoded(opened(folder, "with"), TEXTS, tokens=False)[1] is None
