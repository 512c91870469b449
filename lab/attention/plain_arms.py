"""Arms without a session: full schemas, static pruning, simple retrieval, and discovery."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from ...catalog import Catalog, Tool
from ...loaders.levels import definition_text
from .arm import Running, ShownTools, Stateless, text_of
from .tasks import TaskScript, TaskTurn

STATIC_TOOLS = 30
RETRIEVED_TOOLS = 10


def definition(tool: Tool) -> str:
    """A full definition: compact JSON of id, description and input schema."""
    return definition_text(tool.id, tool.description, tool.input_schema)


class Standing(Stateless):
    """The same full schemas in every turn.

    Args:
        tools: those shown.
    """

    def __init__(self, tools: Iterable[Tool]) -> None:
        shown = tuple(tools)
        ids = frozenset(tool.id for tool in shown)
        self._shown = ShownTools(
            (text_of([definition(tool) for tool in shown]),), (), (), ids, ids, ids
        )

    def begin(self, script: TaskScript) -> Running:  # noqa: ARG002 - nothing depends on it
        """Start a conversation. All are the same."""
        return self

    def show(self, turn: TaskTurn) -> ShownTools:  # noqa: ARG002 - nothing depends on it
        """The full schemas."""
        return self._shown


def curated(
    catalog: Catalog, scripts: Sequence[TaskScript], count: int = STATIC_TOOLS
) -> list[Tool]:
    """The tools that every second task needs most often, ties in catalog order.

    The arm is measured on all tasks, so half of them were used for the choice.
    """
    uses = Counter(
        tool_id for script in scripts[::2] for turn in script.turns for tool_id in turn.needed
    )
    return sorted(catalog, key=lambda tool: -uses[tool.id])[:count]


class Retrieval(Stateless):
    """The full schemas of the best hits for the last message, after a constant pool or without one.

    The schemas are right before the user's message, where a change affects the fewest cached
    tokens.

    Args:
        catalog: the tools.
        search: function from request to ids, best first.
        pool: text of phase 1.
    """

    def __init__(
        self, catalog: Catalog, search: Callable[[str], Sequence[str]], pool: str = ""
    ) -> None:
        self._catalog = catalog
        self._search = search
        self._pool = (pool,) if pool else ()
        self._visible = frozenset(tool.id for tool in catalog) if pool else frozenset()

    def begin(self, script: TaskScript) -> Running:  # noqa: ARG002 - nothing depends on it
        """Start a conversation without state."""
        return self

    def show(self, turn: TaskTurn) -> ShownTools:
        """The schemas found for the user's message."""
        tools = [self._catalog.get(tool_id) for tool_id in self._search(turn.user)]
        ids = frozenset(tool.id for tool in tools)
        tail = (text_of([definition(tool) for tool in tools]),) if tools else ()
        return ShownTools(self._pool, (), tail, ids, ids, ids | self._visible)


_COMMAND = definition_text(
    "cli",
    "Run a command: `SERVER --list` names a server's tools, `SERVER TOOL --help` tells one's "
    "arguments, `SERVER TOOL --json ARGUMENTS` calls it.",
    {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
)


class Discovery:
    """Tools as commands that a model lists and asks about when it needs them.

    An oracle: it assumes that the model lists exactly the servers, and asks about exactly the
    tools, that it needs, once each. The answers stay in the conversation. So its cost is a lower
    bound, and its coverage is an assumption and no measurement.

    Args:
        catalog: all tools.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._servers: dict[str, list[Tool]] = {}
        for tool in catalog:
            self._servers.setdefault(tool.server or "", []).append(tool)
        counts = ", ".join(f"{name} ({len(tools)})" for name, tools in self._servers.items())
        self.head = text_of([_COMMAND, f"Servers: {counts}"])

    def begin(self, script: TaskScript) -> Running:  # noqa: ARG002 - nothing depends on it
        """Start a conversation without any answers."""
        return _Discovering(self)

    def listing(self, server: str) -> str:
        """The answer to `--list`."""
        names = ", ".join(tool.name for tool in self._servers[server])
        return text_of([f"{server} --list", names])

    def help(self, server: str, tool_id: str) -> str:
        """The answer to `--help`."""
        tool = next(tool for tool in self._servers[server] if tool.id == tool_id)
        return text_of([f"{server} {tool.name} --help", definition(tool)])

    def server_of(self, tool_id: str) -> str:
        """The server of a tool."""
        return next(
            name
            for name, tools in self._servers.items()
            if any(tool.id == tool_id for tool in tools)
        )

    def names(self, server: str) -> frozenset[str]:
        """Ids of a server's tools."""
        return frozenset(tool.id for tool in self._servers[server])


class _Discovering(Stateless):
    def __init__(self, arm: Discovery) -> None:
        self._arm = arm
        self._listed: dict[str, str] = {}
        self._told: dict[str, str] = {}
        self._batches: list[str] = []

    def show(self, turn: TaskTurn) -> ShownTools:
        """All answers so far, with those for this turn."""
        servers = {tool_id: self._arm.server_of(tool_id) for tool_id in turn.needed}
        listed = [name for name in dict.fromkeys(servers.values()) if name not in self._listed]
        asked = [tool_id for tool_id in turn.needed if tool_id not in self._told]
        for name in listed:
            self._listed[name] = self._arm.listing(name)
            self._batches.append(self._listed[name])
        for tool_id in asked:
            self._told[tool_id] = self._arm.help(servers[tool_id], tool_id)
            self._batches.append(self._told[tool_id])
        visible = frozenset().union(*map(self._arm.names, self._listed))
        return ShownTools(
            (self._arm.head,),
            tuple(self._batches),
            (),
            frozenset(self._told),
            frozenset(self._told),
            visible,
            extra_calls=bool(listed) + bool(asked),
        )
