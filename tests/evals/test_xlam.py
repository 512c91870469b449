from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shortlist.errors import EvaluationError, MissingExtraError, ToolError
from shortlist.evals import xlam_protocol as xlam
from shortlist.evals import xlam_rows
from shortlist.evals.dataset import RowProblem
from shortlist.evals.xlam_functions import to_schema, tool_of_function
from shortlist.evals.xlam_rows import XlamRow, stream_rows


def function(name: str, description: str = "Does it") -> dict[str, Any]:
    parameters = {"city": {"description": "Where", "type": "str, optional", "default": "Oslo"}}
    return {"name": name, "description": description, "parameters": parameters}


def row(number: int, query: str, answers: list[str], tools: list[dict[str, Any]]) -> dict[str, Any]:
    calls = [{"name": name, "arguments": {}} for name in answers]
    return {
        "id": number,
        "query": query,
        "answers": json.dumps(calls),
        "tools": json.dumps(tools),
    }


def rows(count: int) -> list[dict[str, Any]]:
    """Rows with one to eight functions each, two words of the query naming the one called."""
    return [
        row(
            n,
            f'please verb{n} the noun{n}, it\'s "urgent" {{now}} [please]',
            [f"verb{n}_noun{n}"],
            [function(f"verb{n}_noun{n}", f"Acts on {n}")]
            + [function(f"other{n}_thing{m}") for m in range(n % 8)],
        )
        for n in range(count)
    ]


@pytest.fixture(params=["array", "indented", "lines", "parquet"])
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    def write(held: list[dict[str, Any]]) -> Path:
        path = tmp_path / "data"
        if request.param == "parquet":
            arrow = pytest.importorskip("pyarrow")
            parquet = pytest.importorskip("pyarrow.parquet")
            parquet.write_table(arrow.Table.from_pylist(held), path)
        elif request.param == "lines":
            path.write_text("".join(json.dumps(one) + "\n" for one in held))
        else:
            indent = 4 if request.param == "indented" else None
            path.write_text(json.dumps(held, indent=indent, ensure_ascii=False))
        return path

    return write


def test_every_published_form_reads_alike(written: Any) -> None:
    found = list(stream_rows(written(rows(9))))
    assert [one.number for one in found] == list(range(1, 10))
    first = found[0]
    assert isinstance(first, XlamRow)
    assert first.answers == ("verb0_noun0",)
    assert first.functions[0] == function("verb0_noun0", "Acts on 0")


BAD = [
    (row(0, "x", ["absent"], [function("there")]), "calls 'absent'"),
    (row(0, "x", [], [function("there")]), "no relevant function"),
    (row(1, "x", ["there"], [function("there")]), "an earlier row's"),
    (row(0, " ", ["there"], [function("there")]), "query: missing"),
    ({"id": 0, "query": "x", "answers": "[", "tools": "[]"}, "tools: not JSON|answers: not JSON"),
    ({"id": 0, "query": "x", "answers": "[]", "tools": "[" * 99_999}, "tools: not JSON"),
    ({"id": 0, "query": "x", "answers": "{}", "tools": "[]"}, "answers: must be a list"),
    ({"id": 0, "query": "x", "answers": "[1]", "tools": "[]"}, "an object with a name"),
    ({"id": 0, "query": "x", "answers": None, "tools": None}, "tools: must be a list"),
]


@pytest.mark.parametrize(("bad", "reason"), BAD)
def test_malformed_rows_are_reported_and_the_rest_kept(
    tmp_path: Path, bad: dict[str, Any], reason: str
) -> None:
    path = tmp_path / "data.jsonl"
    good = rows(3)[1:]
    path.write_text("\n".join(json.dumps(one) for one in [good[0], bad, good[1]]))
    kinds = list(stream_rows(path))
    assert [type(one) for one in kinds] == [XlamRow, RowProblem, XlamRow]
    assert kinds[1].row == 2  # type: ignore[union-attr]
    assert any(part in kinds[1].reason for part in reason.split("|"))  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ('[{"id": 1}, 7, "a}b"]', [RowProblem] * 3),
        ("[]", []),
        ('{"id": \n[1]\nnull', [RowProblem] * 3),
    ],
)
def test_broken_files_are_reported(tmp_path: Path, text: str, kinds: list[type]) -> None:
    path = tmp_path / "data.json"
    path.write_text(text)
    assert [type(one) for one in stream_rows(path)] == kinds


