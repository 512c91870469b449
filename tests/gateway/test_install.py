"""`shortlist install`: previewed, backed up, written, undone, for every client."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import stat
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from shortlist.cli.app import app
from shortlist.errors import ConfigError
from shortlist.gateway.clients.client_config import read_client_config, table_at
from shortlist.gateway.clients.config_file import ConfigFile
from shortlist.gateway.clients.installation import plan_install
from shortlist.gateway.clients.known_clients import CLIENTS, Client, gateway_command
from shortlist.gateway.upstream.first_use import default_pins

SAMPLES = Path(__file__).parent / "samples"
OF_CLIENT = {
    "claude-desktop": "claude_desktop_config.json",
    "claude-code": "claude_code.mcp.json",
    "cursor": "cursor.mcp.json",
    "vscode": "vscode_mcp.json",
    "copilot-cli": "copilot_mcp-config.json",
    "gemini": "gemini_settings.json",
    "windsurf": "windsurf_mcp_config.json",
    "cline": "cline_mcp_settings.json",
    "zed": "zed_settings.json",
    "opencode": "opencode.jsonc",
    "opencode-2": "opencode_2.jsonc",
    "codex": "codex_config.toml",
}


def run(*arguments: object, code: int = 0, answer: str | None = None) -> Result:
    result = CliRunner().invoke(app, [str(one) for one in arguments], input=answer)
    assert result.exit_code == code, result.output
    return result


def put(home: Path, client: Client) -> Path:
    """The client's sample at its place below a home directory."""
    name = OF_CLIENT[client.name]
    file = client.paths(home)[-1 if name.endswith(".jsonc") else 0]
    file.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(SAMPLES / name, file)
    return file


def values(file: Path) -> Any:
    return ConfigFile.read(file).values


def table(file: Path) -> Any:
    return table_at(values(file), read_client_config(file, expand=False).table_keys)


@pytest.mark.parametrize("name", OF_CLIENT)
def test_in_place_of_the_others_and_back(tmp_path, name):
    client, config = CLIENTS[name], tmp_path / "mcp.json"
    file = put(tmp_path, client)
    original = file.read_bytes()
    specs = read_client_config(file, home=tmp_path, expand=False).servers

    shown = run("install", "--client", name, "--config", config, "--home", tmp_path, "--yes")
    assert "SECRET" not in shown.output
    gateway = table(file)["shortlist"]
    assert str(config) in json.dumps(gateway)
    assert all(gateway[flag] == value for flag, value in client.entry_keys.items())
    assert set(table(file)) - {"shortlist"} <= {"extension-server"}
    moved = read_client_config(config, home=tmp_path, expand=False)
    assert moved.servers == specs
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    before, after = ConfigFile.parse(file, original).values, values(file)
    assert {**before, client.table_keys[0]: 0} == {**after, client.table_keys[0]: 0}
    again = run("install", "--client", name, "--config", config, "--home", tmp_path)
    assert "nothing to change" in again.output

    undone = run("install", "--client", name, "--home", tmp_path, "--undo", "--yes")
    assert "SECRET" not in undone.output
    assert file.read_bytes() == original
    assert not list(file.parent.glob("*backup*"))
    run("install", "--client", name, "--home", tmp_path, "--undo", "--yes", code=1)


@pytest.mark.parametrize("name", OF_CLIENT)
def test_beside_the_others(tmp_path, name):
    client, config = CLIENTS[name], tmp_path / "mcp.json"
    config.write_text('{"mcpServers": {}}')
    file = put(tmp_path, client)
    before, names = file.read_text("utf-8"), set(table(file))
    run("install", "--client", name, "--config", config, "--home", tmp_path, "--beside", "--yes")
    after = file.read_text("utf-8")
    assert set(table(file)) == {*names, "shortlist"}
    kept = [line.rstrip(", ") for line in after.splitlines()]
    assert all(line.rstrip(", ") in kept for line in before.splitlines())
    assert config.read_text() == '{"mcpServers": {}}'


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_without_a_file(tmp_path, name):
    file = CLIENTS[name].path(tmp_path)
    arguments = ("install", "--client", name, "--config", tmp_path / "m.json", "--home", tmp_path)
    run(*arguments, "--yes")
    assert list(table(file)) == ["shortlist"]
    assert values(tmp_path / "m.json") == {"mcpServers": {}}
    run("install", "--client", name, "--home", tmp_path, "--undo", "--yes")
    assert not file.exists()


