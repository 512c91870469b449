"""Catalog: an ordered set of tools, immutable by version."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property
from itertools import chain, islice
from operator import is_
from typing import TYPE_CHECKING, Any, overload

from ..errors import CatalogError, PositionError, UnknownToolError
from .collision import Collision, resolve_collisions
from .mcp_listing import ListsTools, list_definitions
from .schema import digest
from .text_cleaning import ID_LIMIT
from .tool import Tool
from .tool_inputs import Tools, tools_of_inputs

if TYPE_CHECKING:
    from .reading import ReadResult, Rejected, Source


LISTED_SERVERS = 20
"""Servers that an error about a missing one lists."""


class Catalog:
    """An ordered, immutable set of tools, each with its own id.

    Args:
        tools: tools in any form, also mixed, or a mapping of server to them: Tool objects,
            definitions of MCP, OpenAI or Anthropic, objects of the MCP SDK, tools of LangChain,
            pydantic-ai and the OpenAI Agents SDK, and Python functions. For two tools with one id,
            see `Collision`.

    Attributes:
        provider_tools: tools that the model's provider runs, such as `{"type": "web_search"}`. They
            are not searched; a session renders them first, as they are.
        collisions: tools whose id was already used, among the tools this version was made from.
        rejected: bad definitions that were left out, with the reason, if it was read with
            `strict=False`.

    Raises:
        CatalogError: `tools` is none of these.
        ToolError: a definition is bad.

    Example:
        >>> from shortlist import Catalog
        >>> listed = {"git": [{"name": "show_log", "inputSchema": {"type": "object"}}]}
        >>> Catalog(listed)[0].id
        'git/show_log'
    """

    def __init__(self, tools: Tools = ()) -> None:
        given = tools_of_inputs(tools)
        unique, collisions = resolve_collisions(given.tools)
        self.provider_tools: tuple[Mapping[str, Any], ...] = tuple(given.provider_tools)
        self._tools = tuple(unique.values())
        self._ordinals = {tool_id: ordinal for ordinal, tool_id in enumerate(unique)}
        self.collisions: tuple[Collision, ...] = collisions
        self.rejected: tuple[Rejected, ...] = ()

    @classmethod
    def read(
        cls,
        source: Source,
        *,
        format: str = "auto",  # noqa: A002 - the word users know
        server: str | None = None,
        keep_ids: bool = False,
        strict: bool = True,
    ) -> Catalog:
        """Read a file, a folder or a parsed value into a catalog.

        The arguments are those of `read_tools`. With `strict=False`, `rejected` has the bad tools.

        Raises:
            CatalogError: the source cannot be read.
            ToolError: one of its tools is bad, and `strict` is true.

        Example:
            >>> from shortlist import Catalog
            >>> definitions = {"tools": [{"name": "show_log", "inputSchema": {"type": "object"}}]}
            >>> Catalog.read(definitions, format="mcp", server="git")[0].id
            'git/show_log'
        """
        from .reading import read_tools

        return cls._of_reading(
            read_tools(source, format=format, server=server, keep_ids=keep_ids, strict=strict)
        )

    @classmethod
    async def from_client(
        cls, client: ListsTools, *, server: str | None = None, strict: bool = True
    ) -> Catalog:
        """Read the tools that an open MCP client lists.

        Args:
            client: `Client` or `ClientSession` of the MCP SDK, in the event loop it was opened on.
            server: name of the server, which becomes part of each id.
            strict: whether a bad definition raises. If False, it is left out, and `rejected` has
                it.

        Raises:
            ToolError: a definition is bad, and `strict` is true.

        Example:
            >>> import asyncio
            >>> from mcp import Client
            >>> from mcp.server.mcpserver import MCPServer
            >>> from shortlist import Catalog
            >>> server = MCPServer("git")
            >>> show_log = server.tool(name="show_log")(lambda count: count)
            >>> async def load():
            ...     async with Client(server) as client:
            ...         return await Catalog.from_client(client, server="git")
            >>> asyncio.run(load())[0].id
            'git/show_log'
        """
        from .reading import read_tools

        definitions = {"tools": await list_definitions(client)}
        return cls._of_reading(read_tools(definitions, format="mcp", server=server, strict=strict))

    @classmethod
    def _of_reading(cls, reading: ReadResult) -> Catalog:
        catalog = cls(reading.tools)
        catalog.rejected = tuple(reading.rejected)
        return catalog

    def __len__(self) -> int:
        return len(self._tools)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools)

    @overload
    def __getitem__(self, index: int) -> Tool: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Tool, ...]: ...
    def __getitem__(self, index: int | slice) -> Tool | tuple[Tool, ...]:
        try:
            return self._tools[index]
        except TypeError:
            raise CatalogError(
                f"a position is a whole number, not {type(index).__name__}; for an id use get(id)"
            ) from None
        except (IndexError, ValueError) as error:
            raise PositionError(
                f"no position {index!r:.80}: there are {len(self)} tools"
            ) from error

    def __contains__(self, tool_id: object) -> bool:
        return isinstance(tool_id, str) and tool_id in self._ordinals

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Catalog):
            return NotImplemented
        return self._tools == other._tools and self.provider_tools == other.provider_tools

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"Catalog({len(self)} tools, {len(self.servers)} servers, {self.fingerprint[:8]})"

    def get(self, tool_id: str) -> Tool:
        """The tool with this id.

        Raises:
            UnknownToolError: not in the catalog; names the nearest ids.

        Example:
            >>> from shortlist import Catalog, Tool
            >>> catalog = Catalog([Tool("list_invoices", "billing"), Tool("send_mail", "mail")])
            >>> catalog.get("mail/send_mail").name
            'send_mail'
        """
        try:
            return self._tools[self._ordinals[tool_id]]
        except (KeyError, TypeError):
            name = tool_id[:ID_LIMIT] if isinstance(tool_id, str) else repr(tool_id)[:ID_LIMIT]
            raise UnknownToolError(name, nearest_ids(name, self._tools)) from None

    def named(self, name: str) -> tuple[int, ...]:
        """The positions of the tools with exactly this name, on any server.

        Example:
            >>> from shortlist import Catalog, Tool
            >>> catalog = Catalog([Tool("list_invoices", "billing"), Tool("send_mail", "mail")])
            >>> catalog.named("send_mail")
            (1,)
        """
        return self._by_name.get(name, ()) if isinstance(name, str) else ()

    @cached_property
    def servers(self) -> tuple[str, ...]:
        """The servers, in order of their first tool."""
        return tuple(dict.fromkeys(tool.server for tool in self._tools if tool.server is not None))

    @cached_property
    def fingerprint(self) -> str:
        """32 hexadecimal digits over the ids and contents of all tools, in order."""
        return digest(f"{tool.id}\t{tool.fingerprint}".encode() for tool in self._tools)

    def add(self, tools: Tools) -> Catalog:
        """A new catalog with these tools added at the end.

        Example:
            >>> from shortlist import Catalog, Tool
            >>> catalog = Catalog([Tool("list_invoices", "billing"), Tool("send_mail", "mail")])
            >>> len(catalog.add([Tool("read_mail", "mail")]))
            3
        """
        given = tools_of_inputs(tools)
        catalog = self._with(chain(self._tools, given.tools))
        catalog.provider_tools = (*self.provider_tools, *given.provider_tools)
        return catalog

    def remove(self, ids: Iterable[str]) -> Catalog:
        """A new catalog without the tools with these ids.

        Raises:
            UnknownToolError: one of them is not in the catalog.

        Example:
            >>> from shortlist import Catalog, Tool
            >>> catalog = Catalog([Tool("list_invoices", "billing"), Tool("send_mail", "mail")])
            >>> [tool.id for tool in catalog.remove(["mail/send_mail"])]
            ['billing/list_invoices']
        """
        _check_ids(ids)
        removed = {self.get(tool_id).id for tool_id in ids}
        return self._with(tool for tool in self._tools if tool.id not in removed)

    def remove_server(self, server: str) -> Catalog:
        """A new catalog without the tools of this server.

        Raises:
            CatalogError: the catalog has no tools of this server.

        Example:
            >>> from shortlist import Catalog, Tool
            >>> catalog = Catalog([Tool("list_invoices", "billing"), Tool("send_mail", "mail")])
            >>> [tool.id for tool in catalog.remove_server("mail")]
            ['billing/list_invoices']
        """
        if server not in self.servers:
            listed = ", ".join(self.servers[:LISTED_SERVERS]) or "none"
            more = ", ..." if len(self.servers) > LISTED_SERVERS else ""
            raise CatalogError(
                f"server: no {server!r:.80} in the catalog, which has: {listed}{more}"
            )
        return self._with(tool for tool in self._tools if tool.server != server)

    def replace_server(self, server: str, tools: Tools) -> Catalog:
        """A new catalog in which the tools of one server are replaced.

        The new tools take the position of the server's first tool, or the end for a new server.

        Args:
            server: the server's name.
            tools: all the tools the server has now. With an empty list its tools are gone.

        Raises:
            CatalogError: a tool belongs to another server.

        Example:
            >>> from shortlist import Catalog, Tool
            >>> catalog = Catalog([Tool("list_invoices", "billing"), Tool("send_mail", "mail")])
            >>> newer = catalog.replace_server("mail", [Tool("read_mail", "mail")])
            >>> [tool.id for tool in newer]
            ['billing/list_invoices', 'mail/read_mail']
        """
        if not isinstance(server, str) or not server:
            raise CatalogError(f"server: the name of a server, not {server!r:.80}")
        given = tools_of_inputs(tools, server)
        if given.provider_tools:
            kind = given.provider_tools[0]["type"]
            raise CatalogError(
                f"tools: {kind!r:.80} is a tool of the model's provider, not of a server; give it "
                "with the whole catalog"
            )
        fresh = given.tools
        for tool in fresh:
            if tool.server != server:
                raise CatalogError(
                    f"tool {tool.id!r} belongs to server {tool.server!r}, not {server!r}"
                )
        places = (i for i, tool in enumerate(self._tools) if tool.server == server)
        place = next(places, len(self._tools))
        later_tools = (tool for tool in self._tools[place:] if tool.server != server)
        return self._with(chain(self._tools[:place], fresh, later_tools))

    def _with(self, tools: Iterable[Tool]) -> Catalog:
        """The next version: of these tools, with the provider's tools and servers of this one."""
        catalog = Catalog(tools)
        catalog.provider_tools = self.provider_tools
        return catalog

    @cached_property
    def in_id_order(self) -> tuple[Tool, ...]:
        """The tools in order of id.

        Example:
            >>> from shortlist import Catalog, Tool
            >>> catalog = Catalog([Tool("send_mail", "mail"), Tool("list_invoices", "billing")])
            >>> [tool.id for tool in catalog.in_id_order]
            ['billing/list_invoices', 'mail/send_mail']
        """
        return tuple(sorted(self._tools, key=lambda tool: tool.id))

    @cached_property
    def _by_name(self) -> dict[str, tuple[int, ...]]:
        places: dict[str, list[int]] = {}
        for ordinal, tool in enumerate(self._tools):
            places.setdefault(tool.name, []).append(ordinal)
        return {name: tuple(ordinals) for name, ordinals in places.items()}


