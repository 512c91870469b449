"""Scripts through `shortlist serve` in a process of its own, over a server of its own."""

from __future__ import annotations

import subprocess
import sys
import time

import psutil

from .attached import ROUGH
from .test_serve import _HELLO, _ask, serving


def _ran(gateway, number, code):
    asked = {"name": "run_code", "arguments": {"code": code}}
    return _ask(gateway, number, "tools/call", **asked)["structuredContent"]


def test_a_script_runs_and_all_processes_end_with_the_gateway(tmp_path):
    (tmp_path / "one").mkdir()
    entry = {"command": sys.executable, "args": [ROUGH, "plain", str(tmp_path / "one")]}
    own = {"code": True, "engine": {"tiers": ["lexical"]}}
    command, environment = serving(tmp_path, own=own, one=entry)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe) as gateway:
        _ask(gateway, 1, "initialize", **_HELLO)
        for number in range(100, 400):
            listed = _ask(gateway, number, "tools/call", name="list_servers", arguments={})
            if listed["structuredContent"]["servers"][0]["tools"]:
                break
            time.sleep(0.1)
        alive = _ran(gateway, 2, "await one.read_and_die()")
        processes = psutil.Process(gateway.pid).children(recursive=True)
        gateway.stdin.close()
        assert gateway.wait(30) == 0
    assert (alive["error"], alive["result"]) == (None, "alive")
    # The server and the processes of the sandbox.
    assert len(processes) >= 2
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
