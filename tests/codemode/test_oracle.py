"""Our types accept what those of datamodel-code-generator accept, value by value."""

from __future__ import annotations

from itertools import islice

import pytest

from shortlist import Catalog, Tool
from shortlist.catalog import read_tools

from .oracle import compared, ours

TEXT = {"type": "string"}
ROW = {
    "type": "object",
    "properties": {"name": TEXT, "n": {"type": "integer"}},
    "required": ["name"],
}
SCHEMA = {
    "type": "object",
    "properties": {
        "state": {"enum": ["open", "closed"]},
        "rows": {"type": "array", "items": ROW},
        "table": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
        "x-y": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
    },
    "required": ["state", "rows"],
}


def _changed(**properties) -> dict:
    return {**SCHEMA, "properties": {**SCHEMA["properties"], **properties}}


def test_the_same_schema_gives_the_same_values():
    found = compared(ours(Tool("do", "srv", "Does it.", SCHEMA))[0], SCHEMA)
    assert found.whole
    assert found.values > 60
    assert found.strict == found.loose == []


@pytest.mark.parametrize(
    ("other", "strict", "loose"),
    [
        ({**SCHEMA, "required": ["state"]}, ".rows left out", None),
        ({**SCHEMA, "required": ["state", "rows", "table"]}, None, ".table left out"),
        (_changed(state={"enum": ["open", "closed", "new"]}), ".state = 'new'", None),
        (_changed(rows={"type": "array", "items": TEXT}), "whole", None),
        (
            _changed(rows={"type": "array", "items": {**ROW, "required": []}}),
            ".name left out",
            None,
        ),
        (_changed(table={"type": "array", "items": ROW}), "whole", ".table"),
    ],
)
def test_a_difference_is_found(other, strict, loose):
    found = compared(ours(Tool("do", "srv", "Does it.", SCHEMA))[0], other)
    for wanted, places in ((strict, found.strict), (loose, found.loose)):
        assert wanted is None or any(wanted in place for place in places), found


def _compared_all(tools) -> None:
    """No value is refused that the oracle accepts, and few are accepted that it refuses."""
    values = whole = documented = 0
    wrong = []
    for tool in tools:
        arguments, result = ours(tool)
        for accepts, schema in ((arguments, tool.input_schema), (result, tool.output_schema)):
            if accepts is None:
                continue
            found = compared(accepts, schema)
            values += found.values
            whole += found.whole
            documented += len(found.documented)
            wrong += [(tool.id, place) for place in (*found.strict, *found.loose)]
    assert wrong == []
    assert documented <= 0.02 * values
    assert whole >= 0.97 * len(tools)


@pytest.mark.no_cover
def test_stubs_of_real_servers_accept_what_the_oracle_accepts(shared_data):
    tools = []
    for path in sorted((shared_data / "mcp_dumps").glob("*.json")):
        tools += read_tools(path, server=path.stem).tools
    _compared_all(tools)


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        *("eval/livemcpbench", "eval/mcp_dev", "eval/poison", "train/mcp", "train/mcp_crawl"),
        *("train/metatool", "train/sealtools", "train/stabletoolbench", "train/toolrl"),
    ],
)
def test_stubs_of_a_sample_of_large_catalogs_accept_the_same(shared_data, name):
    catalog = Catalog.read(shared_data / name / "tools.jsonl")
    _compared_all(list(islice(catalog, 0, None, max(1, len(catalog) // 100))))
