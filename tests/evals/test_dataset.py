from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shortlist.catalog import Catalog, Tool
from shortlist.errors import EvaluationError
from shortlist.evals.dataset import conversation_text, read_queries

GOOD = {"query": "open an issue", "relevant": ["github/create_issue"], "style": "natural", "n": 3}


def written(folder: Path, *rows: object) -> Path:
    path = folder / "queries.jsonl"
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_ids_names_and_fields(tmp_path: Path, catalog: Catalog) -> None:
    path = written(tmp_path, GOOD, "", {"query": "read", "relevant": ["read_file"]})
    found = read_queries([path], catalog)
    assert found.malformed == ()
    first, second = found.queries
    assert first.relevant == ("github/create_issue",)
    assert first.fields == {"style": "natural", "n": "3"}
    assert (second.relevant, second.row, second.source) == (("disk/read_file",), 3, "queries.jsonl")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("{", "not JSON"),
        ("[1]", "must be an object"),
        ("[" * 100_000, "not JSON"),
        ({"query": " ", "relevant": []}, "query: missing or empty"),
        ({"query": "x"}, "relevant: must be a list"),
        ({"query": "x", "relevant": ["nothing"]}, "no tool has the id or name 'nothing'"),
        ({"query": "x", "relevant": ["send_message"]}, "slack/send_message, teams/send_message"),
        ({"query": "x", "relevant": [1]}, "relevant: must be a list"),
        ({"messages": "hi", "relevant": []}, "messages: must be a list"),
        ({"messages": [{"role": "user"}], "relevant": []}, "role and a content"),
        ({"messages": [{"role": "assistant", "content": "x"}], "relevant": []}, "from the user"),
    ],
)
def test_a_malformed_row_is_reported_and_the_rest_kept(
    tmp_path: Path, catalog: Catalog, row: object, reason: str
) -> None:
    found = read_queries([written(tmp_path, GOOD, row, GOOD)], catalog)
    assert len(found.queries) == 2
    (problem,) = found.malformed
    assert problem.row == 2
    assert problem.left_out
    assert reason in problem.reason
    assert "queries.jsonl, row 2" in str(problem)


def test_bytes_that_are_no_text(tmp_path: Path, catalog: Catalog) -> None:
    path = tmp_path / "queries.jsonl"
    path.write_bytes(b'{"query": "\xff", "relevant": []}\n' + json.dumps(GOOD).encode())
    found = read_queries([path], catalog)
    assert [problem.row for problem in found.malformed] == [1]
    assert len(found.queries) == 1


def test_a_repeated_id_is_repaired_and_reported(tmp_path: Path, catalog: Catalog) -> None:
    row = {"query": "read", "relevant": ["read_file", "disk/read_file"]}
    found = read_queries([written(tmp_path, row)], catalog)
    assert found.queries[0].relevant == ("disk/read_file",)
    assert [(one.left_out, "listed twice" in one.reason) for one in found.malformed] == [
        (False, True)
    ]


def test_a_row_id_that_comes_again_is_kept_and_reported(tmp_path: Path, catalog: Catalog) -> None:
    found = read_queries([written(tmp_path, GOOD | {"id": 7}, GOOD | {"id": 7}, GOOD)], catalog)
    assert len(found.queries) == 3
    assert [(one.row, one.left_out) for one in found.malformed] == [(2, False)]
    assert "row 1's too" in found.malformed[0].reason


def test_pools_count_only_when_asked_for(tmp_path: Path, catalog: Catalog) -> None:
    pooled = GOOD | {"pool": ["create_issue", "close_issue"]}
    outside = GOOD | {"pool": ["close_issue"]}
    path = written(tmp_path, pooled, GOOD, outside)
    assert [query.pool for query in read_queries([path], catalog).queries] == [None, None, None]
    found = read_queries([path], catalog, limit_to_pool=True)
    assert [query.pool for query in found.queries] == [
        ("github/create_issue", "github/close_issue")
    ]
    assert [problem.row for problem in found.malformed] == [2, 3]


def test_no_usable_row_is_an_error(tmp_path: Path, catalog: Catalog) -> None:
    with pytest.raises(EvaluationError, match="row 1: not JSON"):
        read_queries([written(tmp_path, "{")], catalog)
    with pytest.raises(EvaluationError, match="cannot be read"):
        read_queries([tmp_path / "absent"], catalog)


def test_a_conversation_asks_with_its_last_turn_first_and_bounded_context() -> None:
    turns = [
        {"role": "user", "content": "old " * 400},
        {"role": "assistant", "content": "recent"},
        {"role": "user", "content": "and now?"},
    ]
    text = conversation_text(turns)
    assert text.startswith("and now?\nrecent old")
    assert len(text) < 700


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
rows = st.dictionaries(
    st.sampled_from(["query", "messages", "relevant", "pool", "style"]), json_values
).map(json.dumps)


@settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.lists(rows | st.text(max_size=9).map(lambda text: text.replace("\n", " ")), max_size=4))
def test_every_row_is_kept_or_reported(tmp_path: Path, catalog: Catalog, lines: list[str]) -> None:
    path = tmp_path / "queries.jsonl"
    text = "\n".join([*lines, json.dumps(GOOD)])
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    found = read_queries([path], catalog, limit_to_pool=False)
    filled = [n for n, line in enumerate(path.read_bytes().split(b"\n"), 1) if line.strip()]
    dropped = [problem.row for problem in found.malformed if problem.left_out]
    assert sorted([*dropped, *(query.row for query in found.queries)]) == filled


def test_a_row_may_name_one_tool_instead_of_a_list(tmp_path: Path) -> None:
    catalog = Catalog([Tool("list_invoices", "billing")])
    path = tmp_path / "events.jsonl"
    path.write_text(
        '{"query": "what is due?", "tool": "list_invoices"}\n{"query": "x", "tool": 3}\n'
    )
    read = read_queries([path], catalog)
    assert [one.relevant for one in read.queries] == [("billing/list_invoices",)]
    assert [one.row for one in read.malformed] == [2]
