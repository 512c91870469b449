"""Scripts through `shortlist serve` in a process of its own, over real servers."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import psutil

from .test_serve import _HELLO, _ask, serving

GIT = {"command": sys.executable, "args": ["-m", "mcp_server_git"]}
CLOCK = {"command": sys.executable, "args": ["-m", "mcp_server_time"]}
COMMITS = 30


def _repository(folder) -> None:
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run([*git, "init", "-q"], check=True)
    for number in range(COMMITS):
        kind = "fix" if number % 10 == 0 else "add"
        message = f"{kind}: part {number}"
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", message], check=True)


def _ran(gateway, number, code):
    asked = {"name": "run_code", "arguments": {"code": code}}
    return _ask(gateway, number, "tools/call", **asked)["structuredContent"]


def _known(gateway) -> None:
    """Wait until both servers have listed their tools."""
    for number in range(100, 400):
        found = _ask(gateway, number, "tools/call", name="list_servers", arguments={})
        rows = found["structuredContent"]["servers"]
        if len(rows) == 2 and all(row["tools"] for row in rows):
            return
        time.sleep(0.1)
    raise TimeoutError


def test_a_script_over_two_real_servers_and_a_clean_end(tmp_path):
    repository = tmp_path / "repository"
    repository.mkdir()
    _repository(repository)
    own = {"code": True, "engine": {"tiers": ["lexical"]}}
    command, environment = serving(tmp_path, own=own, git=GIT, time=CLOCK)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe) as gateway:
        _ask(gateway, 1, "initialize", **_HELLO)
        _known(gateway)
        fixes = _ran(
            gateway,
            2,
            f"log = await git.git_log(repo_path={str(repository)!r}, max_count={COMMITS})\n"
            "fixes = [line for line in str(log).split('\\n') if 'fix:' in line]\n"
            "now = await time_.get_current_time(timezone='Europe/Berlin')\n"
            "[len(fixes), now['timezone']]",
        )
        refused = _ran(gateway, 3, "await git.git_reset(repo_path='/')")
        wrong = _ran(gateway, 4, "await git.git_log(repo_path=1)")
        processes = psutil.Process(gateway.pid).children(recursive=True)
        gateway.stdin.close()
        assert gateway.wait(30) == 0
    assert fixes["error"] is None, fixes
    assert fixes["result"] == [COMMITS // 10, "Europe/Berlin"]
    assert "approval" in json.dumps(refused["error"])
    assert "Expected `str`" in wrong["error"]["message"]
    # Two servers and the processes of the sandbox, all of which end with the gateway.
    assert len(processes) >= 3
    assert not [one for one in processes if one.is_running() and one.status() != "zombie"]


def test_a_profile_with_scripts_needs_the_extra_at_the_start(tmp_path):
    (tmp_path / "lib" / "pydantic_monty").mkdir(parents=True)
    (tmp_path / "lib" / "pydantic_monty" / "__init__.py").write_text("raise ImportError")
    profiles = {"default": {}, "office": {"code": {"deny": ["x/*"]}}}
    command, environment = serving(tmp_path, own={"profiles": profiles})
    path = f"{tmp_path / 'lib'}:{environment.get('PYTHONPATH', '')}"
    done = subprocess.run(
        command, env={**environment, "PYTHONPATH": path}, input=b"", capture_output=True, timeout=60
    )
    assert done.returncode != 0
    assert b"pip install '.[code]'" in done.stderr
