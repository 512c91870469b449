"""Coding agents from npm, each in a home directory of its own, with a scripted model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .packages import npm

#: Seconds that a conversation may take on a busy machine.
_PATIENCE = 300
_KEYS = {"FAKE_KEY": "x", "ANTHROPIC_API_KEY": "x", "GEMINI_API_KEY": "x"}


@dataclass(frozen=True, slots=True)
class CodingAgent:
    """One agent.

    Args:
        name: of the client for `shortlist install`.
        title: in tables, with its version.
        package: in npm, with its version.
        program: in the package's folder of programs.
    """

    name: str
    title: str
    package: str
    program: str

    def run(self, home: Path, address: str, prompt: str) -> str:
        """One conversation without a terminal; what the agent printed.

        Args:
            home: its home directory, with its configuration.
            address: of the model.
            prompt: first message of the user.

        Raises:
            NotInstalledError: it is missing.
        """
        program = str(npm(self.package) / self.program)
        words = _WORDS[self.name](address)
        work = home / "work"
        work.mkdir(exist_ok=True)
        done = subprocess.run(
            [program, *words, prompt],
            cwd=work,
            env={**self._environment(home), **_variables(self.name, address)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
        )
        return done.stdout + done.stderr

    def install_gateway(self, home: Path, config: Path, *options: str) -> None:
        """Run `shortlist install`, and nothing else."""
        start = "from shortlist.cli import main; main()"
        words = ["--client", self.name, "--config", str(config), "--home", str(home), "--yes"]
        words += options
        subprocess.run(
            [sys.executable, "-c", start, "install", *words],
            check=True,
            capture_output=True,
            env={**self._environment(home), "PATH": os.environ["PATH"]},
        )

    def connect_directly(self, home: Path, entries: Mapping[str, Mapping[str, Any]]) -> None:
        """Write the servers into the agent's own file."""
        _DIRECT[self.name](home, entries)

    def connect_over_http(self, home: Path, address: str, token: str) -> None:
        """Write a gateway over HTTP into the agent's own file; Claude Code and Gemini CLI only."""
        headers = {"headers": {"Authorization": f"Bearer {token}"}}
        if self.name == "claude-code":
            entry = {"type": "http", "url": address, "alwaysLoad": True, **headers}
            _write_json(home / ".claude.json", {"mcpServers": {"shortlist": entry}})
        else:
            entry = {"httpUrl": address, **headers}
            _write_json(home / ".gemini" / "settings.json", {"mcpServers": {"shortlist": entry}})

    def set_model(self, home: Path, address: str) -> None:
        """Write the model into the agent's own file, where it takes no other way.

        Claude Code gets permission to call the gateway, unless the home directory has settings.
        """
        permissions = home / ".claude" / "settings.json"
        if self.name == "claude-code" and not permissions.exists():
            _write_json(permissions, {"permissions": {"allow": ["mcp__shortlist"]}})
        if self.name == "opencode":
            file = home / ".config" / "opencode" / "opencode.json"
            settings = json.loads(file.read_text()) if file.exists() else {}
            provider = {
                "npm": "@ai-sdk/openai-compatible",
                "name": "scripted",
                "options": {"baseURL": f"{address}/v1", "apiKey": "x"},
                "models": {"scripted": {"name": "scripted", "tool_call": True}},
            }
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(
                json.dumps({**settings, "provider": {"fake": provider}, "model": "fake/scripted"})
            )
        if self.name == "gemini":
            file = home / ".gemini" / "settings.json"
            settings = json.loads(file.read_text()) if file.exists() else {}
            file.parent.mkdir(parents=True, exist_ok=True)
            auth = {"auth": {"selectedType": "gemini-api-key"}}
            file.write_text(json.dumps({**settings, "security": auth}))

    def _environment(self, home: Path) -> dict[str, str]:
        own = {"HOME": str(home), "CODEX_HOME": str(home / ".codex")}
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        return {**kept, **own, **_KEYS}


def _variables(name: str, address: str) -> dict[str, str]:
    if name == "claude-code":
        return {
            "ANTHROPIC_BASE_URL": address,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "MCP_TIMEOUT": "180000",
            "MCP_CONNECT_TIMEOUT_MS": "120000",
            "MCP_CONNECTION_NONBLOCKING": "0",
        }
    if name == "gemini":
        return {"GOOGLE_GEMINI_BASE_URL": address, "GEMINI_TELEMETRY_ENABLED": "false"}
    return {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}


def _codex_words(address: str) -> list[str]:
    provider = f'{{name="fake",base_url="{address}/v1",env_key="FAKE_KEY",wire_api="responses"}}'
    values = ('model_provider="fake"', f"model_providers.fake={provider}", 'model="fake"')
    words = ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    return [*words, *(word for value in values for word in ("-c", value))]


_WORDS = {
    "claude-code": lambda _: ["--print", "--model", "claude-sonnet-4-5"],
    "codex": _codex_words,
    "opencode": lambda _: ["run", "--model", "fake/scripted"],
    "gemini": lambda _: ["--yolo", "--skip-trust", "-m", "gemini-2.5-pro", "-p"],
}


def _write_json(file: Path, value: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value))


def _common(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: entry[key] for key in ("command", "args", "env")}


def _connect_codex(home: Path, entries: Mapping[str, Mapping[str, Any]]) -> None:
    import tomlkit

    servers = {
        name: {**_common(entry), "cwd": entry["cwd"], "required": True, "startup_timeout_sec": 180}
        for name, entry in entries.items()
    }
    file = home / ".codex" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(tomlkit.dumps({"mcp_servers": servers}))


_DIRECT = {
    "claude-code": lambda home, entries: _write_json(
        home / ".claude.json",
        {
            "mcpServers": {
                name: {"type": "stdio", **_common(entry), "alwaysLoad": True}
                for name, entry in entries.items()
            }
        },
    ),
    "codex": _connect_codex,
    "opencode": lambda home, entries: _write_json(
        home / ".config" / "opencode" / "opencode.json",
        {
            "mcp": {
                name: {
                    "type": "local",
                    "command": [entry["command"], *entry["args"]],
                    "environment": entry["env"],
                    "enabled": True,
                    "timeout": 180_000,
                }
                for name, entry in entries.items()
            }
        },
    ),
    "gemini": lambda home, entries: _write_json(
        home / ".gemini" / "settings.json",
        {"mcpServers": {name: _common(entry) for name, entry in entries.items()}},
    ),
}

AGENTS = (
    CodingAgent("claude-code", "Claude Code 2.1", "@anthropic-ai/claude-code@2.1.330", "claude"),
    CodingAgent("codex", "Codex 0.169", "@openai/codex@0.169.0", "codex"),
    CodingAgent("opencode", "opencode 1.18", "opencode-ai@1.18.33", "opencode"),
    CodingAgent("gemini", "Gemini CLI 0.61", "@google/gemini-cli@0.61.0", "gemini"),
)
