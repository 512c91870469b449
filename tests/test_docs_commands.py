"""The commands that the pages show run, in a folder with the files that they name."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import shortlist
from shortlist.cli.app import app

DOCS = Path(shortlist.__file__).parent / "docs"
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
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


PAGES = [page for page in sorted(DOCS.glob("*.md")) if list(commands(page))]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that pages name, and a home with a client's configuration."""
    home = tmp_path / "home"
    work = tmp_path / "work"
    programs = tmp_path / "bin"
    for one in (home, work, programs):
        one.mkdir()
    servers = {"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}
    (home / ".claude.json").write_text(json.dumps(servers), encoding="utf-8")
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
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(home / name.lower()))
    monkeypatch.chdir(work)
    return work


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
    assert words[0] == "shortlist"
    words, out = (words[1:-2], words[-1]) if ">" in words else (words[1:], None)
    done = CliRunner().invoke(app, words, input="y\n")
    assert done.exit_code == 0, f"{words}: {done.output}"
    if out is not None:
        (folder / out).write_text(done.stdout, encoding="utf-8")


def test_pages_with_commands_are_found() -> None:
    assert {page.name for page in PAGES} >= {"quickstart.md", "evaluation.md", "gateway.md"}
