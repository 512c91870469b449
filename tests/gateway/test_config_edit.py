"""Edits change servers only, however the file is written."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.errors import ConfigError, MissingExtraError
from shortlist.gateway.clients.client_config import disable_server, read_client_config
from shortlist.gateway.clients.config_file import ConfigFile

PATH = Path("mcp.json")
ENTRY = {"command": "x", "args": ["é", "//"]}
NAMES = st.sampled_from(["a", "b", 'q"', "é", "shortlist", "// c"])
TABLES = st.dictionaries(NAMES, st.just({"command": "y", "env": {}}) | st.just({}))
KEYS = st.sampled_from([("mcpServers",), ("mcp", "servers")])


def edit(text, keys=("mcpServers",), remove=(), add=None, path=PATH):
    file = ConfigFile.parse(path, text.encode())
    return file.with_servers(keys, remove, {"new": ENTRY} if add is None else add).decode()


def edit_toml(text, remove, add):
    return edit(text, ("mcp_servers",), remove, add, Path("config.toml"))


@pytest.mark.parametrize(
    ("text", "edited"),
    [
        ("{}", '{\n  "mcpServers": {\n    "new": 1\n  }\n}'),
        ('{"mcpServers": {}}', '{"mcpServers": {\n  "new": 1\n}}'),
        ('{\n\t"mcpServers": {\n\t}\n}', '{\n\t"mcpServers": {\n\t\t"new": 1\n\t}\n}'),
        (
            '{\r\n "mcpServers": {\r\n  "a": 1\r\n }\r\n}',
            '{\r\n "mcpServers": {\r\n  "a": 1,\r\n  "new": 1\r\n }\r\n}',
        ),
        (
            '{"mcpServers": {\n  "a": 1, // one\n}}',
            '{"mcpServers": {\n  "a": 1,\n  "new": 1, // one\n}}',
        ),
        ('{"mcpServers": {"new": 2 /* old */}}', '{"mcpServers": {"new": 1 /* old */}}'),
    ],
)
def test_how_an_entry_is_added(text, edited):
    assert edit(text, add={"new": 1}) == edited


@st.composite
def files(draw) -> tuple[str, tuple[str, ...]]:
    """A file of random layout, with comments and trailing commas here and there."""
    keys = draw(KEYS)
    table = draw(TABLES)
    document: dict = {"other": [1, {"z": "// no comment"}], "last": None}
    document[keys[0]] = table if len(keys) == 1 else {"servers": table, "inputs": []}
    if draw(st.booleans()):
        del document[keys[0]]
    order = draw(st.permutations(sorted(document)))
    indent = draw(st.sampled_from([None, 1, 4, "\t"]))
    text = json.dumps({key: document[key] for key in order}, indent=indent, ensure_ascii=False)
    if draw(st.booleans()):
        text = "// top\n" + text.replace("[]", "[ /* none */ ]").replace("null", "null, // end\n")
        text = text.replace("// end\n,", ", // end\n").replace("null, ,", "null,")
    try:
        ConfigFile.parse(PATH, text.encode())
    except ConfigError:
        text = json.dumps(document)
    return text + draw(st.sampled_from(["", "\n", " \n\n"])), keys


@given(files(), st.sets(NAMES), st.dictionaries(NAMES, st.just(ENTRY)))
def test_any_file_can_be_edited(file, remove, add):
    text, keys = file
    edited = edit(text, keys, remove, add)
    before = ConfigFile.parse(PATH, text.encode())
    assert not before.loses_comments(edited.encode()) or before.comments
    values = ConfigFile.parse(PATH, edited.encode()).values
    for key in keys:
        values = values.get(key, {})
    assert add.items() <= values.items()
    assert not (remove - set(add)) & set(values)
    assert edit(edited, keys, remove, add) == edited


@given(TABLES, st.sets(NAMES), st.dictionaries(NAMES, st.just({"command": "x", "args": ["é"]})))
def test_any_toml_file_can_be_edited(table, remove, add):
    text = "# top\na = 1\n"
    for name in table:
        text += (
            f"\n# about it\n[mcp_servers.{json.dumps(name, ensure_ascii=False)}]\ncommand = 'y'\n"
        )
        text += f"[mcp_servers.{json.dumps(name, ensure_ascii=False)}.env]\nK = '[x]'\n"
    text += "\n[[list]]\nb = [\n  1,\n]\n"
    edited = edit_toml(text, remove, add)
    assert edited.startswith("# top\na = 1\n")
    assert "[[list]]\nb = [\n  1,\n]\n" in edited
    assert edited.count("# about it\n") == len(table)


@pytest.mark.parametrize(
    ("text", "edited"),
    [
        ("", "[mcp_servers.new]\nargs = [1]\n"),
        ("mcp_servers.a.args = [2]\n", "[mcp_servers.new]\nargs = [1]\n"),
        (
            "mcp_servers = {a = {}, b = {args = [2]}} # both\nx = 1\n",
            "mcp_servers = { b = {args = [2]},new = {args = [1]}} # both\nx = 1\n",
        ),
        (
            "[mcp_servers]\na = {}\nb.args = [2] # b\n",
            "[mcp_servers]\nb.args = [2] # b\n\n[mcp_servers.new]\nargs = [1]\n",
        ),
        (
            "[mcp_servers.a.env]\r\nK = '[x]'\r\n# about x\r\n[x]\r\n[mcp_servers.b]",
            "# about x\r\n[x]\r\n[mcp_servers.b]\r\n\r\n[mcp_servers.new]\r\nargs = [1]\r\n",
        ),
    ],
)
def test_how_a_server_of_a_toml_file_is_replaced(text, edited):
    assert edit_toml(text, ["a"], {"new": {"args": [1]}}) == edited


def test_the_tables_of_a_new_server_are_not_written_in_one_line():
    add = {"a b": {"command": "x", "env": {"K": "one\ntwo"}}}
    assert edit_toml("", (), add) == (
        '[mcp_servers."a b"]\ncommand = "x"\n\n[mcp_servers."a b".env]\nK = "one\\ntwo"\n'
    )


def test_without_the_library_no_toml_file_is_edited(monkeypatch):
    monkeypatch.setitem(sys.modules, "tomlkit", None)
    with pytest.raises(MissingExtraError, match=r"TOML.*gateway"):
        edit_toml("a = 1\n", (), {"new": {}})
    assert edit_toml("a = 1\n", ["new"], {}) == "a = 1\n"


def test_a_table_that_is_none_is_an_error():
    with pytest.raises(ConfigError, match=r"mcp.json: mcpServers: not a table of servers"):
        edit('{"mcpServers": []}')


@pytest.mark.parametrize(
    ("name", "text", "disabled_text"),
    [
        (
            "mcp.json",
            '{\n  // mine\n  "mcpServers": {\n    "one": {\n      "command": "x"\n    }\n  }\n}\n',
            '{\n  // mine\n  "mcpServers": {\n    "one": {\n      "command": "x",\n'
            '      "disabled": true\n    }\n  }\n}\n',
        ),
        (
            "opencode.json",
            '{"mcp": {"one": {\n  "type": "local",\n  "command": ["x"],\n  "enabled": true\n}}}',
            '{"mcp": {"one": {\n  "type": "local",\n  "command": ["x"],\n  "enabled": false\n}}}',
        ),
        (
            "config.toml",
            '[mcp_servers.one]\ncommand = "x"\n',
            '[mcp_servers.one]\ncommand = "x"\ndisabled = true\n',
        ),
    ],
)
def test_a_server_is_disabled_and_enabled_in_its_entry(tmp_path, name, text, disabled_text):
    path = tmp_path / name
    path.write_text(text)
    disable_server(path, "one", disabled=True)
    assert path.read_text() == disabled_text
    assert [spec.disabled for spec in read_client_config(path).servers] == [True]
    disable_server(path, "one", disabled=False)
    assert path.read_text() == text
    assert [each.name for each in tmp_path.iterdir()] == [name]
    with pytest.raises(ConfigError, match="no server two"):
        disable_server(path, "two", disabled=True)


def test_a_server_that_a_list_switches_off_is_not_enabled_in_vain(tmp_path):
    path = tmp_path / "settings.json"
    values = {"mcp": {"excluded": ["one"]}, "mcpServers": {"one": {"command": "x"}}}
    path.write_text(json.dumps(values))
    with pytest.raises(ConfigError, match="switches one off; change that list"):
        disable_server(path, "one", disabled=False)
