from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.catalog import Tool
from shortlist.catalog.tool_document import embedding_text, tool_text
from shortlist.errors import EvaluationError
from shortlist.lab.training.data import (
    TrainingData,
    TrainingQuery,
    TrainingTool,
    capped,
    hold_out,
    read_rows,
    read_tool,
    read_training_data,
)


def test_reads_all_sets_and_drops_requests_without_a_tool(toy_sets: Path) -> None:
    data = read_training_data(toy_sets, caps={})
    assert data.counts() == {
        "plain": {"tools": 5, "requests": 50, "tools_requested": 5},
        "toy": {"tools": 32, "requests": 25, "tools_requested": 24},
    }
    asked = next(request for request in data.requests if request.text == "where is my song")
    (tool,) = (data.tools[index] for index in asked.relevant)
    assert tool.id == "toy:music/find_song"
    assert tool.text == (
        "find song (music): Find one song. Works in the music app. Parameters: song id"
    )


def test_written_requests_join_the_set_they_name(toy_sets: Path, tmp_path: Path) -> None:
    row = {"set": "toy", "query": "bin that tune", "relevant": ["music/delete_song"]}
    row["english"] = "delete the song"
    other = {"set": "elsewhere", "query": "x", "relevant": ["y"]}
    (tmp_path / "tools-a.jsonl").write_text(f"{json.dumps(row)}\n{json.dumps(other)}\n")
    before = read_training_data(toy_sets, written=None, caps={})
    after = read_training_data(toy_sets, written=tmp_path, caps={})
    (new,) = set(after.requests) - set(before.requests)
    assert (new.text, after.tools[new.relevant[0]].id) == ("bin that tune", "toy:music/delete_song")
    assert new.english == "delete the song"
    assert not any(request.english for request in before.requests)
    by_line = {**row, "query": "weg damit", "english_row": 1}
    (tmp_path / "tools-a.jsonl").write_text(json.dumps(by_line))
    (new,) = set(read_training_data(toy_sets, written=tmp_path, caps={}).requests) - set(
        before.requests
    )
    first = json.loads((toy_sets / "toy" / "queries.jsonl").read_text().splitlines()[0])
    assert new.english == first["query"]
    (tmp_path / "tools-a.jsonl").write_text(json.dumps({**by_line, "english_row": 10_000}))
    with pytest.raises(EvaluationError, match=r"tools-a\.jsonl:1: english_row 10000"):
        read_training_data(toy_sets, written=tmp_path)
    (tmp_path / "tools-a.jsonl").unlink()
    bad = {"set": "toy", "query": "x", "relevant": ["music/none"]}
    (tmp_path / "tools-b.jsonl").write_text(json.dumps(bad))
    with pytest.raises(EvaluationError, match=r"tools-b\.jsonl:1: no such tool"):
        read_training_data(toy_sets, written=tmp_path)


def test_judgements_tell_what_else_serves_and_what_is_unclear(
    toy_sets: Path, tmp_path: Path
) -> None:
    before = read_training_data(toy_sets, written=None, caps={})
    place = {tool.id: index for index, tool in enumerate(before.tools)}
    by_text = {request.text: request for request in before.requests}
    song, album = by_text["where is my song"], by_text["where is my album"]
    also = ["plain:t0", "toy:music/find_album", "elsewhere:gone"]
    rows = [{"request": song.key, "also": also}, {"request": album.key, "unclear": True}]
    (tmp_path / "judgements.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    translated = {"set": "toy", "query": "wo ist mein Lied", "relevant": ["music/find_song"]}
    translated["english"] = "where is  my song"
    (tmp_path / "tools-a.jsonl").write_text(json.dumps(translated))

    after = {r.text: r for r in read_training_data(toy_sets, written=tmp_path, caps={}).requests}
    assert "where is my album" not in after
    expected = (place["plain:t0"], place["toy:music/find_album"])
    assert after["where is my song"].also == expected
    assert after["wo ist mein Lied"].also == expected
    untouched = after.keys() - {"where is my song", "wo ist mein Lied"}
    assert {after[text] for text in untouched} == set(before.requests) - {song, album}


def test_what_is_held_out_serves_nothing_that_is_kept(toy_sets: Path) -> None:
    data = read_training_data(toy_sets, written=None, caps={})
    everything = tuple(range(len(data.tools)))
    generous = replace(
        data, requests=tuple(replace(request, also=everything) for request in data.requests)
    )
    kept, held = hold_out(generous, 0.4, by="server", seed=1)
    closed = {data.tools[tool].server for request in held.requests for tool in request.relevant}
    assert closed - {None}
    for request in kept.requests:
        assert request.also
        assert not closed & {data.tools[tool].server for tool in request.also} - {None}


def test_cap_keeps_every_tool_in_turn(toy_sets: Path) -> None:
    data = read_training_data(toy_sets, caps={"plain": 12}, seed=3)
    kept = Counter(request.relevant[0] for request in data.requests if request.source == "plain")
    assert sum(kept.values()) == 12
    assert set(kept.values()) == {2, 3}


@pytest.mark.no_cover
def test_cap_depends_on_its_seed_alone(toy_sets: Path) -> None:
    first = read_training_data(toy_sets, caps={"plain": 12}, seed=1)
    assert first == read_training_data(toy_sets, caps={"plain": 12}, seed=1)
    assert first != read_training_data(toy_sets, caps={"plain": 12}, seed=2)


@given(st.lists(st.integers(0, 6), max_size=60), st.integers(0, 80))
def test_capped_takes_what_it_says(tools: list[int], limit: int) -> None:
    requests = [TrainingQuery(str(i), (tool,), "", "s") for i, tool in enumerate(tools)]
    kept = capped(requests, limit, seed=0)
    assert len(kept) == min(limit, len(requests))
    assert len(set(kept)) == len(kept)
    assert set(kept) <= set(requests)


def test_missing_tool_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "tools.jsonl").write_text(json.dumps({"id": "a", "name": "a"}) + "\n")
    (tmp_path / "s" / "queries.jsonl").write_text(
        json.dumps({"query": "x", "relevant": ["a"]})
        + "\n"
        + json.dumps({"query": "y", "relevant": ["b"]})
        + "\n"
    )
    with pytest.raises(EvaluationError, match=r"queries\.jsonl:2.*s:b"):
        read_training_data(tmp_path)