@pytest.mark.parametrize("text", ['[{"id": 1}', '[{"id": 1}, {"id": }]', "[" * 99_999])
def test_an_array_that_is_no_json_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "data.json"
    path.write_text(text)
    with pytest.raises(EvaluationError, match="not JSON"):
        list(stream_rows(path))


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=60) | st.text('[]{}",\\: 1a', max_size=40).map(str.encode))
def test_no_bytes_crash_the_reader(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "data"
    path.write_bytes(content)
    try:
        found = list(stream_rows(path))
    except EvaluationError:
        return
    assert all(isinstance(one, RowProblem) for one in found)


def test_files_that_are_not_there_empty_or_damaged(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="cannot be read"):
        list(stream_rows(tmp_path / "absent"))
    empty = tmp_path / "empty"
    empty.write_text(" \n")
    with pytest.raises(EvaluationError, match="empty"):
        list(stream_rows(empty))
    damaged = tmp_path / "damaged"
    damaged.write_bytes(b"PAR1 and no more")
    pytest.importorskip("pyarrow")
    with pytest.raises(EvaluationError, match="damaged parquet"):
        list(stream_rows(damaged))


def test_parquet_without_its_library_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = tmp_path / "data"
    path.write_bytes(b"PAR1")
    with pytest.raises(MissingExtraError, match=r"\[xlam\]"):
        list(stream_rows(path))


@pytest.mark.parametrize("error", ["GatedRepoError", "RepositoryNotFoundError", "OSError"])
def test_the_hub_without_access_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    hub = pytest.importorskip("huggingface_hub")

    def refuse(*args: object, **kwargs: object) -> None:
        kind = getattr(hub.errors, error, OSError)
        refusal = kind.__new__(kind)
        Exception.__init__(refusal, "refused")
        raise refusal

    monkeypatch.setattr(hub, "hf_hub_download", refuse)
    with pytest.raises(EvaluationError, match=r"Salesforce/xlam.*--data"):
        xlam_rows.download("token")


def stream(held: list[dict[str, Any]], folder: Path) -> Iterator[XlamRow | RowProblem]:
    path = folder / "data.jsonl"
    path.write_text("\n".join(json.dumps(one) for one in held))
    return stream_rows(path)


def test_pools(tmp_path: Path) -> None:
    data = xlam.prepare(stream(rows(80), tmp_path), sample=30, seed=1)
    sizes = {pool.name: pool for pool in data.pools}
    assert list(sizes) == ["2-5", "6-15", "50", "100", "200", "300", "all"]
    assert data.rows == 80
    for name, pool in sizes.items():
        assert 0 < len(pool.queries) <= 30
        for query in pool.queries:
            if query.pool is None:
                assert name == "all"
                continue
            assert set(query.relevant) <= set(query.pool)
            assert len(set(query.pool)) == len(query.pool)
            own = 1 + (query.row - 1) % 8
            if name in xlam.OWN_LIST_SIZES:
                assert len(query.pool) == own
                assert own in xlam.OWN_LIST_SIZES[name]
            else:
                assert len(query.pool) == int(name)
    asked = [query.row for query in sizes["50"].queries]
    assert asked == [query.row for query in sizes["all"].queries]
    for small, large in zip(sizes["50"].queries, sizes["300"].queries, strict=True):
        assert small.pool is not None
        assert large.pool is not None
        assert large.pool[: len(small.pool)] == small.pool


def test_draws_repeat_and_differ_by_seed(tmp_path: Path) -> None:
    once, again, other = (
        xlam.prepare(stream(rows(60), tmp_path), sample=10, seed=seed) for seed in (3, 3, 4)
    )
    assert once.pools == again.pools
    assert once.pools != other.pools


def test_identity_of_functions(tmp_path: Path) -> None:
    twin = function("Get", "  Fetches\na thing")
    reworded = twin | {"parameters": {"town": {"type": "int", "description": "Other"}}}
    held = [
        row(0, "one", ["Get"], [twin]),
        row(1, "two", ["get"], [reworded | {"name": "get", "description": "fetches a thing"}]),
        row(2, "three", ["Get"], [twin | {"description": "Fetches another"}]),
        row(3, "four", ["Get"], [twin, twin | {"description": "Fetches another"}]),
    ]
    held += [row(9, "pad", ["pad0"], [function(f"pad{n}") for n in range(60)])]
    data = xlam.prepare(stream(held, tmp_path))
    assert [tool.id for tool in data.catalog][:3] == ["Get", "Get~2", "pad0"]
    labels = {query.text: query.relevant for query in data.pools[-1].queries}
    assert labels["one"] == labels["two"] == ("Get",)
    assert labels["three"] == ("Get~2",)
    assert labels["four"] == ("Get", "Get~2")
    fifty = next(pool for pool in data.pools if pool.name == "50")
    for query in fifty.queries:
        if query.text == "one":
            assert query.pool is not None
            assert "Get~2" not in query.pool, "a namesake cannot be told from a right answer"


def test_functions_that_are_no_tools_are_reported(tmp_path: Path) -> None:
    bad = {"name": "bad", "description": "x", "parameters": {"a": "not an object"}}
    held = [row(0, "x", ["bad"], [bad]), *rows(3)[1:]]
    data = xlam.prepare(stream(held, tmp_path))
    assert [problem.row for problem in data.malformed] == [1]
    with pytest.raises(EvaluationError, match="no usable row among 1"):
        xlam.prepare(stream(held[:1], tmp_path))


def test_the_table_sets_published_beside_measured(tmp_path: Path, overlap_engine: Any) -> None:
    data = xlam.prepare(stream(rows(80), tmp_path), sample=20)
    outcomes = xlam.run(data, overlap_engine(data.catalog), ["lexical"])
    found = xlam.summaries(outcomes["lexical"])
    assert found["200+"].queries == 40
    assert found["50-200"].queries == 60
    table = xlam.table({"lexical": found})
    assert table.columns == (
        "hit@1 / hit@3", "2-5", "6-15", "50", "100", "200", "300", "all", "50-200", "200+"
    )  # fmt: skip
    shown = {cells[0]: cells[1:] for cells in table.rows}
    assert shown["BM25, published"] == (None,) * 8 + ("80.0 / 87.5",)
    assert shown["lexical"][-1] == "100.0 / 100.0"
    assert shown["rerank"] == ("not run",) * 9
    reranked = dict.fromkeys(("lexical", "rerank"), found)
    assert [cells[0] for cells in xlam.table(reranked).rows][4:] == ["lexical", "rerank", "queries"]
    assert "not run" not in xlam.table(reranked).rows[5]
    assert shown["queries"][-2:] == (60, 40)


@pytest.mark.parametrize(
    ("annotation", "schema", "optional"),
    [
        ("str", {"type": "string"}, False),
        ("int, optional", {"type": "integer"}, True),
        ("str, optional, default 'London'", {"type": "string"}, True),
        (
            "List[Union[int, float]]",
            {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "number"}]}},
            False,
        ),
        (
            "List[Tuple[float, float]]",
            {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
            False,
        ),
        ("Dict[str, Any]", {"type": "object"}, False),
        ("Callable[[float], float]", {"type": "string"}, False),
        ("set", {"type": "array", "uniqueItems": True}, False),
        ("Optional[int]", {"type": "integer"}, True),
        (
            "typing.List[str] | None",
            {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
            False,
        ),
        ("Any", {}, False),
        ("", {}, False),
        ("]][,", {}, False),
    ],
)
def test_python_annotations_become_json_schema(
    annotation: str, schema: dict[str, Any], optional: bool
) -> None:
    assert to_schema(annotation) == (schema, optional)


def test_a_deep_annotation_ends() -> None:
    assert to_schema("List[" * 5000)[0]["type"] == "array"


@pytest.mark.parametrize(("parameters", "field"), [(4, "parameters"), ({"y": 4}, "parameters.y")])
def test_a_function_that_is_none_names_the_field(parameters: Any, field: str) -> None:
    with pytest.raises(ToolError) as caught:
        tool_of_function({"name": "x", "parameters": parameters})
    assert caught.value.field == field
