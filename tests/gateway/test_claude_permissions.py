"""`shortlist hook`: Claude Code's own rules decide on a tool behind `call_tool`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shortlist.gateway.clients import claude_permissions
from shortlist.gateway.clients.claude_permissions import (
    CALL_TOOLS,
    SCRIPT_TOOL,
    Decision,
    PermissionRules,
    answer_hook,
)
from shortlist.gateway.profiles.profile import CALL_TOOL, READ_TOOL, RUN_CODE


def hook_input(tool: str, tool_input: Any, cwd: Path | str = "/nowhere") -> dict[str, Any]:
    """What Claude Code 2.1 writes to a hook."""
    return {
        "session_id": "5f2c8a31-2f19-4a3e-9a53-0c1d6f0b7e11",
        "transcript_path": "/home/ada/.claude/projects/-work/5f2c8a31.jsonl",
        "cwd": str(cwd),
        "permission_mode": "default",
        "hook_event_name": "PreToolUse",
        "tool_name": f"mcp__shortlist__{tool}",
        "tool_input": tool_input,
        "tool_use_id": "toolu_01ABC123",
    }


@pytest.fixture
def decide(tmp_path, monkeypatch):
    """A decision by rules of the user (allow, ask, deny), the project, and the machine."""
    monkeypatch.setitem(
        claude_permissions._ADMINISTRATOR_FOLDERS, sys.platform, str(tmp_path / "managed")
    )

    def decision(name: str, tool: str = "call_tool", **files: Any) -> str | None:
        places = {
            "user": tmp_path / ".claude" / "settings.json",
            "project": tmp_path / "work" / ".claude" / "settings.json",
            "local": tmp_path / "work" / ".claude" / "settings.local.json",
            "managed": tmp_path / "managed" / "managed-settings.json",
        }
        for place, path in places.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            if place in files:
                settings = files[place]
                text = settings if isinstance(settings, str) else json.dumps(settings)
                path.write_text(text)
        call = hook_input(tool, {"name": name, "arguments": {"id": 1}}, tmp_path / "work")
        answer = answer_hook(json.dumps(call), tmp_path, {})
        return None if answer is None else answer.decision.value

    return decision


def rules(**lists: list[str]) -> dict[str, Any]:
    return {"permissions": lists}


def test_the_tools_are_those_of_the_gateway():
    assert {CALL_TOOL, READ_TOOL} == CALL_TOOLS
    assert SCRIPT_TOOL == RUN_CODE


@pytest.mark.parametrize(("tool", "otherwise"), [("call_tool", "ask"), ("read_tool", None)])
def test_the_users_own_rules_for_the_inner_tool_decide(decide, tool, otherwise):
    user = rules(allow=["mcp__github__get_*"], deny=["mcp__github__delete_repo"])
    assert decide("github/get_issue", tool, user=user) == "allow"
    assert decide("github/delete_repo", tool, user=user) == "deny"
    assert decide("github/create_issue", tool, user=user) == otherwise
    assert decide("gitlab/get_issue", tool, user=user) == otherwise


@pytest.mark.parametrize(
    ("rule", "is_allowed"),
    [
        ("mcp__github", True),
        ("mcp__github__*", True),
        ("mcp__github__get_issue", True),
        ("mcp__github__get_*", True),
        ("mcp__github__get", False),
        ("mcp__GitHub__get_issue", False),
        # In rules that allow, Claude Code takes no `*` before the tool, and no condition.
        ("*", False),
        ("mcp__*", False),
        ("mcp__git*__get_issue", False),
        ("mcp__github__get_issue(owner:me)", False),
        # Approving the gateway's own tool approves no tool behind it.
        ("mcp__shortlist__call_tool", False),
        ("mcp__shortlist", False),
    ],
)
def test_rules_that_allow(decide, rule, is_allowed):
    expected = "allow" if is_allowed else "ask"
    assert decide("github/get_issue", user=rules(allow=[rule])) == expected


@pytest.mark.parametrize(
    "rule", ["*", "mcp__*", "mcp__github", "mcp__github__*", "mcp__*__get_issue", "mcp__git*"]
)
def test_rules_that_deny_or_ask_come_first_from_any_file(decide, rule):
    allow = rules(allow=["mcp__github__get_issue"])
    assert decide("github/get_issue", user=allow, local=rules(deny=[rule])) == "deny"
    assert decide("github/get_issue", project=rules(ask=[rule]), local=allow) == "ask"
    both = rules(ask=[rule], deny=[rule])
    assert decide("github/get_issue", user=both, local=allow) == "deny"


def test_a_rule_with_a_condition_asks(decide):
    user = rules(allow=["mcp__github"], deny=["mcp__github__get_issue(owner:me)"])
    assert decide("github/get_issue", user=user) == "ask"


def test_names_are_written_as_claude_code_writes_them(decide):
    assert decide("my server/a.b", user=rules(allow=["mcp__my_server__a_b"])) == "allow"


@pytest.mark.parametrize(
    "name", ["get_issue", "github__get_issue", "evil/github/get_issue", "a__b/get_issue", "/", ""]
)
def test_a_name_that_can_mean_several_tools_is_never_allowed(decide, name):
    allow = ["mcp__github", "mcp__evil", "mcp__a", "mcp__a__b__get_issue", "mcp__get_issue"]
    assert decide(name, user=rules(allow=allow)) == "ask"


@pytest.mark.parametrize("name", ["get_issue", "github__get_issue", "github/get_issue"])
def test_every_name_of_a_denied_tool_is_denied(decide, name):
    assert decide(name, user=rules(deny=["mcp__github__get_issue"])) == "deny"
    assert decide(name, user=rules(deny=["mcp__github__get_*"])) == "deny"


def test_the_administrator_can_switch_other_rules_off(decide):
    user = rules(allow=["mcp__github"])
    managed = {**rules(deny=["mcp__github__delete_repo"]), "allowManagedPermissionRulesOnly": True}
    assert decide("github/delete_repo", user=user, managed=managed) == "deny"
    assert decide("github/get_issue", user=user, managed=managed) == "ask"
    del managed["allowManagedPermissionRulesOnly"]
    assert decide("github/get_issue", user=user, managed=managed) == "allow"


@pytest.mark.parametrize(
    "broken", ["{", "[]", '{"permissions": []}', '{"permissions": {"deny": "mcp__github"}}']
)
def test_with_a_broken_settings_file_nothing_is_allowed(decide, broken):
    assert decide("github/get_issue", user=rules(allow=["mcp__github"]), local=broken) == "ask"
    assert decide("github/get_issue", user=rules(deny=["mcp__github"]), local=broken) == "deny"


def test_a_script_is_asked_for_and_other_tools_are_left_to_claude_code(decide):
    everything = rules(allow=["mcp__github", "mcp__shortlist"])
    assert decide("github/get_issue", "run_code", user=everything) == "ask"
    assert decide("github/get_issue", "search_tools", user=everything) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "[]",
        "null",
        "[" * 100_000,
        "{}",
        '{"tool_name": 3}',
        json.dumps(hook_input("call_tool", None)),
        json.dumps(hook_input("call_tool", {})),
        json.dumps(hook_input("call_tool", {"name": ["github/get_issue"]})),
    ],
)
def test_malformed_input_is_asked_for(tmp_path, text):
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text(
        json.dumps(rules(allow=["mcp__github", "mcp__shortlist"]))
    )
    answer = answer_hook(text, tmp_path, {})
    assert answer is not None
    assert answer.decision is Decision.ASK


def test_the_command_as_claude_code_runs_it(tmp_path):
    home, project = tmp_path / "home", tmp_path / "project"
    (home / ".claude").mkdir(parents=True)
    (home / ".claude" / "settings.json").write_text(json.dumps(rules(allow=["mcp__github"])))
    (project / ".claude").mkdir(parents=True)
    (project / ".claude" / "settings.local.json").write_text(
        json.dumps(rules(deny=["mcp__github__delete_repo"]))
    )
    start = "import sys; from shortlist.cli import main\ntry: main()\nfinally: " + (
        "heavy = {'numpy', 'mcp', 'onnxruntime', 'shortlist.config'}; "
        "print(sorted(heavy & {*sys.modules}), file=sys.stderr)"
    )
    for name, decision in (("get_issue", "allow"), ("delete_repo", "deny")):
        call = hook_input("call_tool", {"name": f"github/{name}", "arguments": {}}, "/nowhere")
        done = subprocess.run(
            [sys.executable, "-c", start, "hook"],
            input=json.dumps(call),
            capture_output=True,
            text=True,
            env={"HOME": str(home), "CLAUDE_PROJECT_DIR": str(project)},
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        output = json.loads(done.stdout)["hookSpecificOutput"]
        assert output["hookEventName"] == "PreToolUse"
        assert output["permissionDecision"] == decision
        assert f"github/{name}" in output["permissionDecisionReason"]
        assert done.stderr.strip() == "[]"


def test_a_rule_in_no_file_allows_nothing():
    assert PermissionRules({}).decide("github/get_issue").decision is Decision.ASK