def test_clients_wait_for_the_gateway_and_keep_its_tools_loaded(tmp_path):
    entries = {name: client.gateway_entry(tmp_path) for name, client in CLIENTS.items()}
    assert entries["codex"]["required"] is True
    assert entries["codex"]["startup_timeout_sec"] == 60
    assert entries["claude-code"]["alwaysLoad"] is True
    assert entries["copilot-cli"]["deferTools"] == "never"
    assert (entries["opencode"]["enabled"], entries["opencode"]["timeout"]) == (True, 60_000)
    assert CLIENTS["opencode-2"].table_keys == ("mcp", "servers")
    assert "enabled" not in entries["opencode-2"]
    assert entries["opencode-2"]["codemode"] is entries["opencode-2"]["disabled"] is False


def test_a_command_that_is_not_on_path_is_written_with_its_path(tmp_path, monkeypatch):
    program = tmp_path / "venv" / "shortlist"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(sysconfig, "get_path", lambda *_: str(program.parent))
    (tmp_path / "bin").mkdir()
    # A virtual environment is on the PATH of this shell only.
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{tmp_path / 'bin'}")
    assert gateway_command() == str(program)
    entry = CLIENTS["opencode"].gateway_entry(tmp_path)
    assert entry["command"][0] == CLIENTS["cursor"].gateway_entry(tmp_path)["command"]
    assert entry["command"][0] == str(program)
    (tmp_path / "bin" / "shortlist").symlink_to(program)
    assert gateway_command() == "shortlist"


def test_an_other_program_of_this_name_is_not_written(tmp_path, monkeypatch):
    other = tmp_path / "shortlist"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gateway_command() == str(Path(sys.executable).with_name("shortlist"))


def test_hooks_are_set_beside_others_and_removed_by_the_undo(tmp_path):
    settings, config = tmp_path / ".claude" / "settings.json", tmp_path / "mcp.json"
    settings.parent.mkdir()
    other = {"matcher": "Bash", "hooks": [{"type": "command", "command": "check --secret s3"}]}
    before = {"permissions": {"allow": ["mcp__github"]}, "hooks": {"PreToolUse": [other]}}
    settings.write_text(json.dumps(before))
    command = ("install", "--client", "claude-code", "--config", config, "--home", tmp_path)
    shown = run(*command, "--hook", "--yes").output
    assert "sets the hooks PreToolUse, UserPromptSubmit" in " ".join(shown.split())
    assert "s3" not in shown
    hooks = values(settings)["hooks"]
    assert hooks["PreToolUse"][0] == other
    commands = [rows[-1]["hooks"][0]["command"] for rows in hooks.values()]
    program = shlex.quote(gateway_command())
    assert commands == [f"{program} hook", f"{program} hook prompt --config {config}"]
    assert hooks["PreToolUse"][1]["matcher"] == "mcp__shortlist__.*"
    assert "nothing to change" in run(*command, "--hook", "--yes").output
    run(*command, "--undo", "--yes")
    assert values(settings) == before
    refused = run("install", "--client", "cursor", "--hook", "--home", tmp_path, code=1)
    assert "Claude Code only" in refused.output


def test_it_asks_first(tmp_path):
    file = put(tmp_path, CLIENTS["cursor"])
    before = file.read_bytes()
    arguments = ("install", "--client", "cursor", "--config", tmp_path / "m", "--home", tmp_path)
    assert '+    "shortlist": {' in run(*arguments, answer="n\n", code=1).output
    assert file.read_bytes() == before
    assert not (tmp_path / "m").exists()
    run(*arguments, answer="y\n")
    assert file.read_bytes() != before