def differing(earlier: Sequence[Tool], later: Sequence[Tool]) -> tuple[slice, slice]:
    """The parts outside of which two sequences have the same objects, at their ends.

    A change of one server among many tools in order of id is one short part.
    """
    same = list(map(is_, earlier, later))
    start = same.index(False) if False in same else len(same)
    same_at_end = list(map(is_, reversed(earlier[start:]), reversed(later[start:])))
    end = same_at_end.index(False) if False in same_at_end else len(same_at_end)
    return slice(start, len(earlier) - end), slice(start, len(later) - end)


def _check_ids(ids: object) -> None:
    if isinstance(ids, str) or not isinstance(ids, Iterable):
        raise CatalogError(f"ids: a list of ids, not {ids!r:.80}")


#: Ids offered for one that is not there.
MAX_NEAREST = 3
#: Ids compared letter by letter to find them, some 10 ms.
MAX_IDS_COMPARED = 2_000
_WORD = re.compile(r"[^\W_]+")


def nearest_ids(name: str, tools: Sequence[Tool]) -> tuple[str, ...]:
    """Ids of the tools with the requested name, otherwise those with the most similar spelling.

    Args:
        name: the requested id or name, of limited length.
        tools: the tools that may be suggested, preferred ones first.
    """
    bare_name = name.rpartition("/")[2]
    if same_name_ids := [tool.id for tool in tools if tool.name == bare_name]:
        return tuple(same_name_ids[:MAX_NEAREST])
    ids: Iterable[str] = (tool.id for tool in tools)
    if len(tools) > MAX_IDS_COMPARED:
        words = [word for word in _WORD.findall(name) if len(word) > 2][:8]
        ids = islice((id_ for id_ in ids if any(word in id_ for word in words)), MAX_IDS_COMPARED)
    ids_by_spelling = {id_: id_ for id_ in ids}
    if "/" not in name:
        ids_by_spelling = {id_.rpartition("/")[2]: id_ for id_ in ids_by_spelling} | ids_by_spelling
    return tuple(
        dict.fromkeys(
            ids_by_spelling[text]
            for text in get_close_matches(name, ids_by_spelling, n=MAX_NEAREST)
        )
    )
