from __future__ import annotations

import json
from pathlib import Path

import pytest

from shortlist import demo
from shortlist.errors import EvaluationError
from shortlist.lab.bench.material import read_material, write_tools


def test_the_demo_stands_in_for_what_is_not_given() -> None:
    material = read_material([], [], sample=5)
    assert sorted(tool.id for tool in material.given) == sorted(
        tool.id for tool in demo.load_catalog()
    )
    assert len(material.queries) == 5
    assert material.catalog(120) == demo.load_catalog()
    assert material.synthetic(120) == 0
    assert material.synthetic(200) == 80
    assert len(material.catalog(200)) == 200


def test_files_are_read_drawn_by_seed_and_named(tmp_path: Path) -> None:
    tools = tmp_path / "tools.jsonl"
    write_tools(demo.load_catalog()[:60], tools)
    tools.write_text(tools.read_text() + '{"name": ""}\n')
    queries = tmp_path / "queries.jsonl"
    queries.write_text("".join(json.dumps({"query": f"request {n}"}) + "\n" for n in range(30)))
    material = read_material([tools], [queries], sample=10, seed=3)
    assert material.rejected == 1
    assert material.tools_from == (f"{tmp_path.name}/tools.jsonl",)
    assert len(material.given) == 60
    assert len(set(material.queries)) == 10
    assert material == read_material([tools], [queries], sample=10, seed=3)
    assert material.queries != read_material([tools], [queries], sample=10, seed=4).queries
    assert material.catalog(60)[:60] == material.given


@pytest.mark.parametrize("line", ["not json", "[]", "{}", '{"query": 3}'])
def test_a_bad_row_of_queries_is_named(tmp_path: Path, line: str) -> None:
    queries = tmp_path / "q.jsonl"
    queries.write_text('{"query": "fine"}\n' + line + "\n")
    with pytest.raises(EvaluationError, match=r"q\.jsonl: line 2"):
        read_material([], [queries], sample=5)


def test_no_queries_and_no_file_are_errors(tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    with pytest.raises(EvaluationError, match="no queries"):
        read_material([], [empty], sample=5)
    with pytest.raises(EvaluationError, match="cannot be read"):
        read_material([], [tmp_path / "absent.jsonl"], sample=5)