def test_comments_that_stay_and_comments_that_are_lost(tmp_path):
    arguments = ("install", "--config", tmp_path / "m.json", "--home", tmp_path, "--yes")
    zed = put(tmp_path, CLIENTS["zed"])
    assert "has comments; they stay" in run(*arguments, "--client", "zed").output
    assert "// points" in zed.read_text()
    assert "// Zed settings" in zed.read_text()
    code = put(tmp_path, CLIENTS["vscode"])
    assert "comments beside the servers are lost" in run(*arguments, "--client", "vscode").output
    assert "/* remote */" in Path(f"{code}.shortlist-backup").read_text()


def test_codex_keeps_the_rest_of_its_file(tmp_path):
    file = put(tmp_path, CLIENTS["codex"])
    run("install", "--client", "codex", "--config", tmp_path / "m.json", "--home", tmp_path, "-y")
    text = file.read_text()
    assert text.startswith('model = "gpt-5.5"\n\n# documentation\n')
    assert '[profiles.deep]\nmodel = "gpt-5.5-pro"\n' in text
    assert "context7]" not in text


@pytest.mark.parametrize(
    "text",
    [
        'mcp_servers = { a = { command = "x" } }\n',
        'mcp_servers.a.command = "x"\n',
        '[mcp_servers]\na = { command = "x" }\n',
        '[mcp_servers.a]\ncommand = """\n[other]\n"""\n',
    ],
)
def test_a_toml_file_is_edited_however_it_is_written(tmp_path, text):
    file = CLIENTS["codex"].path(tmp_path)
    file.parent.mkdir()
    file.write_text(text + "[last] # kept\n")
    config = tmp_path / "m.json"
    run("install", "--client", "codex", "--config", config, "--home", tmp_path, "--yes")
    assert list(values(file)["mcp_servers"]) == ["shortlist"]
    assert list(values(config)["mcpServers"]) == ["a"]
    assert "[last] # kept\n" in file.read_text()
    run("install", "--client", "codex", "--home", tmp_path, "--undo", "--yes")
    assert file.read_text() == text + "[last] # kept\n"


def test_a_file_whose_edit_has_other_values_is_not_written(tmp_path, monkeypatch):
    file = CLIENTS["codex"].path(tmp_path)
    file.parent.mkdir()
    file.write_text("[mcp_servers.a]\ncommand = 'x'\n")
    monkeypatch.setattr("tomlkit.dumps", lambda _: "[other]\n")
    config = tmp_path / "m.json"
    shown = run(
        "install", "--client", "codex", "--config", config, "--home", tmp_path, "--yes", code=1
    )
    assert "make the change by hand" in shown.output
    assert file.read_text() == "[mcp_servers.a]\ncommand = 'x'\n"
    assert not config.exists()


def test_servers_of_one_name_are_both_kept(tmp_path):
    config = tmp_path / "m.json"
    config.write_text(
        '{"mcpServers": {"github": {"command": "other"}}, // mine\n "shortlist": {"code": true}}'
    )
    put(tmp_path, CLIENTS["claude-desktop"])
    run("install", "--client", "claude-desktop", "--config", config, "--home", tmp_path, "--yes")
    assert list(table(config)) == ["github", "filesystem", "github-claude-desktop"]
    assert values(config)["shortlist"] == {"code": True}
    assert "// mine" in config.read_text()


def test_undoing_keeps_what_the_client_wrote_since(tmp_path):
    file = put(tmp_path, CLIENTS["claude-code"])
    names = set(table(file))
    arguments = ("install", "--client", "claude-code", "--home", tmp_path, "--yes")
    run(*arguments, "--config", tmp_path / "m.json")
    now = {**values(file), "numStartups": 7}
    now["mcpServers"]["new"] = {"command": "x"}
    file.write_text(json.dumps(now))
    assert "other settings changed since" in run(*arguments, "--undo").output
    assert values(file)["numStartups"] == 7
    assert set(table(file)) == {*names, "new"}


def test_the_change_of_a_toml_file_is_shown_as_toml(tmp_path):
    put(tmp_path, CLIENTS["codex"])
    arguments = ("install", "--client", "codex", "--config", tmp_path / "m.json")
    shown = run(*arguments, "--home", tmp_path, "--yes").stdout
    assert "\n-[mcp_servers.context7]\n" in shown
    assert "\n+[mcp_servers.shortlist]\n" in shown
    assert '\n-MY_ENV_VAR = "***"\n' in shown


