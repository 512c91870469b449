"""The commands that the pages show run.

A newcomer's pages run from an empty folder, with all their code in order. The others run in a
folder with the files that they name.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

import shortlist
from shortlist.cli.app import app

ROOT = Path(shortlist.__file__).parent
DOCS = ROOT / "docs"
#: Pages that need no file that they do not make.
FROM_NOTHING = [ROOT / "README.md", DOCS / "quickstart.md", DOCS / "gateway.md"]
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"^```(sh|python|console)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_PYTHON = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_INVOICES = {"type": "object", "properties": {"status": {"type": "string"}}}
_TOOLS = [
    {"server": "billing", "name": name, "description": about, "input_schema": _INVOICES}
    for name, about in (
        ("list_invoices", "List invoices, such as those that are overdue"),
        ("list_customers", "List the customers that get invoices"),
        ("delete_draft", "Delete the draft of an invoice"),
    )
]
#: Tools of the servers of the client that a newcomer has.
_SERVERS = {
    "billing": [
        {"name": name, "description": about, "inputSchema": {"type": "object"}}
        for name, about in (
            ("list_invoices", "List invoices, such as those that are overdue"),
            ("list_customers", "List the customers that get invoices"),
        )
    ],
    "git": [
        {"name": "git_log", "description": "Shows the commits", "inputSchema": {"type": "object"}}
    ],
}
_QUERIES = [
    {"query": "which invoices are overdue?", "relevant": ["billing/list_invoices"]},
    {"query": "who gets invoices from us?", "relevant": ["billing/list_customers"]},
]
#: Answers a prompt for queries with JSON, any other with a line.
_MODEL = """#!/bin/sh
if grep -q JSON; then
  echo '[{"number": 1, "requests": ["who owes us money?"]},
         {"number": 2, "requests": ["who do we send bills to?"]},
         {"number": 3, "requests": ["throw the unfinished bill away"]}]'
else
  echo 'Works on invoices'
fi
"""


def commands(page: Path) -> Iterator[list[str]]:
    """The words of each command in the `sh` blocks of a page."""
    for block in _BLOCK.findall(page.read_text(encoding="utf-8")):
        for line in block.splitlines():
            if words := shlex.split(line, comments=True):
                yield words


PAGES = [
    page for page in sorted(DOCS.glob("*.md")) if page not in FROM_NOTHING and list(commands(page))
]


class ScriptedOpenAI:
    """A client whose model calls a tool once, and answers with its result."""

    def __init__(self) -> None:
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self._create))

    def _create(self, *, model: str, messages: list[Any], tools: list[Any]) -> SimpleNamespace:
        names = [tool["function"]["name"] for tool in tools]
        if messages[-1]["role"] == "tool":
            message = {"role": "assistant", "content": f"Overdue: {messages[-1]['content']}"}
        else:
            assert "billing__list_invoices" in names
            call = {"name": "billing__list_invoices", "arguments": '{"status": "overdue"}'}
            asked = {"id": "call_1", "type": "function", "function": call}
            message = {"role": "assistant", "content": None, "tool_calls": [asked]}
        dumped = {"choices": [{"message": message}]}
        choice = SimpleNamespace(message=SimpleNamespace(**message))
        return SimpleNamespace(choices=[choice], model_dump=lambda **_: dumped)


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, and a home with the configuration of a client that has two servers."""
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    servers = {}
    for name, tools in _SERVERS.items():
        listing = home / f"{name}.json"
        listing.write_text(json.dumps({"tools": tools}), encoding="utf-8")
        program = ROOT / "tests" / "gateway" / "scripted_server.py"
        servers[name] = {"command": sys.executable, "args": [str(program), str(listing)]}
    (home / ".claude.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(home / name.lower()))
    monkeypatch.chdir(work)
    return work


@pytest.fixture
def folder(empty_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that pages name."""
    work, programs = empty_folder, tmp_path / "bin"
    programs.mkdir()
    (work / "tools.json").write_text(json.dumps(_TOOLS), encoding="utf-8")
    rows = {
        "tools.jsonl": _TOOLS,
        "queries.jsonl": [{**row, "style": "natural"} for row in _QUERIES],
        "small_talk.jsonl": [{"query": "thanks, good night!", "relevant": []}],
    }
    for name, lines in rows.items():
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (work / name).write_text(text, encoding="utf-8")
    by_hand = {"billing/delete_draft": "Throw a draft away"}
    (work / "by-hand.json").write_text(json.dumps(by_hand), encoding="utf-8")
    model = programs / "llm"
    model.write_text(_MODEL, encoding="utf-8")
    model.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    return work


@pytest.mark.parametrize("page", FROM_NOTHING, ids=lambda page: page.name)
def test_all_code_of_a_newcomers_page_runs_in_order(
    page: Path, empty_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mcp")
    monkeypatch.setitem(sys.modules, "openai", SimpleNamespace(OpenAI=ScriptedOpenAI))
    names: dict[str, Any] = {}
    for language, block in _CODE.findall(page.read_text(encoding="utf-8")):
        if language == "python":
            exec(compile(block, page.name, "exec"), names)
            continue
        for line in block.splitlines():
            line = line.removeprefix("$ ") if language == "sh" or line[:2] == "$ " else ""
            if words := shlex.split(line, comments=True):
                run(words, empty_folder)
    if page.name == "README.md":
        assert names["session"].state.called == ("billing/list_invoices",)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_run(page: Path, folder: Path) -> None:
    if page.name == "deciding.md":
        run(["shortlist", "index", "tools.json", "--out", "index/"], folder)
    if page.name == "evaluation.md":
        exec(compile("\n".join(_PYTHON.findall(page.read_text())), page.name, "exec"), {})
    for words in commands(page):
        run(words, folder)


def run(words: list[str], folder: Path) -> None:
    """Run one command; `> FILE` at its end keeps what it writes to stdout."""
    if words[0] == "echo":
        (folder / words[-1]).write_text(words[1], encoding="utf-8")
        return
    assert words[0] == "shortlist"
    words, out = (words[1:-2], words[-1]) if ">" in words else (words[1:], None)
    done = CliRunner().invoke(app, words, input="y\n")
    assert done.exit_code == 0, f"{words}: {done.output}"
    if out is not None:
        (folder / out).write_text(done.stdout, encoding="utf-8")


def test_pages_with_commands_are_found() -> None:
    assert {page.name for page in PAGES} >= {"enrichment.md", "evaluation.md"}
