"""The help of every command, as a terminal of 80 columns shows it."""

from __future__ import annotations

import re

import pytest
import typer.main

from shortlist import Config
from shortlist.cli.app import app
from shortlist.lab.commands.programs import PROGRAMS

COMMANDS = ["index", "search", "explain", "list", "learn", "calibrate", "demo"]
COMMANDS += ["import", "install", "trust init", "trust pin", "trust diff", "trust approve"]
COMMANDS += ["tax", "enrich", "doctor", "serve", "stats", "logs", "secret set", "eval", "eval xlam"]
COMMANDS += ["hook", "auth login", "auth logout", "auth status"]


def names(group: object = None, before: str = "") -> list[str]:
    """Every command and command of a command."""
    group = typer.main.get_command(app) if group is None else group
    found = []
    for name, command in getattr(group, "commands", {}).items():
        found += [f"{before}{name}", *names(command, f"{before}{name} ")]
    return found


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def test_every_command_of_this_page_exists():
    assert set(COMMANDS) <= set(names())


# Programs of the laboratory print a help of their own.
@pytest.mark.parametrize("command", [name for name in names() if name[4:] not in PROGRAMS])
def test_no_line_is_wider_than_the_terminal_and_no_flag_has_a_type(run, command):
    text = run(*command.split(), "--help").stdout
    assert max(map(len, text.splitlines())) <= 80
    assert "<bool>" not in text


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_has_a_name_for_its_value_and_a_help_text(run, command):
    text = run(*command.split(), "--help").stdout
    options = text.partition("\nOptions:\n")[2]
    assert not re.search(r"<[a-z]", options)
    assert not re.search(r"^  (-\S+( [A-Z|=\[\]]+)?,? ?)+$", options, re.MULTILINE)


@pytest.mark.parametrize("command", sorted({name.split()[0] for name in COMMANDS}))
def test_the_list_of_commands_shows_the_whole_first_sentence(run, command):
    [line] = re.findall(rf"^  {command} +(.*)$", run("--help").stdout, re.MULTILINE)
    assert line.endswith(".")
    assert not line.endswith("..")


def test_brackets_in_a_help_text_are_text(run):
    text = " ".join(run("calibrate", "--help").stdout.split())
    assert '{"query": ..., "relevant": [ids]}' in text


def test_calibrate_names_a_setting_that_exists(run):
    text = " ".join(run("calibrate", "--help").stdout.split())
    [setting] = re.findall(r"set `(\w+)` in the settings", text)
    assert setting in Config.model_fields


@pytest.mark.parametrize("command", COMMANDS)
def test_config_is_a_file_with_mcp_servers_in_every_command(run, command):
    """Settings of the search engine have an option of their own, `--engine-settings`."""
    options = " ".join(run(*command.split(), "--help").stdout.partition("\nOptions:\n")[2].split())
    if "--config FILE" in options:
        assert re.search(r"--config FILE [^-]*\b(MCP servers|gateway's servers)\b", options)