@pytest.mark.parametrize(("answers", "stays"), [("y\ny\n", False), ("y\nn\n", True), ("y\n", True)])
def test_after_an_undo_what_nothing_needs_may_be_deleted(tmp_path, monkeypatch, answers, stays):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    config = tmp_path / "m.json"
    put(tmp_path, CLIENTS["zed"])
    arguments = ("install", "--home", tmp_path, "--client")
    run(*arguments, "zed", "--config", config, "--yes")
    pins = default_pins(config)
    pins.parent.mkdir(parents=True)
    pins.touch()
    shown = run(*arguments, "zed", "--undo", answer=answers)
    assert f"Delete what nothing needs: {config}, {pins}?" in shown.stdout
    assert (config.exists(), pins.exists()) == (stays, stays)
    assert (f"deleted: {config}" in shown.stdout) != stays


def test_after_an_undo_what_is_needed_is_named_and_stays(tmp_path):
    config = tmp_path / "m.json"
    arguments = ("install", "--home", tmp_path, "--client")
    for name in ("zed", "cursor"):
        put(tmp_path, CLIENTS[name])
        run(*arguments, name, "--config", config, "--yes")
    shown = run(*arguments, "zed", "--undo", answer="y\n")
    assert f"{config}: stays, because it is in use by: Cursor" in shown.stderr
    settings = {"mcpServers": {**table(config), "own": {"command": "x"}}, "shortlist": {"code": 1}}
    config.write_text(json.dumps(settings))
    shown = run(*arguments, "cursor", "--undo", "--yes")
    assert "because only it has: own, the key shortlist" in shown.stderr
    assert config.exists()


def test_after_an_undo_the_file_of_another_client_stays(tmp_path):
    put(tmp_path, CLIENTS["zed"])
    cursor = put(tmp_path, CLIENTS["cursor"])
    arguments = ("install", "--client", "zed", "--home", tmp_path)
    run(*arguments, "--config", cursor, "--yes")
    shown = run(*arguments, "--undo", answer="y\ny\n")
    assert "in use by: Cursor" in shown.stderr
    assert cursor.exists()


def test_a_file_that_changed_meanwhile_is_left_alone(tmp_path):
    path = tmp_path / "m.json"
    path.write_text("{}")
    file = ConfigFile.read(path)
    path.write_text('{"a": 2}')
    with pytest.raises(ConfigError, match="changed the file in the meantime"):
        file.replace(b"{}")
    assert path.read_text() == '{"a": 2}'


def test_a_link_stays_one_and_the_mode_stays(tmp_path):
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("{}")
    real.chmod(0o640)
    link.symlink_to(real)
    ConfigFile.read(link).replace(b'{"a": 2}')
    assert link.is_symlink()
    assert real.read_text() == '{"a": 2}'
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "real.json.shortlist-backup").stat().st_mode) == 0o600


def test_it_never_moves_itself(tmp_path):
    file = CLIENTS["cursor"].path(tmp_path)
    file.parent.mkdir()
    uvx = {"command": "uvx", "args": ["--from", "shortlist[gateway]", "shortlist", "serve"]}
    file.write_text(json.dumps({"mcpServers": {"gw": uvx}}))
    plan = plan_install(CLIENTS["cursor"], file, tmp_path / "m.json", tmp_path)
    assert plan.moved_servers == ()


def test_wrong_arguments(tmp_path):
    shown = run("install", "--client", "cursr", "--home", tmp_path, code=2).output
    assert "use one of: claude-desktop, claude-code, cursor" in " ".join(shown.split())
    cursor = put(tmp_path, CLIENTS["cursor"])
    arguments = ("install", "--client", "cursor", "--home", tmp_path)
    shown = run(*arguments, "--config", cursor, code=1).output
    assert "this is the file of Cursor itself" in re.sub(r"\s+", " ", shown)
    shown = run(*arguments, "--beside", "--config", tmp_path / "none.json", code=1).output
    assert "no such file" in re.sub(r"\s+", " ", shown)
    shown = run(*arguments, "--config", SAMPLES / "zed_settings.json", code=1).output
    assert "move into a JSON file with the key mcpServers" in re.sub(r"\s+", " ", shown)


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
@pytest.mark.parametrize("name", CLIENTS)
def test_paths_lie_below_the_home_directory(name, platform):
    for path in CLIENTS[name].paths(Path("/home/ada"), platform):
        assert path.is_relative_to("/home/ada")
        assert "{" not in str(path)


