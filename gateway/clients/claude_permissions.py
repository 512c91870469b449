"""The user's permission rules of Claude Code, applied to a tool behind the gateway.

Imports only the standard library: a hook runs before every call.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

#: Tools of the gateway that call the tool with the name in their input.
CALL_TOOLS = frozenset(("call_tool", "read_tool"))
#: The one of them that calls read-only tools alone.
READ_TOOL = "read_tool"
#: The tool that runs a script, which may call any tool.
SCRIPT_TOOL = "run_code"
_ADMINISTRATOR_FOLDERS = {
    "darwin": "/Library/Application Support/ClaudeCode",
    "win32": "C:/Program Files/ClaudeCode",
}


class Decision(StrEnum):
    """What Claude Code does with a call."""

    ALLOW = "allow"
    DENY = "deny"
    ASK = "ask"


@dataclass(frozen=True)
class HookAnswer:
    """The answer to a `PreToolUse` hook.

    Args:
        decision: whether the call is made, refused, or the user is asked.
        reason: shown to the user with a question, to the model with a refusal.
    """

    decision: Decision
    reason: str

    def to_json(self) -> str:
        """The form that Claude Code reads from the hook's stdout."""
        return json.dumps(
            {
                "hookSpecificOutput": {
                    "hookEventName": "PreToolUse",
                    "permissionDecision": self.decision.value,
                    "permissionDecisionReason": self.reason,
                }
            }
        )


class PermissionRules:
    """Rules of all settings files together, as Claude Code joins them.

    Args:
        rules: texts of rules, such as `mcp__github__get_*`, by decision.
        problems: files that cannot be used, one line each. With any, nothing is allowed.
    """

    def __init__(
        self, rules: Mapping[Decision, Iterable[str]], problems: Iterable[str] = ()
    ) -> None:
        self._rules = {decision: tuple(rules.get(decision, ())) for decision in Decision}
        self._problems = tuple(problems)

    @classmethod
    def read(cls, project: Path, home: Path, environment: Mapping[str, str]) -> PermissionRules:
        """The rules of the user, the project, and the machine's administrator.

        Args:
            project: folder of the project, with `.claude/settings.json`.
            home: home directory of the user.
            environment: of the hook; `CLAUDE_CONFIG_DIR` replaces `~/.claude`.
        """
        user = Path(environment.get("CLAUDE_CONFIG_DIR") or home / ".claude")
        managed = Path(_ADMINISTRATOR_FOLDERS.get(sys.platform, "/etc/claude-code"))
        return cls.of_files(
            (user / "settings.json", *(project / ".claude" / name for name in _PROJECT_FILES)),
            (managed / "managed-settings.json", *managed.glob("managed-settings.d/*.json")),
        )

    @classmethod
    def of_files(cls, files: Iterable[Path], managed: Iterable[Path] = ()) -> PermissionRules:
        """The rules of these files. A file that does not exist has none.

        Args:
            files: settings of the user and the project.
            managed: settings of the administrator, who can switch all others off.
        """
        rules: dict[Decision, list[str]] = {decision: [] for decision in Decision}
        problems: list[str] = []
        is_managed_only = False
        for path in managed:
            settings = _read_settings(path, problems)
            is_managed_only |= settings.get("allowManagedPermissionRulesOnly") is True
            _add_rules(rules, settings, path, problems)
        for path in () if is_managed_only else files:
            _add_rules(rules, _read_settings(path, problems), path, problems)
        return cls(rules, problems)

    def decide(self, name: str, *, asks_without_rule: bool = True) -> HookAnswer | None:
        """The decision on a tool, as if its server were connected to Claude Code directly.

        Args:
            name: `server/tool`. Other names are never allowed, because they can mean more than one
                tool.
            asks_without_rule: whether the user is asked if no rule covers the tool.

        Returns:
            None if no rule covers the tool, and nobody is asked for that.
        """
        possible_tools = tuple(_possible_tools(name))
        if not possible_tools:
            return HookAnswer(Decision.ASK, f"{name} is not the name of a tool; use server/tool")
        for decision in (Decision.DENY, Decision.ASK):
            for rule in self._rules[decision]:
                pattern, separator, _ = rule.partition("(")
                if any(possible_tool.matches_any(pattern) for possible_tool in possible_tools):
                    # A condition on the arguments is not evaluated here: the user decides.
                    final = Decision.ASK if separator else decision
                    return HookAnswer(final, f"{rule} in `permissions.{decision}` covers {name}")
        if self._problems:
            return HookAnswer(Decision.ASK, "; ".join(self._problems))
        if len(possible_tools) == 1 and name.count("/") == 1:
            for rule in self._rules[Decision.ALLOW]:
                if possible_tools[0].matches_allowed(rule):
                    return HookAnswer(
                        Decision.ALLOW, f"{rule} in `permissions.allow` covers {name}"
                    )
        if not asks_without_rule:
            return None
        return HookAnswer(
            Decision.ASK, f"{name}: no rule covers it; a rule for it: {possible_tools[0].full_name}"
        )


