"""Real MCP servers from npm and PyPI that list their tools without a network, at fixed versions."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .packages import NotInstalledError, npm, pypi

#: A token in the form that servers check at their start; no service knows it.
_FAKE = "pk.eyJ1IjoieCIsImEiOiJ4In0.x"
#: Stands for the folder that the servers may read and write, in arguments.
WORK = "{work}"


@dataclass(frozen=True, slots=True)
class RealServer:
    """A server and how it is started.

    Args:
        name: in the configuration.
        package: with its version; `==` says that it is from PyPI, otherwise from npm.
        program: in the package's folder of programs.
        args: of the program; `WORK` is replaced.
        env: variables it needs to start; tokens are invalid.
        requires: further requirements of its virtual environment.
    """

    name: str
    package: str
    program: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    requires: tuple[str, ...] = ()

    def entry(self, work: Path, *, install: bool = True) -> dict[str, Any]:
        """Its entry under `mcpServers`.

        Args:
            work: folder that it may read and write.
            install: whether its package is installed where it is missing.

        Raises:
            NotInstalledError: its package is missing.
        """
        own = Path(sys.executable).parent
        if "==" in self.package and not self.requires and (own / self.program).exists():
            programs = own  # a requirement for development
        elif "==" in self.package:
            programs = pypi(self.package, *self.requires, install=install)
        else:
            programs = npm(self.package, install=install)
        return {
            "command": str(programs / self.program),
            "args": [one.replace(WORK, str(work)) for one in self.args],
            "env": {
                "NO_UPDATE_NOTIFIER": "1",
                **{name: value.replace(WORK, str(work)) for name, value in self.env.items()},
            },
            "cwd": str(work),
            "timeout_s": 120,
            "start_timeout_s": 180,
        }


#: The three that `make test` uses.
SMALL = (
    RealServer(
        "filesystem",
        "@modelcontextprotocol/server-filesystem@2026.8.31",
        "mcp-server-filesystem",
        (WORK,),
    ),
    RealServer("git", "mcp-server-git==2026.10.19", "mcp-server-git"),
    RealServer("time", "mcp-server-time==2026.10.19", "mcp-server-time"),
)

SERVERS = (
    *SMALL,
    RealServer(
        "memory",
        "@modelcontextprotocol/server-memory@2026.8.31",
        "mcp-server-memory",
        env={"MEMORY_FILE_PATH": f"{WORK}/memory.jsonl"},
    ),
    RealServer(
        "everything",
        "@modelcontextprotocol/server-everything@2026.8.31",
        "mcp-server-everything",
    ),
    RealServer(
        "sequential-thinking",
        "@modelcontextprotocol/server-sequential-thinking@2026.8.31",
        "mcp-server-sequential-thinking",
    ),
    RealServer(
        "fetch", "mcp-server-fetch==2026.10.24", "mcp-server-fetch", ("--allow-private-ips",)
    ),
    RealServer(
        "sqlite",
        "mcp-server-sqlite==2025.4.25",
        "mcp-server-sqlite",
        ("--db-path", f"{WORK}/data.db"),
        requires=("mcp<2",),
    ),
    RealServer("azure", "@azure/mcp@2.0.5", "azmcp", ("server", "start", "--mode", "all")),
    RealServer(
        "atlassian",
        "mcp-atlassian==0.23.1",
        "mcp-atlassian",
        env={
            "JIRA_URL": "https://x.atlassian.net",
            "JIRA_USERNAME": "a@example.com",
            "JIRA_API_TOKEN": _FAKE,
            "CONFLUENCE_URL": "https://x.atlassian.net/wiki",
            "CONFLUENCE_USERNAME": "a@example.com",
            "CONFLUENCE_API_TOKEN": _FAKE,
            # Some defaults in its definitions are sets, listed in the order of their hashes.
            "PYTHONHASHSEED": "0",
        },
    ),
    RealServer(
        "notion",
        "@notionhq/notion-mcp-server@2.5.2",
        "notion-mcp-server",
        env={"NOTION_TOKEN": _FAKE},
    ),
    RealServer("mongodb", "mongodb-mcp-server@3.0.4", "mongodb-mcp-server"),
    RealServer(
        "sentry", "@sentry/mcp-server@0.39.0", "sentry-mcp", env={"SENTRY_ACCESS_TOKEN": _FAKE}
    ),
    RealServer(
        "hubspot",
        "@hubspot/mcp-server@0.4.0",
        "mcp-hubspot",
        env={"PRIVATE_APP_ACCESS_TOKEN": _FAKE},
    ),
    RealServer(
        "mapbox", "@mapbox/mcp-server@0.14.0", "mcp-server", env={"MAPBOX_ACCESS_TOKEN": _FAKE}
    ),
    RealServer("chrome-devtools", "chrome-devtools-mcp@1.11.0", "chrome-devtools-mcp"),
    RealServer("shopify", "@shopify/dev-mcp@1.16.0", "shopify-dev-mcp"),
    RealServer("playwright", "@playwright/mcp@0.0.83", "playwright-mcp", ("--headless",)),
    RealServer(
        "github",
        "@modelcontextprotocol/server-github@2025.4.8",
        "mcp-server-github",
        env={"GITHUB_PERSONAL_ACCESS_TOKEN": _FAKE},
    ),
    RealServer("context7", "@upstash/context7-mcp@4.1.1", "context7-mcp"),
    RealServer(
        "figma",
        "figma-developer-mcp@0.13.2",
        "figma-developer-mcp",
        ("--stdio",),
        env={"FIGMA_API_KEY": _FAKE},
    ),
    RealServer(
        "elastic",
        "@elastic/mcp-server-elasticsearch@0.3.1",
        "mcp-server-elasticsearch",
        env={"ES_URL": "http://localhost:9200", "ES_API_KEY": _FAKE},
    ),
)


def entries(
    servers: Iterable[RealServer], work: Path, *, install: bool = True
) -> tuple[dict[str, Any], list[str]]:
    """Entries under `mcpServers` by name, and one line for each server that is missing here."""
    found: dict[str, Any] = {}
    missing: list[str] = []
    for server in servers:
        try:
            found[server.name] = server.entry(work, install=install)
        except NotInstalledError as problem:
            missing.append(f"{server.name}: {problem}")
    return found, missing


def fill(work: Path) -> None:
    """Put files, a git repository and a database into a folder, the same bytes each time."""
    (work / "notes").mkdir(parents=True)
    (work / "notes" / "plan.txt").write_text("first line\nsecond line\nthird line\n")
    (work / "notes" / "picture.png").write_bytes(bytes.fromhex("89504e470d0a1a0a") + bytes(64))
    repository = work / "repo"
    repository.mkdir()
    (repository / "code.py").write_text("answer = 42\n")
    fixed = {
        "GIT_AUTHOR_DATE": "2026-01-02T03:04:05Z",
        "GIT_COMMITTER_DATE": "2026-01-02T03:04:05Z",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(work),
    }
    for words in (
        "init --quiet --initial-branch main",
        "config user.name Tester",
        "config user.email tester@example.com",
        "add code.py",
        "commit --quiet -m first",
    ):
        subprocess.run(["git", *words.split()], cwd=repository, env=fixed, check=True)
    (repository / "code.py").write_text("answer = 43\n")
    (repository / "more.py").write_text("more = True\n")
    with sqlite3.connect(work / "data.db") as database:
        database.execute("create table cities (name text, people integer)")
        database.execute("insert into cities values ('Bergen', 291000), ('Oslo', 717000)")
