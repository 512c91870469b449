"""The supported MCP clients: path and format of their configuration files."""

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
#: Seconds that a client waits for the gateway where its own limit is shorter: 10 s in Codex, 5 s in
#: opencode.
_START_TIMEOUT_S = 60
#: Folder of settings below the home directory, by `sys.platform`; Linux and others: `.config`.
_SETTINGS_FOLDERS = {"darwin": "Library/Application Support", "win32": "AppData/Roaming"}
_CLINE_FOLDER = "{settings}/Code/User/globalStorage/saoudrizwan.claude-dev/settings"


@dataclass(frozen=True)
class Client:
    """One MCP client.

    Args:
        name: name on the command line.
        title: name of the product.
        files: paths of its user-wide file below the home directory, most usual first; `{settings}`
            is the operating system's folder for settings.
        server_table_keys: path of keys to the table of servers in the file.
        entry_form: form of a server's entry: `plain` (command and arguments), `typed` (with
            `type: stdio`), `local` (with `type: local`), `zed`, or `opencode` (the command as a
            list).
        more_entry_keys: further keys of the gateway's entry, so that the client waits for the
            gateway and always loads its tools.
        windows_files: paths on Windows, if they differ.
    """

    name: str
    title: str
    files: tuple[str, ...]
    server_table_keys: tuple[str, ...] = ("mcpServers",)
    entry_form: str = "plain"
    more_entry_keys: Mapping[str, Any] = field(default_factory=dict)
    windows_files: tuple[str, ...] = ()

    def paths(self, home: Path, platform: str = sys.platform) -> tuple[Path, ...]:
        """Paths of the client's file, most usual first. The files need not exist."""
        settings = _SETTINGS_FOLDERS.get(platform, ".config")
        files = self.windows_files if platform == "win32" and self.windows_files else self.files
        return tuple(home / file.format(settings=settings) for file in files)

    def path(self, home: Path, platform: str = sys.platform) -> Path:
        """The path that exists, otherwise the most usual one."""
        paths = self.paths(home, platform)
        return next((path for path in paths if path.is_file()), paths[0])

    def gateway_entry(self, config: Path) -> dict[str, Any]:
        """The entry that starts the gateway, in the form of this client.

        Args:
            config: the gateway's configuration file.
        """
        args = ["serve", "--config", str(config)]
        if self.entry_form == "opencode":
            return {"type": "local", "command": [gateway_command(), *args], **self.more_entry_keys}
        fields_by_form = {
            "typed": {"type": "stdio"},
            "local": {"type": "local"},
            "zed": {"source": "custom"},
        }
        return {
            **fields_by_form.get(self.entry_form, {}),
            "command": gateway_command(),
            "args": args,
            **self.more_entry_keys,
        }


_SUPPORTED_CLIENTS = (
    Client("claude-desktop", "Claude Desktop", ("{settings}/Claude/claude_desktop_config.json",)),
    Client(
        "claude-code",
        "Claude Code",
        (".claude.json",),
        entry_form="typed",
        more_entry_keys={"alwaysLoad": True},
    ),
    Client("cursor", "Cursor", (".cursor/mcp.json",)),
    Client(
        "vscode",
        "VS Code",
        ("{settings}/Code/User/mcp.json",),
        server_table_keys=("servers",),
        entry_form="typed",
    ),
    Client(
        "copilot-cli",
        "GitHub Copilot CLI",
        (".copilot/mcp-config.json",),
        entry_form="local",
        more_entry_keys={"tools": ["*"], "deferTools": "never"},
    ),
    Client("gemini", "Gemini CLI", (".gemini/settings.json",)),
    Client("windsurf", "Windsurf", (".codeium/windsurf/mcp_config.json",)),
    Client("cline", "Cline", (f"{_CLINE_FOLDER}/cline_mcp_settings.json",)),
    Client("kiro", "Kiro", (".kiro/settings/mcp.json",)),
    Client(
        "zed",
        "Zed",
        (".config/zed/settings.json",),
        server_table_keys=("context_servers",),
        entry_form="zed",
        windows_files=("AppData/Roaming/Zed/settings.json",),
    ),
    Client(
        "opencode",
        "opencode",
        (".config/opencode/opencode.json", ".config/opencode/opencode.jsonc"),
        server_table_keys=("mcp",),
        entry_form="opencode",
        more_entry_keys={"enabled": True, "timeout": _START_TIMEOUT_S * 1_000},
    ),
    Client(
        "opencode-2",
        "opencode 2",
        (".config/opencode/opencode.json", ".config/opencode/opencode.jsonc"),
        server_table_keys=("mcp", "servers"),
        entry_form="opencode",
        # In its code mode, the model does not see the definitions of the gateway's tools.
        more_entry_keys={
            "disabled": False,
            "codemode": False,
            "timeout": {"startup": _START_TIMEOUT_S * 1_000, "catalog": _START_TIMEOUT_S * 1_000},
        },
    ),
    Client(
        "codex",
        "Codex",
        (".codex/config.toml",),
        server_table_keys=("mcp_servers",),
        # Codex sends the first request without the tools of a server that is not required.
        more_entry_keys={"required": True, "startup_timeout_sec": _START_TIMEOUT_S},
    ),
)
CLIENTS: Mapping[str, Client] = {client.name: client for client in _SUPPORTED_CLIENTS}


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
