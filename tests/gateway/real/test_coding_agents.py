"""Coding agents as they are, with a scripted model, after `shortlist install` alone.

And agents written with frameworks, which start the gateway over stdin and stdout. Each agent's
figures become a row of `lab/results/agents.json` when SHORTLIST_RECORD is set.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from shortlist.errors import EvaluationError
from shortlist.evals.report import Table
from shortlist.gateway.meta_tools.meta_tool_definitions import META_TOOL_NAMES
from shortlist.gateway.profiles.profile import READ_TOOL
from shortlist.lab.publishing.record import Record, provenance, read_record, write_record

from .coding_agents import AGENTS, CodingAgent
from .frameworks import FRAMEWORKS, Framework
from .gateway_process import Setup, over_http
from .material import refill
from .measure import tokens
from .packages import NotInstalledError
from .scripted_model import Call, ScriptedModel, scripted_model, tools_of
from .servers import SERVERS, entries

pytestmark = pytest.mark.long

_NOON = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
SCRIPT = (
    Call("search_tools", {"query": "convert a time between time zones"}),
    Call("get_tool_details", {"names": ["time/convert_time"]}),
    Call("call_tool", {"name": "time/convert_time", "arguments": _NOON}),
)
#: Servers behind the gateway, or connected directly.
_BEHIND = ("filesystem", "git", "time", "memory", "notion", "mongodb")
_COLUMNS = ("client", "directly, tokens", "with the gateway, tokens", "calls of the script")
_COMMAND = "python -m pytest -m long tests/gateway/real/test_coding_agents.py"
_BY_NAME = {agent.name: agent for agent in AGENTS}


def behind(root: Path) -> dict[str, Any]:
    refill(root)
    available, missing = entries([one for one in SERVERS if one.name in _BEHIND], root)
    if missing:
        pytest.skip("; ".join(missing))
    return available


class _AgentSetup(Setup):
    """The gateway as an agent starts it: its folders are below the home directory."""

    @property
    def environment(self) -> dict[str, str]:
        own = {name: text for name, text in os.environ.items() if not name.startswith("XDG_")}
        return {**own, "HOME": str(self.home)}


def install(
    agent: CodingAgent, config: Path, home: Path, permissions: dict[str, Any] | None = None
) -> None:
    """Install into an empty home directory, and start the servers behind the gateway once.

    With Claude Code's permissions, also its hooks.
    """
    home.mkdir()
    if permissions is not None:
        settings = home / ".claude" / "settings.json"
        settings.parent.mkdir()
        settings.write_text(json.dumps({"permissions": permissions}))
    agent.install_gateway(home, config, *(["--hook"] if permissions is not None else []))
    with over_http(_AgentSetup(config, home), 300) as served:
        served.settle(300)


def converse(
    agent: CodingAgent,
    home: Path,
    model: ScriptedModel,
    message: str = "What time is noon UTC in Tokyo?",
) -> str:
    """One conversation, and what the agent printed."""
    agent.set_model(home, model.address)
    try:
        return agent.run(home, model.address, message)
    except NotInstalledError as problem:
        pytest.skip(str(problem))


def check_conversation(model: ScriptedModel, printed: str) -> None:
    """The first request has the gateway's tools, and each call's result reaches the model."""
    assert model.requests, printed
    names = [str(tool.get("name")) for tool in tools_of(model.requests[0])]
    for own_name in META_TOOL_NAMES:
        assert any(name.endswith(own_name) for name in names), (names, printed)
    results = model.results()
    assert len(results) == len(SCRIPT), (results, printed)
    assert "time/convert_time" in results[0]
    assert "source_timezone" in results[1]
    assert "21:00:00+09:00" in results[2]


def own_tools(model: ScriptedModel) -> list[Any]:
    """Definitions of the gateway in the first request."""
    return [
        tool
        for tool in tools_of(model.requests[0])
        if str(tool.get("name")).endswith((*META_TOOL_NAMES, READ_TOOL))
    ]


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_an_agent_works_after_install_alone(agent: CodingAgent, tmp_path: Path) -> None:
    config, home = tmp_path / "mcp.json", tmp_path / "home"
    servers = behind(tmp_path / "files")
    config.write_text(json.dumps({"mcpServers": servers}))
    install(agent, config, home)
    with scripted_model(SCRIPT) as model:
        printed = converse(agent, home, model)
    check_conversation(model, printed)

    direct_home = tmp_path / "direct"
    direct_home.mkdir()
    agent.connect_directly(direct_home, servers)
    with scripted_model(()) as direct:
        printed = converse(agent, direct_home, direct)
    assert direct.requests, printed
    own_names = {tool.get("name") for tool in tools_of(model.requests[0])}
    definitions = [
        tool for tool in tools_of(direct.requests[0]) if tool.get("name") not in own_names
    ]
    assert any("convert_time" in str(tool.get("name")) for tool in definitions), printed
    _record(agent.title, tokens(definitions), tokens(own_tools(model)))


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.program)
def test_an_agent_of_a_framework_works(framework: Framework, tmp_path: Path) -> None:
    servers = behind(tmp_path / "files")
    setup = Setup.write(tmp_path / "gateway", servers, {})
    with over_http(setup, 300) as served:
        served.settle(300)
    program, *words = setup.command
    gateway = {"command": program, "args": words, "env": setup.environment}
    prompt = "What time is noon UTC in Tokyo?"
    for folder in ("with", "direct"):
        (tmp_path / folder).mkdir()
    with scripted_model(SCRIPT) as model, scripted_model(()) as direct:
        try:
            printed = framework.run(
                tmp_path / "with", {"shortlist": gateway}, model.address, prompt
            )
            check_conversation(model, printed)
            printed = framework.run(tmp_path / "direct", servers, direct.address, prompt)
        except NotInstalledError as problem:
            pytest.skip(str(problem))
    assert direct.requests, printed
    own_names = {tool.get("name") for tool in tools_of(model.requests[0])}
    definitions = [
        tool for tool in tools_of(direct.requests[0]) if tool.get("name") not in own_names
    ]
    assert any("convert_time" in str(tool.get("name")) for tool in definitions), printed
    _record(framework.title, tokens(definitions), tokens(own_tools(model)))


@pytest.mark.parametrize("number", [1, 2, 3])
def test_codex_works_each_time(tmp_path: Path, number: int) -> None:
    agent, config, home = _BY_NAME["codex"], tmp_path / "mcp.json", tmp_path / "home"
    config.write_text(json.dumps({"mcpServers": behind(tmp_path / "files")}))
    install(agent, config, home)
    with scripted_model(SCRIPT) as model:
        check_conversation(model, converse(agent, home, model))


@pytest.mark.parametrize("name", ["claude-code", "gemini"])
def test_an_agent_works_over_http_with_a_token(name: str, tmp_path: Path) -> None:
    agent, home = _BY_NAME[name], tmp_path / "home"
    home.mkdir()
    profile = {"profiles": {"agent": {"token": "a-long-token-for-this-test"}}}
    setup = Setup.write(tmp_path / "gateway", behind(tmp_path / "files"), profile)
    with over_http(setup, 300) as served, scripted_model(SCRIPT) as model:
        served.settle(300)
        agent.connect_over_http(home, served.address, "a-long-token-for-this-test")
        check_conversation(model, converse(agent, home, model))


@pytest.mark.parametrize(
    ("rules", "answer"),
    [
        ({"allow": ["mcp__time__convert_time"]}, "21:00:00+09:00"),
        ({"deny": ["mcp__time__convert_time"]}, "permissions.deny"),
        ({}, "time/convert_time: no rule covers it"),
    ],
    ids=["allow", "deny", "ask"],
)
def test_claude_code_asks_the_hook(rules: dict[str, Any], answer: str, tmp_path: Path) -> None:
    """Without a rule for the inner tool, Claude Code asks, and without a terminal it refuses.

    `read_tool` needs no rule for it: Claude Code's rule for the gateway allows it.
    """
    agent, config, home = _BY_NAME["claude-code"], tmp_path / "mcp.json", tmp_path / "home"
    config.write_text(json.dumps({"mcpServers": behind(tmp_path / "files")}))
    lists = {**rules, "allow": [*rules.get("allow", ()), "mcp__shortlist"]}
    install(agent, config, home, permissions=lists)
    script = (*SCRIPT, replace(SCRIPT[2], tool="read_tool"))
    with scripted_model(script) as model:
        printed = converse(agent, home, model)
    results = model.results()
    assert len(results) == len(script), (results, printed)
    assert answer in results[2]
    assert ("21:00:00+09:00" in results[2]) is ("allow" in rules)
    assert ("21:00:00+09:00" in results[3]) is ("deny" not in rules)


def test_claude_code_reads_the_tools_that_fit_a_message(tmp_path: Path) -> None:
    agent, config, home = _BY_NAME["claude-code"], tmp_path / "mcp.json", tmp_path / "home"
    config.write_text(json.dumps({"mcpServers": behind(tmp_path / "files")}))
    install(agent, config, home, permissions={"allow": ["mcp__shortlist"]})
    wish = "convert noon in UTC to the time in Tokyo"
    for _ in range(2):  # the first conversation starts the gateway
        with scripted_model(SCRIPT) as model:
            converse(agent, home, model, wish)
    assert "- time/convert_time(" in json.dumps(model.requests[0])


def _record(title: str, direct: int, gateway: int) -> None:
    """Replace the row of one agent in the record."""
    if "SHORTLIST_RECORD" not in os.environ:
        return
    try:
        rows = {str(row[0]): row for row in read_record("agents").table.rows}
    except EvaluationError:
        rows = {}
    rows[title] = (title, f"{direct:,}", f"{gateway:,}", f"{len(SCRIPT)} of {len(SCRIPT)}")
    titles = [one.title for one in (*AGENTS, *FRAMEWORKS)]
    table = Table(_COLUMNS, tuple(rows[title] for title in titles if title in rows))
    figures: Mapping[str, Any] = {"servers": list(_BEHIND), "script": [c.tool for c in SCRIPT]}
    write_record(Record("agents", "Coding agents", table, figures, _origin()))


@cache
def _origin() -> dict[str, Any]:
    """Before the first row is written, which changes the tree."""
    return provenance(_COMMAND.split())
