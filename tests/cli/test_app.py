from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import shortlist

COMMAND = [sys.executable, "-c", "from shortlist.cli import main; main()"]


def spawn(*arguments: object, **settings: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **settings,
    )


def test_version(run):
    assert run("--version").stdout == f"shortlist {shortlist.__version__}\n"


def test_help_names_every_command_and_the_exit_codes(run):
    text = " ".join(re.sub(r"\x1b\[[\d;]*m", "", run("--help").stdout).split())
    for command in ("index", "search", "explain", "list", "tax", "doctor", "demo", "eval", "lab"):
        assert f" {command} " in text
    for code in ("0 success", "1 error", "2 wrong usage", "3 a check failed", "130", "141"):
        assert code in text


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("nonsense",),
        ("search",),
        ("search", "x"),
        ("search", "x", "--index", "a", "--tools", "b"),
        ("search", "x", "--index", "a", "-k", "0"),
        ("search", "x", "--index", "a", "--budget-ms", "-1"),
        ("search", "x", "--index", "a", "--budget-ms", "nan"),
        ("search", "x", "--index", "{index}", "--tier", "nonsense"),
        ("explain", "x", "--index", "a"),
        ("list",),
        ("doctor", "--index", "a", "--tools", "b"),
        ("index", "tools.json"),
        ("index", "tools.json", "--out", "a", "--format", "nonsense"),
        ("tax", "tools.json", "--encoding", "nonsense"),
        ("install", "--client", "nonsense"),
        ("import", "--client", "nonsense"),
        ("search", "x", "--index", "{index}", "--scope", ""),
    ],
)
def test_wrong_usage_is_exit_code_2_and_says_nothing_on_stdout(run, index, arguments):
    result = run(*(argument.format(index=index) for argument in arguments), code=2)
    assert result.stdout == "" or not arguments


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("search", "x", "--index", "{tmp}"), "not a saved index"),
        (("list", "--tools", "{tmp}/none.json"), "none.json: cannot be read"),
        (("tax", "{tmp}/none.json"), "none.json: cannot be read"),
        (("search", "x", "--index", "{tmp}", "--engine-settings", "{tmp}/none.toml"), "none.toml"),
        (("index", "{tmp}/none.json", "--out", "{tmp}/out"), "none.json: cannot be read"),
    ],
)
def test_an_error_is_one_line_on_stderr_and_exit_code_1(run, tmp_path, arguments, said):
    result = run(*(argument.format(tmp=tmp_path) for argument in arguments), code=1)
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert said in result.stderr


def test_an_interrupt_ends_a_command_with_130_and_no_word(run, monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("shortlist.cli.list_tools.read_catalog_and_quarantined", interrupted)
    assert run("list", "--tools", "x.json", code=130).output == ""


@pytest.mark.skipif(os.name == "nt", reason="needs signals")
def test_an_interrupt_in_a_real_process_leaves_no_traceback():
    code = (
        "import sys, time, shortlist.cli.list_tools as command\n"
        "def reads(*_):\n"
        "    print('reading', flush=True)\n"
        "    time.sleep(60)\n"
        "command.read_catalog_and_quarantined = reads\n"
        "from shortlist.cli import main; main()\n"
    )
    # What a shell runs in the background ignores interrupts, and so would its children.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", code, "list", "--tools", "x.json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    assert process.stdout is not None
    assert process.stdout.readline() == b"reading\n"
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=30)
    assert (process.returncode, stdout, stderr) == (130, b"", b"")


@pytest.mark.parametrize("form", [["--json"], []])
def test_a_reader_that_goes_away_leaves_no_traceback(servers, form):
    process = spawn("list", "--tools", servers, *form)
    process.stdout.close()
    stderr = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=30) == 141
    assert stderr == b""


def test_help_loads_nothing_heavy():
    code = (
        "import sys; sys.argv = ['shortlist', '--help']\n"
        "from shortlist.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "import json; print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=30)
    loaded = set(json.loads(ran.stderr))
    heavy = {"numpy", "onnxruntime", "pydantic", "tantivy", "tiktoken", "tokenizers", "yaml"}
    assert not loaded & heavy


def test_bytes_that_are_no_text_reach_the_engine_and_come_back_as_json(index):
    arguments = [*COMMAND, "search", b"schedule \xff a message", "--index", str(index), "--json"]
    ran = subprocess.run(arguments, capture_output=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["query"] == "schedule \udcff a message"


def test_a_terminal_of_few_letters_is_served(index, tmp_path: Path):
    tools = tmp_path / "tools.jsonl"
    row = {"name": "übersetzen", "server": "日本", "description": "Text übersetzen. \u2713"}
    tools.write_text(json.dumps(row), encoding="utf-8")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    ran = subprocess.run(
        [*COMMAND, "list", "--tools", str(tools)], capture_output=True, env=environment, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    assert b"\\xfcbersetzen" in ran.stdout
