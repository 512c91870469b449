"""`shortlist hook prompt`: tools that clearly fit a message are put beside it, or nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shortlist.demo import load_catalog

from .attached import Machine, wait_for

SCRIPTED = str(Path(__file__).parent / "scripted_server.py")
_PROGRAM = "from shortlist.cli import main; main()"


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory):
    """A running gateway of the demo's servers."""
    machine, folder = Machine(), tmp_path_factory.mktemp("servers")
    servers: dict[str, Any] = {}
    for server in load_catalog().servers:
        tools = [
            {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
            for tool in load_catalog()
            if tool.server == server
        ]
        script = folder / f"{server}.json"
        script.write_text(json.dumps({"tools": tools, "answers": {}}))
        servers[server] = {"command": sys.executable, "args": [SCRIPTED, str(script)]}
    profiles = {"profiles": {"default": {}, "readers": {"servers": ["filesystem"]}}, "engine": {}}
    machine.write(profiles, **servers)
    try:
        yield machine
    finally:
        machine.close()


def hooked(machine: Machine, prompt: object, *more: str) -> str:
    """What the hook puts beside a message."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, "hook", "prompt", "--config", str(machine.config), *more],
        input=prompt if isinstance(prompt, str) else json.dumps(prompt),
        env=machine.environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    if not done.stdout:
        return ""
    output = json.loads(done.stdout)["hookSpecificOutput"]
    assert output["hookEventName"] == "UserPromptSubmit"
    return output["additionalContext"]


def test_the_hook_names_tools_that_fit_and_is_silent_otherwise(machine):
    wish = {"prompt": "create a pull request from my branch to main in octo/site"}
    assert hooked(machine, wish) == ""
    assert machine.gateways() == []  # it starts none
    client = machine.client()
    client.initialize()
    lines = wait_for(lambda: hooked(machine, wish)).splitlines()
    assert 2 <= len(lines) <= 9
    assert "in the servers' words" in lines[0]
    assert any(line.startswith("- github/create_pull_request(") for line in lines)
    # A search that lacks the time for its tier is not shown.
    command = {"prompt": "create a pull request"}
    literal_command = wait_for(lambda: hooked(machine, command)).splitlines()
    assert literal_command[1].startswith("- github/create_pull_request(")
    for prompt in ("thanks, looks good", "Tu vas bien ? Longue journée pour moi"):
        assert hooked(machine, {"prompt": prompt}) == ""
    for prompt in ("why does this function return None?", "", 7):
        assert hooked(machine, {"prompt": prompt}) == ""
    assert hooked(machine, wish, "--profile", "readers") == ""
    assert hooked(machine, wish, "--profile", "nobody") == ""
    for wrong in ("no JSON", "[" * 100_000):
        assert hooked(machine, wrong) == ""
