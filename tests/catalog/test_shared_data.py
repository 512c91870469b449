"""Real tools: dumps of running servers, data sets and rows of thousands of definitions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shortlist.catalog import Catalog, Tool, read_tools

ROWS = {
    "eval/livemcpbench": 527,
    "eval/mcp_dev": 3_926,
    "train/mcp": 3_228,
    "train/mcp_crawl": 4_419,
    "train/sealtools": 4_076,
    "train/toolrl": 1_381,
    "train/metatool": 159,
    "train/stabletoolbench": 2_480,
}


def test_the_dumps_of_twelve_servers(shared_data: Path) -> None:
    result = read_tools(shared_data / "mcp_dumps")
    assert (len(result.tools), result.format, result.rejected) == (160, "mcp", ())
    catalog = Catalog(result.tools)
    assert catalog.collisions == ()
    assert len(catalog.servers) == 12
    assert catalog.get("filesystem/read_text_file").annotations
    assert all(tool.cleaned == () for tool in catalog)
    for path in (shared_data / "mcp_dumps").glob("*.json"):
        dump = json.loads(path.read_text(encoding="utf-8"))
        for entry in dump["tools"]:
            sent = catalog.get(f"{dump['server']}/{entry['name']}").to_mcp()
            assert {key: entry[key] for key in sent} == sent
            properties = entry["inputSchema"].get("properties", {})
            tops = [
                p.path
                for p in Tool.from_dict(
                    {"name": "t", "input_schema": sent["inputSchema"]}
                ).parameters
            ]
            assert set(properties) <= set(tops)


@pytest.mark.parametrize("folder", ROWS)
@pytest.mark.no_cover
def test_rows_of_data_sets_are_read_whole_and_round_trip(shared_data: Path, folder: str) -> None:
    path = shared_data / folder / "tools.jsonl"
    catalog = Catalog.read(path, keep_ids=True)
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    assert len(catalog) == len(rows) == ROWS[folder]
    assert [tool.id for tool in catalog] == [row["id"] for row in rows]
    for tool, row in zip(catalog, rows, strict=True):
        trimmed = {key: row[key] and row[key].strip() for key in ("name", "server")}
        if not tool.cleaned and "\\r" not in json.dumps(row):
            assert tool.to_dict() == row | trimmed
        assert Tool.from_dict(tool.to_dict()) == tool


def test_poisoned_definitions_are_read_and_stripped_of_what_is_hidden(shared_data: Path) -> None:
    result = read_tools(shared_data / "eval" / "poison" / "tools.jsonl")
    assert len(result.tools) == 392
    assert any("bidi" in note for tool in result.tools for note in tool.cleaned)
    assert len(Catalog(result.tools)) == 392 - sum(
        c.identical for c in Catalog(result.tools).collisions
    )