@pytest.mark.parametrize("line", ["{", "[1]", "3"])
def test_bad_line_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": 1}\n' + line + "\n")
    with pytest.raises(EvaluationError, match=r"rows\.jsonl:2"):
        list(read_rows(path))


@pytest.mark.parametrize(
    ("file", "row", "lacking"),
    [
        ("tools.jsonl", {"name": "a"}, "id"),
        ("queries.jsonl", {"relevant": []}, "query"),
        ("queries.jsonl", {"query": "x"}, "relevant"),
    ],
)
def test_a_row_that_lacks_something_is_named(
    toy_sets: Path, tmp_path: Path, file: str, row: dict[str, object], lacking: str
) -> None:
    shutil.copytree(toy_sets / "toy", tmp_path / "toy")
    with (tmp_path / "toy" / file).open("a") as rows:
        rows.write(json.dumps(row) + "\n")
    with pytest.raises(EvaluationError, match=rf"{file}:\d+: lacks {lacking}"):
        read_training_data(tmp_path, written=None)


def test_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="no subfolder with a queries"):
        read_training_data(tmp_path)


@st.composite
def worlds(draw: st.DrawFn) -> TrainingData:
    servers = draw(st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=12))
    tools = tuple(
        TrainingTool(f"s:{i}", "s", server, f"t{i}", "") for i, server in enumerate(servers)
    )
    relevant = st.lists(st.integers(0, len(tools) - 1), min_size=1, max_size=3, unique=True)
    rows = draw(st.lists(relevant, max_size=20))
    requests = tuple(TrainingQuery(f"q{i}", tuple(row), "", "s") for i, row in enumerate(rows))
    return TrainingData(tools, requests)


@given(worlds(), st.floats(0, 1), st.sampled_from(["tool", "server"]), st.integers(0, 5))
def test_hold_out_shares_nothing(data: TrainingData, share: float, by: str, seed: int) -> None:
    kept, held = hold_out(data, share, by=by, seed=seed)  # type: ignore[arg-type]

    def keys(part: TrainingData) -> set[str]:
        tools = {data.tools[index] for request in part.requests for index in request.relevant}
        return {(t.server if by == "server" and t.server else t.id) for t in tools}

    assert not keys(kept) & keys(held)
    assert set(kept.requests) | set(held.requests) <= set(data.requests)
    if share == 0:
        assert kept == data
    if share == 1:
        assert held == data


def test_text_leaves_no_trace_of_what_is_absent() -> None:
    assert tool_text("getUser", None, "") == "get User"
    assert tool_text("", None, "Reads.", ("userId",)) == "Reads. Parameters: user Id"


@pytest.mark.parametrize("server", ["mail", None])
@pytest.mark.parametrize("description", ["Sends a letter.", ""])
@pytest.mark.parametrize("properties", [{}, {"toAddress": {"type": "string"}}])
def test_a_tool_reads_in_training_as_it_does_deployed(
    server: str | None, description: str, properties: dict[str, object]
) -> None:
    schema = {"type": "object", "properties": properties}
    row = {
        "id": "x",
        "name": "sendLetter",
        "server": server,
        "description": description,
        "input_schema": schema,
    }
    deployed = embedding_text(Tool("sendLetter", server, description, schema))
    assert read_tool(row, "s").text == deployed
