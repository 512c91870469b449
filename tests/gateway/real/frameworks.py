"""Agents written with frameworks from PyPI and npm, each a process with a scripted model."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .packages import npm, pypi

#: Seconds that a conversation may take on a busy machine.
_PATIENCE = 300
_KEYS = ("command", "args", "env", "cwd")
_PROGRAMS = Path(__file__).parent / "framework_programs"


@dataclass(frozen=True, slots=True)
class Framework:
    """One framework.

    Args:
        title: in tables, with its version.
        program: file of the agent in `framework_programs`.
        packages: of its environment, with their versions; the framework first.
    """

    title: str
    program: str
    packages: tuple[str, ...]

    def run(self, folder: Path, servers: Mapping[str, Any], address: str, prompt: str) -> str:
        """One conversation; what the agent printed.

        Args:
            folder: an empty folder, which is its home directory.
            servers: entries of the servers that it starts, by name.
            address: of the model.
            prompt: first message of the user.

        Raises:
            NotInstalledError: a package is missing.
        """
        entries = folder / "servers.json"
        entries.write_text(
            json.dumps(
                {
                    name: {key: entry[key] for key in _KEYS if key in entry}
                    for name, entry in servers.items()
                }
            )
        )
        command = self._node(folder) if self.program.endswith(".mjs") else self._python()
        done = subprocess.run(
            [*command, str(entries), address, prompt],
            cwd=folder,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(folder),
                "MCP_USE_ANONYMIZED_TELEMETRY": "0",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
        )
        return done.stdout + done.stderr

    def _python(self) -> list[str]:
        return [str(pypi(*self.packages) / "python"), str(_PROGRAMS / self.program)]

    def _node(self, folder: Path) -> list[str]:
        # Node looks for packages beside the program.
        (folder / "node_modules").symlink_to(npm(*self.packages).parent)
        return ["node", shutil.copy(_PROGRAMS / self.program, folder)]


FRAMEWORKS = (
    Framework(
        "LangChain MCP adapters 0.3",
        "langchain_agent.py",
        ("langchain-mcp-adapters==0.3.2", "langchain==1.4.7", "langchain-openai==1.7.3"),
    ),
    Framework("OpenAI Agents SDK 0.24", "openai_agent.py", ("openai-agents==0.24.0",)),
    Framework("pydantic-ai 2.68", "pydantic_agent.py", ("pydantic-ai-slim[openai,mcp]==2.68.0",)),
    Framework("FastMCP client 4.1", "fastmcp_client.py", ("fastmcp==4.1.2", "openai==3.54.0")),
    Framework("mcp-use 1.7", "mcp_use_agent.py", ("mcp-use==1.7.1", "langchain-openai==1.7.3")),
    Framework(
        "Vercel AI SDK 7.0",
        "vercel_agent.mjs",
        ("ai@7.0.173", "@ai-sdk/mcp@2.0.99", "@ai-sdk/openai-compatible@3.0.92"),
    ),
)
