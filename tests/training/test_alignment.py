from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from shortlist.models.training.alignment import (  # noqa: E402
    Alignment,
    AlignmentRecipe,
    draw,
    read_dictionary,
)
from shortlist.models.training.data import TrainingData, read_training_data  # noqa: E402
from shortlist.models.training.evaluate import LabelledSet  # noqa: E402
from shortlist.models.training.model import TextEncoder  # noqa: E402

RECIPE = AlignmentRecipe(
    steps=60, learning_rate=3e-3, requests=4, phrases=4, words=2, kept=4, evaluate_every=60
)
# Words the toy tokenizer knows, taken for those of another language.
DICTIONARY = [(("song",), ("birthday",)), (("letter", "inbox"), ("meeting",))]
CPU = torch.device("cpu")


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Two threads wait for each other longer than they work on tensors this small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def data(toy_sets: Path) -> TrainingData:
    read = read_training_data(toy_sets, caps={"plain": 10})
    translated = tuple(replace(one, text="birthday", english="song") for one in read.requests[:4])
    return replace(read, requests=(*read.requests, *translated))


def test_every_word_has_a_translation_into_every_language() -> None:
    dictionary = read_dictionary()
    assert len(dictionary) > 1000
    assert len({len(row) for row in dictionary}) == 1
    assert all(variant for row in dictionary for cell in row for variant in cell)
    assert len({row[0] for row in dictionary}) == len(dictionary)


def test_each_text_stands_beside_the_english_one(data: TrainingData) -> None:
    pairs = {("birthday", "song"), ("meeting", "letter"), ("meeting", "inbox")}
    for step in range(20):
        texts, english = draw(data, DICTIONARY, RECIPE, step)
        assert len(texts) == len(english) == 12
        assert all(
            pair == ("birthday", "song") for pair in zip(texts[:4], english[:4], strict=True)
        )
        for text, meant in zip(texts[4:8], english[4:8], strict=True):
            words = zip(text.replace(",", "").split(), meant.replace(",", "").split(), strict=True)
            assert set(words) <= pairs
        assert texts[8:] == english[8:]
        assert (texts, english) == draw(data, DICTIONARY, RECIPE, step)


def test_a_text_moves_to_its_english_wording_and_english_stays(
    data: TrainingData, toy_sets: Path, start: Path, tmp_path: Path
) -> None:
    toy = toy_sets / "toy"
    labelled = LabelledSet.read(toy / "judged_tools.jsonl", toy / "queries.jsonl")
    teacher = TextEncoder(start, CPU).eval()
    record = Alignment(
        RECIPE, data, DICTIONARY, labelled, start=start, out=tmp_path, device=CPU
    ).run()
    assert [point["step"] for point in record.curve] == [0, 60]
    student = TextEncoder(tmp_path / "last", CPU).eval()

    def cosine(one: str, other: str) -> float:
        return float(np.sum(student.encode([one], 16) * teacher.encode([other], 16)))

    before = float(np.sum(teacher.encode(["birthday"], 16) * teacher.encode(["song"], 16)))
    assert cosine("birthday", "song") > (1 + before) / 2
    kept = [cosine(tool.text, tool.text) for tool in data.tools[:10]]
    assert min(kept) > 0.8
