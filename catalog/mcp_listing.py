"""Tools from the MCP SDK: its objects as JSON, and all pages of a client's list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeGuard

_MAX_PAGES = 200
"""Maximum number of pages of `tools/list`, for servers whose pages never end."""
_MAX_DEPTH = 2
"""Levels of lists and mappings around a definition: {server: [tool]}."""


class ListsTools(Protocol):
    """An MCP client that lists tools, such as `Client` and `ClientSession` of the MCP SDK."""

    async def list_tools(self, *, cursor: str | None = None) -> Any:
        """A page of `tools/list`: `tools` and, if more follow, `nextCursor` or `next_cursor`."""
        ...


class PydanticModel(Protocol):
    """An object such as `ListToolsResult` or `Tool` of the MCP SDK."""

    def model_dump(self, *args: Any, **kwargs: Any) -> Any:
        """Its JSON form."""
        ...


def is_pydantic_model(value: object) -> TypeGuard[PydanticModel]:
    """Whether a value is such an object."""
    return callable(getattr(value, "model_dump", None)) and not isinstance(value, type)


def plain_json(value: Any, depth: int = _MAX_DEPTH) -> Any:
    """A value as JSON, with the protocol's names for the fields of MCP SDK objects in it.

    Args:
        value: an object, a list or mapping of objects, or JSON.
        depth: levels of lists and mappings that are searched.
    """
    if is_pydantic_model(value):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if depth and isinstance(value, Mapping):
        return {key: plain_json(item, depth - 1) for key, item in value.items()}
    if depth and isinstance(value, list | tuple):
        return [plain_json(item, depth - 1) for item in value]
    return value


async def list_definitions(client: ListsTools) -> list[Any]:
    """The definitions of all pages of a client, as JSON.

    Args:
        client: an open client. Await this in the event loop in which it was opened.
    """
    rows: list[Any] = []
    cursors: set[str] = set()
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        rows += [plain_json(row) for row in _field(page, "tools") or ()]
        # Some libraries warn of the older name where both exist.
        has_new_name = hasattr(page, "next_cursor")
        cursor = _field(page, "next_cursor" if has_new_name else "nextCursor")
        cursor = cursor or (_field(page, "next_cursor") if isinstance(page, Mapping) else None)
        if not cursor or cursor in cursors:
            break
        cursors.add(cursor)
    return rows


def _field(page: Any, name: str) -> Any:
    return page.get(name) if isinstance(page, Mapping) else getattr(page, name, None)
