"""A server's lists besides tools: resources, resource templates, prompts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio
import mcp.types as types
from mcp import Client, MCPError
from pydantic import ValidationError

from .connection_errors import in_one_line

#: Most pages, and most entries, of one list; further ones are not read.
_OFFER_PAGES, _ENTRIES = 200, 10_000
#: Time limit in seconds for one list, so that a slow list does not delay a server with known tools.
_LIST_S = 10.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Offers:
    """A server's resources, resource templates and prompts.

    Args:
        resources: the server's resources.
        templates: the server's resource templates.
        prompts: the server's prompts.
    """

    resources: tuple[types.Resource, ...] = ()
    templates: tuple[types.ResourceTemplate, ...] = ()
    prompts: tuple[types.Prompt, ...] = ()

    def saved(self) -> dict[str, Any]:
        """JSON form."""
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
        """Offers from the result of `saved`.

        Raises:
            ValueError: it is not a result of `saved`.
            KeyError: a list is missing.
        """
        return cls(
            tuple(types.Resource.model_validate(one) for one in saved["resources"]),
            tuple(types.ResourceTemplate.model_validate(one) for one in saved["templates"]),
            tuple(types.Prompt.model_validate(one) for one in saved["prompts"]),
        )


#: The offers of a server with tools only.
NOTHING = Offers()


async def read_offers(client: Client, problems: list[str]) -> Offers:
    """A server's resources, templates and prompts, up to the limits on pages and entries.

    Args:
        client: the connection.
        problems: gets a line for each declared list that cannot be read in full.
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
            for _ in range(_OFFER_PAGES):
                page, cursor = await read(cursor)
                entries += page
                if not cursor or cursor in seen or len(entries) >= _ENTRIES:
                    break
                seen.add(cursor)
    except (MCPError, ValidationError, TimeoutError) as error:
        if isinstance(error, MCPError) and error.code == types.METHOD_NOT_FOUND:
            # Many servers declare resources but have no templates.
            return ()
        why = "it takes too long" if isinstance(error, TimeoutError) else in_one_line(error)
        problems.append(f"its list of {kind} is not read to its end: {why}")
    return tuple(entries[:_ENTRIES])
