from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from shortlist.lab.training.batches import Batches, Mixture, TrainingBatch
from shortlist.lab.training.data import TrainingData, read_training_data
from shortlist.lab.training.negatives import TrainingTwins


@pytest.fixture(scope="module")
def data(toy_sets: Path) -> TrainingData:
    return read_training_data(toy_sets, caps={"plain": 10})


def _twins(data: TrainingData) -> TrainingTwins:
    return TrainingTwins(data.tools, np.eye(len(data.tools), dtype=np.float32))


def test_every_query_has_its_document_and_labels_agree(data: TrainingData) -> None:
    mixture = Mixture(queries=16, self_supervised=0.25, joined=0.3, extra_documents=4)
    for batch in islice(Batches(data, _twins(data), mixture, seed=1), 40):
        shape = (len(batch.queries), len(batch.documents))
        assert shape[0] == 16
        assert batch.positive.shape == batch.ignored.shape == shape
        assert batch.positive.any(1).all()
        assert not (batch.positive & batch.ignored).any()
        assert len(set(batch.documents)) == shape[1]


def test_a_request_points_at_its_own_tool(data: TrainingData) -> None:
    mixture = Mixture(queries=12, self_supervised=0.0, joined=0.0, extra_documents=0)
    answer = {
        request.text: {data.tools[tool].description for tool in request.relevant}
        for request in data.requests
        if request.source == "toy"
    }
    seen = 0
    for batch in islice(Batches(data, _twins(data), mixture, seed=2), 20):
        for query, row in zip(batch.queries, batch.positive, strict=True):
            if query in answer:
                seen += 1
                (document,) = (batch.documents[place] for place in np.flatnonzero(row))
                assert any(text.split(".")[0] in document for text in answer[query])
    assert seen > 50


def test_a_translation_is_set_against_its_english_wording_and_its_tool(data: TrainingData) -> None:
    """The wording is nobody else's document: not of others for the tool, nor a negative of them."""
    of_tool = [request for request in data.requests if len(request.relevant) == 1]
    english = of_tool[0]
    translated = replace(english, text="wirf das Lied weg", english="bin that tune")
    other = next(request for request in of_tool if request.relevant != english.relevant)
    three = replace(data, requests=(translated, english, other))

    def batch(share: float) -> TrainingBatch:
        mixture = Mixture(
            queries=3, self_supervised=0, joined=0, extra_documents=0, translated=share
        )
        return next(iter(Batches(three, _twins(data), mixture, seed=0)))

    assert "bin that tune" not in batch(0.0).documents
    found = batch(1.0)
    assert found.documents[-1] == "bin that tune"
    assert len(found.documents) == len(found.tools) + 1
    rows = [found.queries.index(request.text) for request in (translated, english, other)]
    own = found.tools.index(english.relevant[0])
    assert found.positive[rows[0]][[own, -1]].all()
    assert found.positive[rows[1], own]
    assert found.ignored[rows[1], -1]
    assert not found.positive[rows[1], -1]
    assert not found.ignored[rows[2], -1]


def test_a_batch_is_full_when_every_tool_has_a_request(data: TrainingData) -> None:
    first = next(request for request in data.requests if request.source == "toy")
    everything = tuple(
        replace(first, text=f"request {tool}", relevant=(tool,)) for tool in range(len(data.tools))
    )
    mixture = Mixture(queries=12, self_supervised=0.5, extra_documents=0, joined=0)
    batches = Batches(replace(data, requests=everything), _twins(data), mixture, seed=0)
    for batch in islice(batches, 20):
        assert len(batch.queries) == 12
        own = [text for text in batch.queries if not text.startswith("request ")]
        assert len(own) == 6
        assert len(batch.tools) == 12


def test_siblings_come_along(data: TrainingData) -> None:
    alone = Mixture(queries=4, sibling_group=0, neighbour_group=0, self_supervised=0)
    grouped = Mixture(queries=4, sibling_group=3, neighbour_group=0, self_supervised=0)

    def servers(mixture: Mixture) -> float:
        found = []
        for batch in islice(Batches(data, _twins(data), mixture, seed=3), 60):
            words = [word for text in batch.documents for word in ("mail", "music") if word in text]
            found.append(len(set(words)) / max(len(words), 1))
        return float(np.mean(found))

    assert servers(grouped) < servers(alone)


def test_what_also_serves_a_request_is_a_positive_where_it_is_shown(data: TrainingData) -> None:
    first = next(request for request in data.requests if request.source == "toy")
    other = next(
        request
        for request in data.requests
        if request.source == "toy" and request.relevant != first.relevant
    )
    two = replace(data, requests=(replace(first, also=other.relevant), other))
    mixture = Mixture(queries=2, self_supervised=0, joined=0, extra_documents=0)
    batch = next(iter(Batches(two, _twins(data), mixture, seed=0)))
    row, column = batch.queries.index(first.text), batch.tools.index(other.relevant[0])
    assert batch.positive[row].all()
    unlike = batch.queries.index(other.text)
    assert batch.positive[unlike].sum() == 1
    assert batch.positive[unlike, column]


def test_twins_of_the_answer_are_no_negatives(data: TrainingData) -> None:
    vectors = np.ones((len(data.tools), 2), dtype=np.float32) / np.sqrt(2)
    batch = next(
        iter(Batches(data, TrainingTwins(data.tools, vectors), Mixture(queries=16), seed=0))
    )
    servers = np.array(
        [
            next((s for s in ("mail", "calendar", "files", "music") if s in d), "")
            for d in batch.documents
        ]
    )
    negative = ~(batch.positive | batch.ignored)
    for row in range(len(batch.queries)):
        own = set(servers[batch.positive[row]])
        if own and "" not in own and len(own) == 1:
            assert set(servers[negative[row]]) <= own | {""}


def test_the_stream_is_its_seed(data: TrainingData) -> None:
    def texts(seed: int) -> list[tuple[str, ...]]:
        stream = Batches(data, _twins(data), Mixture(queries=8), seed=seed)
        return [batch.queries + batch.documents for batch in islice(stream, 5)]

    assert texts(4) == texts(4)
    assert texts(4) != texts(5)


def test_an_epoch_sees_every_request(data: TrainingData) -> None:
    mixture = Mixture(queries=8, self_supervised=0.0, joined=0.0)
    stream = Batches(data, _twins(data), mixture, seed=0)
    seen = {query for batch in islice(stream, 40) for query in batch.queries}
    assert {request.text for request in data.requests} <= seen
