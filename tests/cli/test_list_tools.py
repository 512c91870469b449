from __future__ import annotations

from shortlist.catalog import Catalog


def test_every_tool_of_an_index_and_of_its_files(run, run_json, index, servers):
    listed = run_json("list", "--index", index)
    assert listed == run_json("list", "--tools", servers)
    catalog = Catalog.read(servers)
    assert listed["catalog"] == catalog.fingerprint
    assert [row["id"] for row in listed["tools"]] == [tool.id for tool in catalog]
    assert listed["tools"][0] == catalog[0].to_dict()
    text = run("list", "--index", index).stdout
    assert all(tool.id in text for tool in catalog)
    assert text.endswith("120 tools of 6 servers\n")


def test_the_tools_of_one_server(run, run_json, index):
    rows = run_json("list", "--index", index, "--server", "web")["tools"]
    assert len(rows) == 10
    assert {row["server"] for row in rows} == {"web"}
    assert "github" in run("list", "--index", index, "--server", "nope", code=2).stderr


def test_a_terminal_cuts_descriptions_before_ids(run, index, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    lines = run("list", "--index", index).stdout.splitlines()
    assert any(line.startswith("github/update_branch_protection ") for line in lines)
    assert max(map(len, lines)) <= 60


def test_no_tools(run, run_json, tools_file):
    path = tools_file()
    assert run_json("list", "--tools", path)["tools"] == []
    assert run("list", "--tools", path).stdout.endswith("0 tools of 0 servers\n")


def test_markup_and_escapes_in_a_definition_are_text(run, tools_file):
    path = tools_file({"name": "a[red]b", "description": "[bold]x[/bold] \x1b[2J :smile:"})
    text = run("list", "--tools", path, "--quarantined").stdout
    assert "a[red]b" in text
    assert "[bold]x[/bold]" in text
    assert ":smile:" in text
    assert "\x1b" not in text
