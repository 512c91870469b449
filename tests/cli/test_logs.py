from __future__ import annotations

import os
import subprocess
import sys

import pytest

from shortlist.gateway.connections.server_log import log_path

FOLLOW = "from shortlist.cli import main; main()"


@pytest.fixture
def log(tmp_path, monkeypatch):
    """Makes the log of a server from lines."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def write(server: str, *lines: str):
        path = log_path(server)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return path

    return write


def test_a_log_is_printed_and_the_old_part_before_it(run, log):
    path = log("github", "three", "four")
    path.with_suffix(".old.log").write_text("one\ntwo\n")
    assert run("logs", "github").stdout.splitlines() == ["one", "two", "three", "four"]
    assert run("logs", "github", "-n", 3).stdout.splitlines() == ["two", "three", "four"]
    assert run("logs", "github", "-n", 0).stdout == ""


def test_without_a_name_the_logs_are_listed(run, run_json, log):
    assert "no server has written a log" in run("logs").stdout
    log("github", "x")
    path = log("linear", "four", "lines")
    path.with_suffix(".old.log").write_text("old")
    assert [(one["server"], one["bytes"]) for one in run_json("logs")] == [
        ("github", 2),
        ("linear", 11),
    ]
    text = run("logs").stdout
    assert "\ngithub " in text
    assert "linear.old" not in text


def test_a_configuration_limits_the_logs_to_its_servers(run, run_json, log, tmp_path):
    log("github", "x")
    log("linear", "y")
    config = tmp_path / "mcp.json"
    config.write_text('{"mcpServers": {"github": {"command": "git"}, "new": {"command": "x"}}}')
    assert [one["server"] for one in run_json("logs", "--config", config)] == ["github"]
    assert run("logs", "github", "--config", config).stdout == "x\n"
    refused = run("logs", "linear", "--config", config, code=1).stderr
    assert "no server 'linear'; it has: github, new" in refused


def test_a_server_with_an_odd_name_is_found(run, log):
    log("my server/1", "here")
    assert run("logs", "my server/1").stdout == "here\n"


def test_a_log_that_is_not_there_is_named_with_those_that_are(run, log):
    log("github", "x")
    assert (
        "no log of a server 'gihtub'; logs exist for: github"
        in run("logs", "gihtub", code=1).stderr
    )
    assert "NAME" in run("logs", "--follow", code=2).output
    assert "without NAME" in run("logs", "github", "--json", code=2).output


def test_what_a_server_writes_does_not_steer_the_terminal(run, log):
    log("evil", "\x1b]0;title\x07\x1b[2Jgone", "fine: ü\tä")
    assert run("logs", "evil").stdout == "\\u001b]0;title\\u0007\\u001b[2Jgone\nfine: ü\tä\n"


def test_following_goes_on_when_the_log_begins_anew(log):
    path = log("github", "one")
    command = [sys.executable, "-c", FOLLOW, "logs", "github", "--follow"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    ) as following:
        assert following.stdout is not None
        try:
            assert following.stdout.readline() == "one\n"
            with path.open("a") as file:
                file.write("two\nthr")
            assert following.stdout.readline() == "two\n"
            with path.open("a") as file:
                file.write("ee\n")
            assert following.stdout.readline() == "three\n"
            path.replace(path.with_suffix(".old.log"))
            path.write_text("four\n")
            assert following.stdout.readline() == "four\n"
        finally:
            following.kill()
