"""The table of MCP clients: where the file of each is, and the entry that starts the gateway in it.

To support another client, add its row to `_ROWS` here and to the table of `docs/clients.md`.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import ConfigError

#: Name of the gateway's own entry in a client's file.
GATEWAY_NAME = "shortlist"
#: Folder of settings below the home directory, by `sys.platform`; Linux and others: `.config`.
_SETTINGS_FOLDERS = {"darwin": "Library/Application Support", "win32": "AppData/Roaming"}


@dataclass(frozen=True)
class Client:
    """One MCP client: a row of the table.

    Args:
        name: name on the command line.
        title: name of the product.
        files: paths of its user-wide file below the home directory, most usual first; `{settings}`
            is the operating system's folder for settings. A file `.toml` is TOML, others JSON.
        table_keys: path of keys to the table of servers in the file.
        entry_keys: keys of the gateway's entry besides the command: those that the client requires,
            and those that make it wait for the gateway and always load its tools.
        joins_command: whether the entry's `command` is a list that contains the arguments.
        windows_files: paths on Windows, if they differ.
        hooks_file: path of its file with hooks below the home directory; empty if the gateway has
            no hooks for it.
        reported_name: beginning of the name that it gives itself in the protocol, in lower case
            with hyphens; empty if nobody saw it.
    """

    name: str
    title: str
    files: tuple[str, ...]
    table_keys: tuple[str, ...] = ("mcpServers",)
    entry_keys: Mapping[str, Any] = field(default_factory=dict)
    joins_command: bool = False
    windows_files: tuple[str, ...] = ()
    hooks_file: str = ""
    reported_name: str = ""

    def paths(self, home: Path, platform: str = sys.platform) -> tuple[Path, ...]:
        """Paths of the client's file, most usual first. The files need not exist."""
        settings = _SETTINGS_FOLDERS.get(platform, ".config")
        files = self.windows_files if platform == "win32" and self.windows_files else self.files
        return tuple(home / file.format(settings=settings) for file in files)

    def path(self, home: Path) -> Path:
        """The path that exists, otherwise the most usual one."""
        paths = self.paths(home)
        return next((path for path in paths if path.is_file()), paths[0])

    def gateway_entry(self, config: Path) -> dict[str, Any]:
        """The entry that starts the gateway, in the form of this client."""
        command, args = gateway_command(), ["serve", "--config", str(config)]
        if self.joins_command:
            return {"command": [command, *args], **self.entry_keys}
        return {"command": command, "args": args, **self.entry_keys}


_ROWS = (
    Client(
        "claude-desktop",
        "Claude Desktop",
        ("{settings}/Claude/claude_desktop_config.json",),
        reported_name="claude-ai",
    ),
    Client(
        "claude-code",
        "Claude Code",
        (".claude.json",),
        entry_keys={"type": "stdio", "alwaysLoad": True},
        hooks_file=".claude/settings.json",
        reported_name="claude-code",
    ),
    Client("cursor", "Cursor", (".cursor/mcp.json",), reported_name="cursor"),
    Client(
        "vscode",
        "VS Code",
        ("{settings}/Code/User/mcp.json",),
        table_keys=("servers",),
        entry_keys={"type": "stdio"},
        reported_name="visual-studio-code",
    ),
    Client(
        "copilot-cli",
        "GitHub Copilot CLI",
        (".copilot/mcp-config.json",),
        entry_keys={"type": "local", "tools": ["*"], "deferTools": "never"},
        reported_name="copilot-cli",
    ),
    Client("gemini", "Gemini CLI", (".gemini/settings.json",), reported_name="gemini-cli"),
    Client(
        "windsurf", "Windsurf", (".codeium/windsurf/mcp_config.json",), reported_name="windsurf"
    ),
    Client(
        "cline",
        "Cline",
        (
            "{settings}/Code/User/globalStorage/saoudrizwan.claude-dev/settings/"
            "cline_mcp_settings.json",
        ),
        reported_name="cline",
    ),
    # Kiro CLI kept the name of the program it was made from (Kiro issue 6935).
    Client("kiro", "Kiro", (".kiro/settings/mcp.json",), reported_name="q-dev-cli"),
    Client(
        "zed",
        "Zed",
        (".config/zed/settings.json",),
        table_keys=("context_servers",),
        entry_keys={"source": "custom"},
        windows_files=("AppData/Roaming/Zed/settings.json",),
        reported_name="zed",
    ),
    Client(
        "opencode",
        "opencode",
        (".config/opencode/opencode.json", ".config/opencode/opencode.jsonc"),
        table_keys=("mcp",),
        # Its own limit is 5 s.
        entry_keys={"type": "local", "enabled": True, "timeout": 60_000},
        joins_command=True,
        reported_name="opencode",
    ),
    Client(
        "opencode-2",
        "opencode 2",
        (".config/opencode/opencode.json", ".config/opencode/opencode.jsonc"),
        table_keys=("mcp", "servers"),
        entry_keys={
            "type": "local",
            "disabled": False,
            # In its code mode, the model does not see the definitions of the gateway's tools.
            "codemode": False,
            "timeout": {"startup": 60_000, "catalog": 60_000},
        },
        joins_command=True,
    ),
    Client(
        "codex",
        "Codex",
        (".codex/config.toml",),
        table_keys=("mcp_servers",),
        # Codex sends the first request without the tools of a server that is not required. Its own
        # limit is 10 s.
        entry_keys={"required": True, "startup_timeout_sec": 60},
        reported_name="codex-mcp-client",
    ),
)
CLIENTS: Mapping[str, Client] = {client.name: client for client in _ROWS}


def permits_by_tool_name(reported_name: str) -> bool:
    """Whether a client's user permits tools by their names, as in all clients of the table.

    Args:
        reported_name: the name that the client gives itself, such as "Visual Studio Code".
    """
    name = reported_name.lower().replace(" ", "-")
    return any(row.reported_name and name.startswith(row.reported_name) for row in _ROWS)


def gateway_command() -> str:
    """The command for a client's file: `shortlist`, or its full path when it is not on PATH.

    A virtual environment is on the PATH of the shell that activated it, but not of the client.
    """
    folders = {
        sysconfig.get_path("scripts"),
        sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user")),
    }
    program = shutil.which(GATEWAY_NAME, path=os.pathsep.join(folders))
    if program is None:
        return GATEWAY_NAME
    is_environment = sys.prefix != sys.base_prefix
    search_path = [
        folder
        for folder in os.environ.get("PATH", os.defpath).split(os.pathsep)
        if not (is_environment and Path(folder) == Path(program).parent)
    ]
    on_path = shutil.which(GATEWAY_NAME, path=os.pathsep.join(search_path))
    if on_path is not None and Path(on_path).resolve() == Path(program).resolve():
        return GATEWAY_NAME
    return program


def find_client(name: str) -> Client:
    """A client by its name.

    Raises:
        ConfigError: there is no such client. The message lists all clients.
    """
    try:
        return CLIENTS[name]
    except KeyError:
        listed = ", ".join(CLIENTS)
        raise ConfigError(f"no client {name!r:.80}; use one of: {listed}") from None
