"""The tools of all servers in an MCP client's configuration file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from ..catalog import Tool
from ..errors import CatalogError
from .client_config import read_client_config
from .fleet import Fleet
from .manifests import Manifests
from .server_spec import ServerSpec

_LOOK_S = 0.05
"""Seconds between two looks at whether all servers have listed their tools."""


@dataclass(frozen=True, slots=True)
class ConfiguredTools:
    """The tools of the servers in a configuration file.

    Args:
        tools: all tools; servers in the order of the file.
        problems: problems of the file, of servers and of tools, one line each.
    """

    tools: tuple[Tool, ...]
    problems: tuple[str, ...]


def read_configured_tools(path: Path) -> ConfiguredTools:
    """Start every server of a configuration, list its tools, and stop it.

    Args:
        path: `mcp.json` or the file of another known client; see `read_client_config`.

    Raises:
        ConfigError: the file cannot be read.
        CatalogError: no server lists a tool. The message has the problem of each.

    Example::

        found = read_configured_tools(Path("mcp.json"))
        engine = Engine.from_tools(found.tools)
    """
    config = read_client_config(path)
    fleet = anyio.run(_listed, [spec for spec in config.servers if not spec.disabled])
    problems = list(config.problems)
    for name, upstream in fleet.upstreams.items():
        if upstream.problem is not None:
            problems.append(f"server {name!r}: {upstream.problem}")
        problems += [f"server {name!r}: tool {one}" for one in fleet.listed.problems.get(name, ())]
    order = {name: place for place, name in enumerate(fleet.upstreams)}
    tools = sorted(fleet.engine.catalog, key=lambda tool: order[tool.server or ""])
    if not tools:
        none = "every server is disabled or lists none" if config.servers else "no servers in it"
        reasons = "; ".join(problems) or none
        raise CatalogError(f"{path}: no tools: {reasons}")
    return ConfiguredTools(tuple(tools), tuple(problems))


async def _listed(specs: Iterable[ServerSpec]) -> Fleet:
    # Lists of earlier starts are not used, so that the tools are the present ones.
    with TemporaryDirectory() as folder:
        fleet = Fleet(
            specs,
            engine_settings={"tiers": ["lexical"], "trust": {"scan": False}},
            manifests=Manifests(Path(folder)),
        )
        async with anyio.create_task_group() as group:
            await group.start(fleet.run)
            while fleet.starting:
                await anyio.sleep(_LOOK_S)
            group.cancel_scope.cancel()
    return fleet
