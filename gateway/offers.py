"""What a server offers besides tools: resources, templates of resources, prompts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio
import mcp.types as types
from mcp import Client, MCPError
from pydantic import ValidationError

from .connection_errors import in_one_line

#: Pages of one list that are read, and entries of it that are kept.
_PAGES, _ENTRIES = 200, 10_000
#: Seconds in which a list must be read: a server whose tools are known is not held up by it.
_LIST_S = 10.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Offers:
    """What a server offers besides tools.

    Args:
        resources: as the server gave them.
        templates: of addresses of resources.
        prompts: as the server gave them.
    """

    resources: tuple[types.Resource, ...] = ()
    templates: tuple[types.ResourceTemplate, ...] = ()
    prompts: tuple[types.Prompt, ...] = ()

    def saved(self) -> dict[str, Any]:
        """As JSON."""
        return {
            name: [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in given]
            for name, given in (
                ("resources", self.resources),
                ("templates", self.templates),
                ("prompts", self.prompts),
            )
        }

    @classmethod
    def from_saved(cls, saved: Mapping[str, Any]) -> Offers:
        """What `saved` gave.

        Raises:
            ValueError: it is something else.
            KeyError: a list is missing.
        """
        return cls(
            tuple(types.Resource.model_validate(one) for one in saved["resources"]),
            tuple(types.ResourceTemplate.model_validate(one) for one in saved["templates"]),
            tuple(types.Prompt.model_validate(one) for one in saved["prompts"]),
        )


#: What a server offers that has tools only.
NOTHING = Offers()


async def read_offers(client: Client, problems: list[str]) -> Offers:
    """Everything a server offers besides tools, up to the limits on pages and entries.

    Args:
        client: the connection.
        problems: gets a line for each list that the server declares and does not give in full.
    """
    able = client.server_capabilities

    async def resources(cursor: str | None) -> tuple[list[types.Resource], str | None]:
        page = await client.list_resources(cursor=cursor, cache_mode="refresh")
        return page.resources, page.next_cursor

    async def templates(cursor: str | None) -> tuple[list[types.ResourceTemplate], str | None]:
        page = await client.list_resource_templates(cursor=cursor, cache_mode="refresh")
        return page.resource_templates, page.next_cursor

    async def prompts(cursor: str | None) -> tuple[list[types.Prompt], str | None]:
        page = await client.list_prompts(cursor=cursor, cache_mode="refresh")
        return page.prompts, page.next_cursor

    return Offers(
        await _read_pages("resources", resources, problems) if able.resources else (),
        await _read_pages("resource templates", templates, problems) if able.resources else (),
        await _read_pages("prompts", prompts, problems) if able.prompts else (),
    )


async def _read_pages(
    kind: str,
    read: Callable[[str | None], Awaitable[tuple[list[T], str | None]]],
    problems: list[str],
) -> tuple[T, ...]:
    entries: list[T] = []
    seen: set[str | None] = set()
    cursor: str | None = None
    try:
        with anyio.fail_after(_LIST_S):
            for _ in range(_PAGES):
                page, cursor = await read(cursor)
                entries += page
                if not cursor or cursor in seen or len(entries) >= _ENTRIES:
                    break
                seen.add(cursor)
    except (MCPError, ValidationError, TimeoutError) as error:
        if isinstance(error, MCPError) and error.code == types.METHOD_NOT_FOUND:
            # Many servers declare resources and have no templates.
            return ()
        why = "it takes too long" if isinstance(error, TimeoutError) else in_one_line(error)
        problems.append(f"its list of {kind} is not read to its end: {why}")
    return tuple(entries[:_ENTRIES])
