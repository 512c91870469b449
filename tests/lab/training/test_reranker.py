from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from shortlist.lab.training.cross_encoder import CrossEncoder  # noqa: E402
from shortlist.lab.training.data import TrainingData, read_training_data  # noqa: E402
from shortlist.lab.training.evaluate import LabelledSet  # noqa: E402
from shortlist.lab.training.export_reranker import main as export  # noqa: E402
from shortlist.lab.training.reranker import (  # noqa: E402
    Finals,
    RerankRecipe,
    RerankTraining,
    draw,
    main,
    mined_negatives,
)
from shortlist.lab.training.text_encoder import TextEncoder  # noqa: E402
from shortlist.models import load_reranker  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
CPU = torch.device("cpu")
RECIPE = RerankRecipe(
    steps=160,
    learning_rate=5e-3,
    requests=12,
    negatives=3,
    pool=6,
    frozen=0,
    hard=("toy",),
    evaluate_every=80,
    finalists=4,
)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Two threads wait for each other longer than they work on tensors this small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def data(toy_sets: Path) -> TrainingData:
    return read_training_data(toy_sets, caps={"plain": 10})


def _training(
    data: TrainingData, toy_sets: Path, start: Path, out: Path, recipe: RerankRecipe = RECIPE
) -> RerankTraining:
    encoder = TextEncoder(start, CPU).eval()
    out.mkdir(exist_ok=True)
    toy = LabelledSet.read(
        toy_sets / "toy" / "judged_tools.jsonl", toy_sets / "toy" / "queries.jsonl"
    )
    return RerankTraining(
        recipe,
        data,
        mined_negatives(data, encoder, start, out, recipe.pool),
        Finals.of(toy, encoder, recipe.finalists),
        start=start,
        out=out,
        device=CPU,
    )


def test_lists_hold_the_answer_first_and_no_other_answer(data: TrainingData) -> None:
    mined = [()] * len(data.requests)
    texts = {
        request.text: {data.tools[tool].description.split(".")[0] for tool in request.relevant}
        for request in data.requests
    }
    for step in range(20):
        lists = draw(data, mined, RECIPE, step)
        assert lists.size == 4
        assert len(lists.queries) == len(lists.documents) == 48
        assert lists == draw(data, mined, RECIPE, step)
        for row in range(0, 48, 4):
            assert len(set(lists.queries[row : row + 4])) == 1
            served = texts[lists.queries[row]]
            assert any(text in lists.documents[row] for text in served)
            assert len(set(lists.documents[row : row + 4])) == 4
            for other in lists.documents[row + 1 : row + 4]:
                assert not any(text in other for text in served)
    assert draw(data, mined, RECIPE, 0) != draw(data, mined, RECIPE, 1)


def test_bucketing_does_not_change_a_score(start: Path) -> None:
    model = CrossEncoder(start, CPU).eval()
    queries = ["song folder"] * 40
    documents = [" ".join(["letter"] * (1 + i % 9)) for i in range(40)]
    together = model.score(queries, documents, 32)
    alone = np.concatenate(
        [model.score([q], [d], 32) for q, d in zip(queries, documents, strict=True)]
    )
    np.testing.assert_allclose(together, alone, atol=2e-2)


def test_training_learns_and_what_is_exported_scores_alike(
    data: TrainingData, toy_sets: Path, start: Path, tmp_path: Path
) -> None:
    record = _training(data, toy_sets, start, tmp_path / "run").run()
    assert [point["step"] for point in record.curve] == [80, 160]
    losses = [point["loss"] for point in record.curve]
    assert losses[-1] < 0.7 * np.log(4)
    alone = record.curve[-1]["weight"]["0"]["hit@1"]
    assert max(one["hit@1"] for one in record.curve[-1]["weight"].values()) > alone
    best = tmp_path / "run" / "best"
    export(best, tmp_path / "tiny", origin="a test", max_tokens=32)
    shipped, trained = load_reranker(str(tmp_path / "tiny")), CrossEncoder(best, CPU).eval()
    asked = [request for request in data.requests if request.source == "toy"][:8]
    exact, found = [], []
    for request in asked:
        places = [*request.relevant[:1], *range(0, len(data.tools), 7)]
        documents = [data.tools[place].text for place in places]
        exact.extend(trained.score([request.text] * len(documents), documents, 32))
        found.extend(shipped.score(request.text, documents))
    # int8 turns a few logits of a network this narrow; the rest are the same.
    assert np.median(np.abs(np.subtract(exact, found))) < 0.1 * np.std(exact)


@pytest.mark.no_cover
def test_an_interrupted_run_ends_like_an_uninterrupted_one(
    data: TrainingData, toy_sets: Path, start: Path, tmp_path: Path
) -> None:
    recipe = replace(RECIPE, steps=20, evaluate_every=10)
    whole = _training(data, toy_sets, start, tmp_path / "whole", recipe).run()

    class Interrupted(Exception):
        pass

    broken = _training(data, toy_sets, start, tmp_path / "broken", recipe)
    evaluate = broken._evaluate

    def stop(loss: float) -> None:
        evaluate(loss)
        raise Interrupted

    broken._evaluate = stop  # type: ignore[method-assign]
    with pytest.raises(Interrupted):
        broken.run()
    resumed = _training(data, toy_sets, start, tmp_path / "broken", recipe).run()
    assert resumed.curve[-1]["loss"] == whole.curve[-1]["loss"]
    assert resumed.curve[-1]["weight"] == whole.curve[-1]["weight"]


def test_frozen_layers_stay(
    start: Path, data: TrainingData, toy_sets: Path, tmp_path: Path
) -> None:
    before = CrossEncoder(start, CPU).transformer.state_dict()
    _training(
        data, toy_sets, start, tmp_path, replace(RECIPE, steps=3, frozen=1, evaluate_every=3)
    ).run()
    after = CrossEncoder(tmp_path / "best", CPU).transformer.state_dict()
    moved = {name for name, value in after.items() if not torch.equal(value, before[name])}
    assert moved
    assert all(".layer.1." in name for name in moved)


def test_the_command_trains(toy_sets: Path, start: Path, tmp_path: Path) -> None:
    main(
        data=toy_sets,
        development=toy_sets / "toy",
        encoder=start,
        stock=start,
        out=tmp_path,
        steps=2,
        layers=1,
        frozen=0,
        threads=1,
    )
    assert CrossEncoder(tmp_path / "best", CPU).transformer.config.num_hidden_layers == 1
