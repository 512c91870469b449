"""read_tools: every format in the shapes it comes in, files, folders, and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shortlist import Engine, Gate, Rule, Tool
from shortlist.catalog import Catalog, Rejected, read_tools
from shortlist.catalog.readers import READERS
from shortlist.errors import CatalogError, ToolError
from shortlist.gating.condition import Scope

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
MCP = {"name": "forecast", "title": "Forecast", "description": "Weather", "inputSchema": SCHEMA}
FLAT = {"type": "function", "name": "forecast", "description": "Weather", "parameters": SCHEMA}
BARE = {"name": "forecast", "description": "Weather", "parameters": SCHEMA}
ANTHROPIC = {"name": "forecast", "description": "Weather", "input_schema": SCHEMA}
ROW = {"id": "w1", "server": "web", **ANTHROPIC}


@pytest.mark.parametrize(
    ("source", "form", "tool_id"),
    [
        ({"tools": [MCP]}, "mcp", "forecast"),
        ({"tools": [ANTHROPIC]}, "mcp", "forecast"),
        (
            {"jsonrpc": "2.0", "id": 1, "result": {"tools": [MCP], "nextCursor": "x"}},
            "mcp",
            "forecast",
        ),
        ({"server": "web", "serverInfo": {"name": "other"}, "tools": [MCP]}, "mcp", "web/forecast"),
        ({"serverInfo": {"name": "other"}, "tools": [MCP]}, "mcp", "other/forecast"),
        ([{"tools": [MCP]}, {"tools": []}], "mcp", "forecast"),
        ([{"server": "web", "tools": [MCP]}], "mcp", "web/forecast"),
        ({"web": {"tools": [MCP]}}, "mcp", "web/forecast"),
        ({"web": [MCP], "empty": []}, "mcp", "web/forecast"),
        ([MCP], "mcp", "forecast"),
        (MCP, "mcp", "forecast"),
        ([FLAT], "openai", "forecast"),
        ([{"type": "function", "function": BARE}], "openai", "forecast"),
        ({"type": "function", "function": BARE}, "openai", "forecast"),
        ({"model": "m", "tools": [{"type": "function", "function": BARE}]}, "openai", "forecast"),
        ({"functions": [BARE]}, "openai", "forecast"),
        ([BARE], "openai", "forecast"),
        ([ANTHROPIC], "anthropic", "forecast"),
        (ANTHROPIC, "anthropic", "forecast"),
        ({"model": "m", "messages": [], "tools": [ANTHROPIC]}, "anthropic", "forecast"),
        ([ROW], "jsonl", "web/forecast"),
    ],
)
def test_each_shape_is_recognised_and_read(source: Any, form: str, tool_id: str) -> None:
    result = read_tools(source)
    assert result.format == form
    assert result.rejected == ()
    (tool,) = result.tools
    assert tool.id == tool_id
    assert tool.description == "Weather"
    assert tool.parameters[0].name == "city"
    assert tool.parameters[0].required
    assert read_tools(source, format=form) == result


def test_an_mcp_definition_is_read_whole() -> None:
    definition = MCP | {"outputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
    (tool,) = read_tools([definition]).tools
    assert tool.to_mcp() == definition


@pytest.mark.parametrize(
    "source", [{"server": "web", "tools": [MCP]}, {"web": [MCP]}, [FLAT], [ANTHROPIC], MCP]
)
def test_the_server_asked_for_wins(source: Any) -> None:
    assert read_tools(source, server="mine").tools[0].id == "mine/forecast"


@pytest.mark.parametrize("keep_ids", [False, True])
def test_the_callers_server_wins_over_a_rows_server_and_id(keep_ids: bool) -> None:
    rows = [ROW, {"id": "github/free", "name": "free", "server": None}]
    read = read_tools(rows, server="mine", keep_ids=keep_ids).tools
    assert [(tool.id, tool.server) for tool in read] == [
        ("mine/forecast", "mine"),
        ("mine/free", "mine"),
    ]


def test_a_row_cannot_choose_its_id() -> None:
    row = {"id": "github/delete_repository", "server": "evil", "name": "free"}
    assert Catalog.read([row])[0].id == "evil/free"
    assert [tool.id for tool in Catalog.read([row, row | {"description": "two"}])] == [
        "evil/free",
        "evil/free~2",
    ]
    rules = Gate([Rule(Scope("never"), server="evil")])
    engine = Engine.from_tools(Catalog.read([row]), tiers=["lexical"], gate=rules)
    assert engine.search("free").ids == ()


def test_rows_of_files_of_ones_own_keep_their_ids_where_asked() -> None:
    rows = [ROW, {"id": "free", "name": "other", "server": None}]
    read = read_tools(rows, keep_ids=True).tools
    assert [(tool.id, tool.server) for tool in read] == [("w1", "web"), ("free", None)]


def test_in_a_map_of_servers_the_key_wins_over_what_a_server_says_of_itself() -> None:
    dump = {
        "evil": {"server": "github", "serverInfo": {"name": "github"}, "tools": [MCP]},
        "worse": {"server": "x", "result": {"server": "github", "tools": [MCP]}},
    }
    assert [tool.id for tool in read_tools(dump).tools] == ["evil/forecast", "worse/forecast"]


@pytest.mark.parametrize("first", [True, False])
def test_a_name_with_a_slash_never_takes_the_id_of_a_servers_tool(first: bool) -> None:
    real = Tool("list_repositories", "github")
    fake = Tool("github/list_repositories", description="not from github")
    other = Tool("other", "z")
    catalog = Catalog([fake, real, other] if first else [real, fake, other])
    assert catalog.get("github/list_repositories") == real
    assert catalog.get("github/list_repositories~2").description == "not from github"
    assert catalog[-1] == other
    assert Catalog([fake]).add([real]).get("github/list_repositories") == real


def test_nothing_is_no_tools() -> None:
    assert read_tools([]).tools == ()
    assert read_tools({"tools": []}).tools == ()


def test_files_may_have_marks_blank_lines_and_foreign_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "tools.jsonl"
    lines = [json.dumps(ROW), "", json.dumps(ROW | {"name": "w2"}), "  "]
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    assert [tool.name for tool in read_tools(path).tools] == ["forecast", "w2"]
    dump = tmp_path / "dump.json"
    dump.write_bytes(b"\xef\xbb\xbf" + json.dumps({"tools": [MCP]}).encode())
    assert read_tools(str(dump)).tools[0].id == "forecast"
    assert Catalog.read(dump, server="s")[0].id == "s/forecast"


def test_a_line_separator_inside_a_row_does_not_end_it(tmp_path: Path) -> None:
    path = tmp_path / "tools.jsonl"
    path.write_text(
        json.dumps(ROW | {"description": "a\u2028b"}, ensure_ascii=False), encoding="utf-8"
    )
    assert read_tools(path).tools[0].description == "a\nb"


def test_a_folder_is_read_file_by_file_each_its_own_server(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text(json.dumps({"tools": [MCP]}))
    (tmp_path / "a.yaml").write_text("server: named\ntools: [{name: forecast}]")
    (tmp_path / "c.jsonl").write_text(json.dumps(ROW))
    (tmp_path / "notes.txt").write_text("not read")
    result = read_tools(tmp_path)
    assert [tool.id for tool in result.tools] == ["named/forecast", "b/forecast", "web/forecast"]
    assert result.format == "mcp+jsonl"
    listed = read_tools([tmp_path / "b.json", str(tmp_path / "c.jsonl")])
    assert [tool.id for tool in listed.tools] == ["b/forecast", "web/forecast"]


def test_bad_definitions_are_named_and_the_good_ones_kept(tmp_path: Path) -> None:
    path = tmp_path / "tools.jsonl"
    bad = ROW | {"id": "bad", "input_schema": {"properties": {"x": {"default": float("nan")}}}}
    lines = [
        json.dumps(ROW),
        '{"id": ',
        "",
        json.dumps(bad),
        "[1]",
        json.dumps({"id": "x", "name": ""}),
    ]
    path.write_text("\n".join(lines))
    result = read_tools(path, strict=False)
    assert [tool.id for tool in result.tools] == ["web/forecast"]
    assert result.rejected == (
        Rejected(f"{path}: line 2", "line", "column 8: is not JSON: Expecting value"),
        Rejected(
            f"{path}: line 4",
            "input_schema.properties.x.default",
            "is nan, which JSON cannot hold",
            "forecast",
        ),
        Rejected(f"{path}: line 5", "definition", "must be an object, got list"),
        Rejected(f"{path}: line 6", "name", "is empty, or holds nothing visible"),
    )
    with pytest.raises(ToolError, match="line 2: line: column 8: is not JSON"):
        read_tools(path)
    with pytest.raises(ToolError) as caught:
        Catalog.read([ROW, bad])
    assert (caught.value.where, caught.value.tool) == ("[1]", "forecast")


@pytest.mark.parametrize(
    ("source", "where", "field"),
    [
        ({"tools": [MCP, {"description": "x"}]}, "tools[1]", "name"),
        ({"tools": [MCP, 3]}, "tools[1]", "definition"),
        ({"web": [MCP, MCP | {"inputSchema": []}]}, "web[1]", "input_schema"),
        ([{"tools": [MCP]}, {"tools": [{"name": 4}]}], "[1].tools[0]", "name"),
        ([FLAT, {"type": "web_search"}], "[1]", "type"),
        ([FLAT, {"type": "function", "function": 4}], "[1]", "function"),
        ([FLAT, {"type": "function"}], "[1]", "name"),
        ([ANTHROPIC, {"name": "x"}], "[1]", "input_schema"),
        ([ANTHROPIC, {"type": "bash_20250124", "name": "bash"}], "[1]", "type"),
        ([ROW, ROW | {"name": None}], "[1]", "name"),
    ],
)
def test_a_bad_definition_is_placed_by_index_and_field(source: Any, where: str, field: str) -> None:
    (rejected,) = read_tools(source, strict=False).rejected
    assert (rejected.where, rejected.field) == (where, field)
    with pytest.raises(ToolError) as caught:
        read_tools(source)
    assert (caught.value.where, caught.value.field) == (where, field)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.json", b"", "line 1, column 1: is not JSON"),
        ("a.json", b'{"tools": [}', "line 1, column 12: is not JSON"),
        ("a.json", b"[" * 100_000, "nested too deep"),
        ("a.json", b"[" + b"9" * 5000 + b"]", "not a known form"),
        ("a.json", b"\xff\xfe", "is not UTF-8 text"),
        ("a.json", b'"text"', "not a known form of tools"),
        ("a.json", b'{"a": 1}', "not a known form of tools"),
        ("a.yaml", b"", "is empty"),
        ("a.yaml", b"a: [", "is not YAML"),
        ("a.yaml", b"[" * 100_000, "nest(ed deeper than|ing depth)"),
        ("a.yaml", b"a: !!python/object:os.system x", "line 1: tag"),
        ("a.yaml", b"--- 1\n--- 2", "second document"),
        ("a.yaml", b"a: &x [*x]", "line 1: alias"),
        ("a.yaml", b"? [1]\n: 2", "line 1: a key must be text"),
        ("a.yaml", b"<<: {a: 1}", "merge keys"),
        ("a.yaml", b"a: !!set {b}", "line 1: tag"),
        ("a.yaml", b"a: " + b"9" * 5000, "not a known form"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(
    tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(CatalogError, match=reason) as caught:
        read_tools(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("no/such/file.json", "no/such/file.json: cannot be read"),
        ("nul\0.json", "cannot be read"),
        ("x" * 5000, "cannot be read"),
        (3, "got int"),
        (None, "got NoneType"),
        ("", "no file ending in|cannot be read"),
    ],
)
def test_a_source_that_is_none_says_why(
    source: Any, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CatalogError, match=reason):
        read_tools(source)


@pytest.mark.parametrize("form", [reader.name for reader in READERS])
def test_a_format_insisted_on_refuses_what_it_is_not(form: str) -> None:
    with pytest.raises(CatalogError):
        read_tools({"tools": 3, "paths": 3, "openapi": 3}, format=form)


def test_an_unknown_format_lists_the_known_ones() -> None:
    with pytest.raises(CatalogError, match="format 'csv': use auto, openapi, skills, jsonl"):
        read_tools([], format="csv")


YAML = """
tools:
- name: t
  inputSchema: &schema
    no: no
    date: 2020-01-01
    1: [0x1f, 0o17, -7, 1.5e3, ~, true]
    text: |
      a
      b
    quoted: '1'
    tagged: !!str 5
- name: u
  inputSchema: *schema
"""


def test_yaml_is_read_by_the_core_schema(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(YAML)
    first, second = read_tools(path).tools
    assert first.input_schema == second.input_schema
    assert first.input_schema == {
        "no": "no",
        "date": "2020-01-01",
        "1": [31, 15, -7, 1500.0, None, True],
        "text": "a\nb\n",
        "quoted": "1",
        "tagged": "5",
    }


def test_rows_of_mcp_keep_their_servers(tmp_path: Path) -> None:
    rows = [{"name": "log", "server": server, "inputSchema": {}} for server in ("git", "files")]
    path = tmp_path / "tools.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    assert [tool.id for tool in read_tools(path).tools] == ["git/log", "files/log"]
    assert [tool.id for tool in Catalog(rows)] == ["git/log", "files/log"]
    assert [tool.id for tool in read_tools(path, server="mine").tools] == ["mine/log"] * 2