@dataclass(frozen=True)
class _ToolUnderClaudeName:
    """A tool under the name that Claude Code would give it."""

    server: str
    tool: str

    @property
    def full_name(self) -> str:
        return f"mcp__{self.server}__{self.tool}" if self.server else f"mcp__{self.tool}"

    def matches_any(self, pattern: str) -> bool:
        """Whether a rule that denies or asks covers the tool. It may have `*` anywhere."""
        names = [self.full_name]
        if self.server:
            names.append(f"mcp__{self.server}")
        else:  # the server is unknown: its part of the rule is not compared
            pattern = re.sub(r"^mcp__.+?__(?=.)", "mcp__*", pattern)
        return any(_matches_glob(pattern, name) for name in names)

    def matches_allowed(self, pattern: str) -> bool:
        """Whether a rule that allows covers the tool. It may have `*` only after the server."""
        prefix, _, rest = pattern.partition("__")
        server, separator, tool = rest.partition("__")
        if prefix != "mcp" or server != self.server or "__" in self.server:
            return False
        return not separator or _matches_glob(tool, self.tool)


_PROJECT_FILES = ("settings.json", "settings.local.json")


def answer_hook(text: str, home: Path, environment: Mapping[str, str]) -> HookAnswer | None:
    """The answer to the input of a `PreToolUse` hook.

    Args:
        text: what Claude Code wrote to the hook's stdin.
        home: home directory of the user.
        environment: of the hook.

    Returns:
        None where Claude Code applies its rules itself: for a tool that calls no other tools, and
        for a read-only tool that no rule covers.
    """
    try:
        call = json.loads(text)
    except (ValueError, RecursionError):
        return HookAnswer(Decision.ASK, "shortlist hook: the input is not JSON")
    tool_name = call.get("tool_name") if isinstance(call, dict) else None
    if not isinstance(tool_name, str):
        return HookAnswer(Decision.ASK, "shortlist hook: the input has no tool_name")
    tool = tool_name.rpartition("__")[2]
    if not tool_name.startswith("mcp__") or tool not in (*CALL_TOOLS, SCRIPT_TOOL):
        return None
    if tool == SCRIPT_TOOL:
        return HookAnswer(Decision.ASK, "a script may call any tool that this client may use")
    arguments = call.get("tool_input")
    name = arguments.get("name") if isinstance(arguments, dict) else None
    if not isinstance(name, str) or not name:
        return HookAnswer(Decision.ASK, f"shortlist hook: the input of {tool} names no tool")
    folder = environment.get("CLAUDE_PROJECT_DIR") or call.get("cwd")
    project = Path(folder) if isinstance(folder, str) and folder else Path.cwd()
    # Claude Code applies its rule for `read_tool` if there is none for the tool itself.
    rules = PermissionRules.read(project, home, environment)
    return rules.decide(name, asks_without_rule=tool != READ_TOOL)


def _possible_tools(name: str) -> Iterator[_ToolUnderClaudeName]:
    """Every tool that a name can mean: server and tool can be parted at any `/` or `__`."""
    for match in re.finditer(r"/|(?=__)", name):
        server, tool = name[: match.start()], name[match.end() :].removeprefix("__")
        if server and tool:
            yield _ToolUnderClaudeName(_claude_name(server), _claude_name(tool))
    if "/" not in name:
        yield _ToolUnderClaudeName("", _claude_name(name))


def _claude_name(name: str) -> str:
    """A server's or tool's name as Claude Code writes it."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)


def _matches_glob(pattern: str, name: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name) is not None


def _read_settings(path: Path, problems: list[str]) -> Mapping[str, Any]:
    try:
        settings = json.loads(path.read_text(encoding="utf-8-sig"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, RecursionError):
        settings = None
    if not isinstance(settings, dict):
        problems.append(f"{path}: cannot be read as settings of Claude Code; correct the file")
        return {}
    return settings


def _add_rules(
    rules: Mapping[Decision, list[str]],
    settings: Mapping[str, Any],
    path: Path,
    problems: list[str],
) -> None:
    permissions = settings.get("permissions", {})
    if not isinstance(permissions, dict):
        problems.append(f"{path}: permissions: must be a table")
        return
    for decision, texts in rules.items():
        listed = permissions.get(decision.value, [])
        if isinstance(listed, list) and all(isinstance(rule, str) for rule in listed):
            texts += listed
        else:
            problems.append(f"{path}: permissions.{decision}: must be a list of texts")
