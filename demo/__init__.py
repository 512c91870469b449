"""The demo: six servers with 120 tools, as in the Tool Attention testbed, and a dozen requests.

Tools and requests were written for this project; nothing runs behind them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from ..catalog import Catalog, Tool, read_tools

SERVERS = ("github", "filesystem", "database", "slack", "web", "jira")
"""The servers, in the order of the testbed's table."""


@dataclass(frozen=True, slots=True)
class DemoQuery:
    """A request and the tools that serve it.

    Args:
        query: in a user's words.
        relevant: ids of the tools it takes.
    """

    query: str
    relevant: tuple[str, ...]


def load_catalog() -> Catalog:
    """The 120 tools of the six servers."""
    return Catalog(tool for server in SERVERS for tool in _tools(server))


def load_requests() -> tuple[DemoQuery, ...]:
    """The dozen requests."""
    rows = _read("requests.json")
    return tuple(DemoQuery(row["query"], tuple(row["relevant"])) for row in rows)


def _tools(server: str) -> tuple[Tool, ...]:
    return read_tools(_read("catalog", f"{server}.json"), format="mcp").tools


def _read(*path: str) -> Any:
    return json.loads(files(__package__).joinpath(*path).read_text(encoding="utf-8"))