@pytest.mark.parametrize("depth", [150, 700, 100_000])
def test_a_file_nested_deeply_is_refused(tmp_path, depth):
    file = put(tmp_path, CLIENTS["cursor"])
    entry = f'{{"command": "x", "meta": {"[" * depth}{"]" * depth}}}'
    file.write_text(f'{{"mcpServers": {{"deep": {entry}}}}}')
    config = tmp_path / "mcp.json"
    shown = run("install", "--client", "cursor", "--config", config, "--home", tmp_path, code=1)
    assert "nested too deeply" in shown.output
    assert "nested too deeply" in run("import", "--home", tmp_path).output


def test_a_large_file_is_not_read_whole(tmp_path):
    put(tmp_path, CLIENTS["cursor"])
    config = tmp_path / "mcp.json"
    with config.open("wb") as sparse:
        sparse.truncate(50_000_000_000)
    shown = run("install", "--client", "cursor", "--config", config, "--home", tmp_path, code=1)
    assert "larger than" in shown.output


def test_a_link_to_no_file_chooses_no_place_for_a_new_one(tmp_path):
    file = put(tmp_path, CLIENTS["cursor"])
    target, link = tmp_path / "autostart", tmp_path / "mcp.json"
    link.symlink_to(target)
    before = file.read_bytes()
    options = ("--client", "cursor", "--home", tmp_path)
    for command in (
        ("install", *options, "--config", link, "--yes"),
        ("import", *options, "--out", link),
    ):
        shown = run(*command, code=1)
        assert "a link to" in shown.output
        assert not target.exists()
    assert file.read_bytes() == before


def test_the_question_names_links_and_servers_that_are_there_already(tmp_path):
    put(tmp_path, CLIENTS["cursor"])
    target, link = tmp_path / "theirs.json", tmp_path / "mcp.json"
    servers = {f"server-{number}": {"command": "evil"} for number in range(20)}
    target.write_text(json.dumps({"mcpServers": servers}, indent=2))
    link.symlink_to(target)
    shown = run("install", "--client", "cursor", "--config", link, "--home", tmp_path, answer="n",
                code=1)  # fmt: skip
    assert f"a link; what changes is {target}" in shown.output
    assert "has servers already, which start too: server-0, server-1, " in shown.output


def test_servers_that_were_imported_before_are_not_named_as_others(tmp_path):
    put(tmp_path, CLIENTS["cursor"])
    config = tmp_path / "mcp.json"
    run("import", "--home", tmp_path, "--out", config)
    shown = run("install", "--client", "cursor", "--config", config, "--home", tmp_path, "--yes")
    assert "has servers already" not in shown.output


def test_names_that_hide_something_are_refused_and_written_out(tmp_path):
    file = put(tmp_path, CLIENTS["cursor"])
    hostile = ("clear\x1b[2J", "next\x9b2J", "two\nlines", "back\u202ewards", "zero\u200bwidth")
    servers = {name: {"command": "x"} for name in (*hostile, "__proto__", "../../etc", "名前")}
    file.write_text(json.dumps({"mcpServers": servers}))
    options = ("--client", "cursor", "--home", tmp_path)
    shown = run("import", *options)
    assert list(json.loads(shown.stdout)["mcpServers"]) == ["__proto__", "../../etc", "名前"]
    moved = run("install", *options, "--config", tmp_path / "mcp.json", "--yes")
    for text in (shown.output, moved.output):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202e]", text)
    assert "invisible" in shown.stderr
    assert list(values(file)["mcpServers"]) == [*hostile, "shortlist"]
