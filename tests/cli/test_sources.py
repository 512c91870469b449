"""Where commands take tools from: several paths, indexes, standard input, a client's servers."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import shortlist
from shortlist import Catalog, Engine
from shortlist.cli.app import app
from shortlist.errors import CatalogError
from shortlist.gateway.clients.client_config import has_servers
from shortlist.tests.gateway.warm_python import warm

SERVER = str(Path(__file__).parent.parent / "gateway" / "everything_server.py")
SAMPLES = Path(SERVER).parent / "samples"
ROW = {"name": "show_log", "server": "git", "description": "Shows the log."}
LISTED = {"tools": [{"name": "a", "inputSchema": {"type": "object"}}]}


@pytest.fixture
def configuration(tmp_path, monkeypatch):
    """A client's file with a server that works and one that does not start."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = tmp_path / "mcp.json"
    good = {"command": sys.executable, "args": warm(SERVER, "sums")}
    path.write_text(
        json.dumps({"mcpServers": {"sums": good, "gone": {"command": str(tmp_path / "none")}}})
    )
    return path


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([ROW], indent=1),
        json.dumps(ROW),
        json.dumps(ROW) + "\n" + json.dumps({**ROW, "name": "show_diff"}) + "\n",
        "- name: show_log\n  server: git\n  description: Shows the log.\n",
    ],
)
def test_standard_input_is_read_in_every_form(text):
    result = CliRunner().invoke(app, ["list", "--tools", "-", "--json"], input=text)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["tools"][0]["id"] == "git/show_log"


@pytest.mark.parametrize("text", ["", "{", "[1", "nonsense: ["])
def test_standard_input_without_tools_is_an_error(text):
    result = CliRunner().invoke(app, ["list", "--tools", "-"], input=text)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: <stdin>: ")


def test_every_command_takes_several_paths_and_indexes(run, run_json, index, tools_file):
    tools = tools_file(ROW)
    found = run_json("tax", index, tools)
    assert found["tools"] == 121
    assert run_json("tax", index)["tools"] == 120
    assert len(run_json("list", "--tools", index, "--tools", tools)["tools"]) == 121


def test_the_servers_of_a_client_are_started_and_listed(run, run_json, configuration, tmp_path):
    listed = run_json("list", "--tools", configuration)["tools"]
    assert [tool["id"] for tool in listed] == [
        "sums/add_numbers",
        "sums/repeat_text",
        "sums/fail_on_purpose",
        "sums/end_process",
    ]
    told = run("index", configuration, "--out", tmp_path / "index")
    assert "starting its servers" in told.stderr
    assert "server 'gone': " in told.stderr
    assert len(Engine.open(tmp_path / "index").catalog) == 4


def test_a_client_none_of_whose_servers_starts_is_an_error(run, configuration):
    values = json.loads(configuration.read_text())
    del values["mcpServers"]["sums"]
    configuration.write_text(json.dumps(values))
    error = run("list", "--tools", configuration, code=1).stderr.splitlines()[-1]
    assert "mcp.json: no tools: server 'gone': " in error


@pytest.mark.parametrize("path", sorted(SAMPLES.iterdir()), ids=lambda path: path.name)
def test_the_file_of_every_known_client_is_recognised(path):
    assert has_servers(path)


def test_a_file_of_tools_is_no_configuration(servers):
    assert not any(map(has_servers, servers.glob("*.json")))


def test_a_broken_configuration_is_named_with_its_line(run, tmp_path):
    path = tmp_path / "mcp.json"
    path.write_text(
        '{\n  // mine\n  "mcpServers": {\n    "a": {"command": "x"}\n    "b": {}\n  }\n}'
    )
    error = run("list", "--tools", path, code=1).stderr
    assert "mcp.json:5:5: not JSON: expecting ',' delimiter" in error


def test_an_empty_catalog_is_not_indexed(run, tools_file, tmp_path):
    out = tmp_path / "index"
    assert "no tools to index" in run("index", tools_file(), "--out", out, code=1).stderr
    assert not out.exists()


def test_stray_files_do_not_stop_a_lenient_index(run, tmp_path):
    folder = tmp_path / "tools"
    folder.mkdir()
    (folder / "git.json").write_text(json.dumps([ROW]))
    (folder / "package.json").write_text('{"name": "mine", "description": "x", "version": "1"}')
    (folder / "broken.json").write_text("{")
    out = tmp_path / "index"
    paths = [(folder,), tuple(folder.iterdir())]
    for given in paths:
        told = run("index", *given, "--out", out, "--lenient").stderr
        assert "2 definitions left out" in told
        assert "package.json: file: not a known form of tools" in told
        assert [tool.id for tool in Engine.open(out).catalog] == ["git/show_log"]
    assert "package.json" in run("index", folder / "package.json", "--out", out, code=1).stderr


def test_the_wrong_format_is_an_error_and_drops_no_schema(run, tmp_path):
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps(LISTED))
    told = run("index", tools, "--format", "openai", "--out", tmp_path / "index", code=1).stderr
    assert "'a': parameters: is missing, but there is 'inputSchema': use format mcp" in told


def test_an_index_of_another_encoder_says_so_and_how_to_mend_it(
    run, run_json, tools_file, tmp_path
):
    out, config = tmp_path / "index", tmp_path / "config.toml"
    run("index", tools_file(ROW), "--out", out)
    config.write_text('encoder = "static"\n')
    told = " ".join(
        run("search", "log", "--index", out, "--engine-settings", config).stderr.split()
    )
    assert "every search encodes 1 tool again" in told
    command = told.partition("to keep them: ")[2].split()
    run(*command[1:])
    assert run("search", "log", "--index", out).stderr == ""
    assert run_json("search", "log", "--index", out)["hits"][0]["id"] == "git/show_log"


def test_the_code_of_the_page_reads_a_configuration(configuration, monkeypatch, capsys):
    monkeypatch.chdir(configuration.parent)
    page = Path(shortlist.__file__).parent / "docs" / "sources.md"
    [block] = re.findall(r"```python\n([^`]*read_configured_tools[^`]*)```", page.read_text())
    names = {"Engine": Engine}
    exec(block, names)
    assert len(names["configured"]().catalog) == 4
    assert "server 'gone': no program" in capsys.readouterr().out


def test_a_configuration_is_not_read_as_a_file_of_tools(configuration):
    with pytest.raises(CatalogError, match="read_configured_tools"):
        Catalog.read(configuration)
