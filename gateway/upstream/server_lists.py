"""A server's lists: tools, resources, resource templates, prompts, skills.

They are read page by page, and again after a change.

The SDK refuses a whole page if one tool on it is malformed. Here only that tool is removed, before
the SDK sees the page, and reported as a problem.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic
from typing import Any, TypeVar

import anyio
import mcp.types as types
from mcp import Client, MCPError
from mcp.client.subscriptions import SubscriptionLost
from mcp.types.methods import validate_server_result
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from ...catalog.text_cleaning import DESCRIPTION_LIMIT, NAME_LIMIT
from ..connections.connection_errors import error_in_one_line
from ..connections.openapi_server import PROBLEMS_META_KEY
from .skills import SKILLS_EXTENSION, Skill, checked_skill, read_skills_page, with_text

#: Most pages, and most entries, of one list; further ones are not read.
_MAX_PAGES, _MAX_ENTRIES = 200, 10_000
#: Time limit in seconds for one list, so that a slow list does not delay a server with known tools.
_LIST_TIMEOUT_S = 10.0

#: Most bytes of a list of tools, and of one of resources, templates or prompts. The longest real
#: list of tools found has 0.6 MB.
_MAX_TOOL_LIST_BYTES, _MAX_OTHER_LIST_BYTES = 16_000_000, 4_000_000
#: Most characters of an address, most arguments of a prompt, and most bytes of each extra field.
_MAX_URI_CHARS, _MAX_ARGUMENTS, _MAX_EXTRA_FIELD_BYTES = 4_096, 100, 20_000
_EXTRA_FIELDS = ("icons", "annotations", "meta", "mime_type")

#: Most skills of a server. Each is one more request.
_MAX_SKILLS = 100
#: Most files of all its skills. The address of each is scanned, in 0.3 ms.
_MAX_SKILL_FILES = 2_000

Entry = TypeVar("Entry", bound=BaseModel)
Kept = TypeVar("Kept", bound=BaseModel)
Page = TypeVar("Page", bound=types.PaginatedResult)
#: Reads the page with a cursor, and gives it with its entries; None for the first page.
ReadPage = Callable[[str | None], Awaitable[tuple[Page, list[Entry]]]]
ResourceOrPrompt = TypeVar("ResourceOrPrompt", types.Resource, types.ResourceTemplate, types.Prompt)


@dataclass(frozen=True, slots=True)
class ResourcesAndPrompts:
    """A server's resources, resource templates, prompts and skills.

    Args:
        resources: the server's resources.
        templates: the server's resource templates.
        prompts: the server's prompts.
        skills: the server's skills.
    """

    resources: tuple[types.Resource, ...] = ()
    templates: tuple[types.ResourceTemplate, ...] = ()
    prompts: tuple[types.Prompt, ...] = ()
    skills: tuple[Skill, ...] = ()


#: The lists of a server with tools only.
NO_RESOURCES_OR_PROMPTS = ResourcesAndPrompts()


async def read_resources_and_prompts(client: Client, problems: list[str]) -> ResourcesAndPrompts:
    """A server's resources, templates, prompts and skills, up to the limits on pages and entries.

    Args:
        client: the connection.
        problems: gets a line for each declared list that cannot be read in full.
    """
    capabilities = client.server_capabilities

    async def read(is_declared: object, kind: str, list_page: Any, field: str) -> tuple[Any, ...]:
        async def read_page(cursor: str | None) -> tuple[types.PaginatedResult, list[Any]]:
            page = await list_page(cursor=cursor, cache_mode="bypass")
            return page, getattr(page, field)

        if not is_declared:
            return ()
        return await _read_list(kind, read_page, problems, _bounded_entry)

    resources, prompts = capabilities.resources, capabilities.prompts
    templates = client.list_resource_templates
    return ResourcesAndPrompts(
        resources=await read(resources, "resources", client.list_resources, "resources"),
        templates=await read(resources, "resource templates", templates, "resource_templates"),
        prompts=await read(prompts, "prompts", client.list_prompts, "prompts"),
        skills=await _read_skills(client, problems),
    )


async def _read_skills(client: Client, problems: list[str]) -> tuple[Skill, ...]:
    """The skills of a server with their texts; empty if it does not declare the extension."""
    if SKILLS_EXTENSION not in (client.server_capabilities.extensions or {}):
        return ()
    listed = await _read_list("skills", partial(read_skills_page, client), problems, checked_skill)
    if len(listed) > _MAX_SKILLS:
        problems.append(f"it lists more than {_MAX_SKILLS} skills; the rest is left out")
    skills: list[Skill] = []
    file_count = 0
    try:
        with anyio.fail_after(_LIST_TIMEOUT_S):
            for skill in listed[:_MAX_SKILLS]:
                file_count += len(skill.files)
                if file_count > _MAX_SKILL_FILES:
                    problems.append(
                        f"its skills have over {_MAX_SKILL_FILES:,} files; the rest is left out"
                    )
                    break
                # Not a comprehension: what is read before the time is over stays.
                read_skill = await with_text(client, skill, problems)
                skills += [] if read_skill is None else [read_skill]
    except TimeoutError:
        problems.append("its skills are not read to their end: it takes too long")
    return tuple(skills)


async def _read_list(
    kind: str,
    read_page: ReadPage[types.PaginatedResult, Entry],
    problems: list[str],
    bounded: Callable[[Entry, list[str]], Kept | None],
) -> tuple[Kept, ...]:
    """A list besides that of tools. It is empty if the server does not know the method."""
    entries: list[Entry] = []
    try:
        with anyio.fail_after(_LIST_TIMEOUT_S):
            async for _, page_entries in _pages(kind, read_page, _MAX_OTHER_LIST_BYTES, problems):
                entries += page_entries
    except (MCPError, ValidationError, TimeoutError) as error:
        if isinstance(error, MCPError) and error.code == types.METHOD_NOT_FOUND:
            # Many servers declare resources but have no templates.
            return ()
        reason = (
            "it takes too long" if isinstance(error, TimeoutError) else error_in_one_line(error)
        )
        problems.append(f"its list of {kind} is not read to its end: {reason}")
    entry_problems: list[str] = []
    bounded_entries = [bounded(entry, entry_problems) for entry in entries]
    problems += entry_problems[:_MAX_PROBLEMS]
    if (more := len(entry_problems) - _MAX_PROBLEMS) > 0:
        problems.append(f"its list of {kind} has {more:,} more such problems")
    return tuple(entry for entry in bounded_entries if entry is not None)


async def _pages(
    kind: str, read_page: ReadPage[Page, Entry], max_bytes: int, problems: list[str]
) -> AsyncIterator[tuple[Page, list[Entry]]]:
    """The pages of a list, up to the limits on pages, entries and bytes.

    Args:
        kind: what is listed.
        read_page: reads a page.
        max_bytes: most bytes of all pages.
        problems: gets a line if the list is not read to its end.

    Yields:
        A page, and its entries within the limits.
    """
    budget, entry_count = _ByteBudget(max_bytes), 0
    cursor: str | None = None
    cursors_read: set[str] = set()
    for number in range(1, _MAX_PAGES + 1):
        page, page_entries = await read_page(cursor)
        entries = budget.fitting(page, page_entries)
        yield page, entries[: _MAX_ENTRIES - entry_count]
        entry_count += len(entries)
        cursor = page.next_cursor
        if budget.is_exceeded:
            problems.append(budget.problem(kind))
        elif entry_count > _MAX_ENTRIES or (cursor and entry_count == _MAX_ENTRIES):
            problems.append(f"it lists more than {_MAX_ENTRIES:,} {kind}; the rest is left out")
        elif cursor in cursors_read:
            problems.append(
                f"its list of {kind} has no end: page {number} leads to one that was read"
            )
        elif cursor and number == _MAX_PAGES:
            problems.append(
                f"its list of {kind} has more than {_MAX_PAGES} pages; the rest is left out"
            )
        elif cursor:
            cursors_read.add(cursor)
            continue
        return


class _ByteBudget:
    """The bytes of one list, all pages together.

    Args:
        max_bytes: most bytes.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = self._free_bytes = max_bytes

    @property
    def is_exceeded(self) -> bool:
        """Whether the pages so far have more bytes."""
        return self._free_bytes < 0

    def fitting(self, page: BaseModel, entries: list[Entry]) -> list[Entry]:
        """The entries of the next page that are within the budget.

        Args:
            page: the page. Its cursor and `_meta` count too.
            entries: the entries of the page.
        """
        page_bytes = len(to_json(page))
        free_bytes = self._free_bytes
        self._free_bytes -= page_bytes
        if page_bytes <= free_bytes:
            return entries
        fitting: list[Entry] = []
        for entry in entries:
            free_bytes -= len(to_json(entry))
            if free_bytes < 0:
                break
            fitting.append(entry)
        return fitting

    def problem(self, kind: str) -> str:
        """The problem of a list that is over the budget."""
        return f"its list of {kind} has more than {self._max_bytes:,} bytes; the rest is left out"


def _bounded_entry(entry: ResourceOrPrompt, problems: list[str]) -> ResourceOrPrompt | None:
    """A resource, template or prompt with texts as short as those of tools.

    Args:
        entry: the server's definition.
        problems: gets a line for each text that is cut, and for a definition that is left out.

    Returns:
        None if its name or address is too long, because these cannot be cut.
    """
    changes: dict[str, Any] = {}
    if isinstance(entry, types.Prompt):
        label, most_chars = f"prompt {entry.name!r:.80}", NAME_LIMIT
        arguments: Sequence[types.PromptArgument] = entry.arguments or ()
        longest = max(len(name) for name in [entry.name, *(row.name for row in arguments)])
        if longest <= NAME_LIMIT and arguments:
            changes["arguments"] = _bounded_arguments(arguments, label, problems)
    else:
        uri = entry.uri if isinstance(entry, types.Resource) else entry.uri_template
        label, most_chars, longest = f"resource {uri!r:.80}", _MAX_URI_CHARS, len(uri)
        changes["name"] = _cut(entry.name, NAME_LIMIT, f"{label}: its name", problems)
    if longest > most_chars:
        problems.append(
            f"{label} is left out: a name or address of it has {longest:,} characters, "
            f"more than {most_chars:,}"
        )
        return None
    changes |= _bounded_texts(entry, label, problems)
    for field in _EXTRA_FIELDS:
        value = getattr(entry, field, None)
        if value is not None and len(to_json(value)) > _MAX_EXTRA_FIELD_BYTES:
            changes[field] = None
            problems.append(
                f"{label}: its {field} has more than {_MAX_EXTRA_FIELD_BYTES:,} bytes; left out"
            )
    return entry.model_copy(update=changes)


def _bounded_arguments(
    arguments: Sequence[types.PromptArgument], label: str, problems: list[str]
) -> list[types.PromptArgument]:
    if len(arguments) > _MAX_ARGUMENTS:
        problems.append(
            f"{label}: it has {len(arguments):,} arguments; only the first {_MAX_ARGUMENTS} are "
            "read"
        )
    return [
        argument.model_copy(
            update=_bounded_texts(argument, f"{label}: argument {argument.name!r:.80}", problems)
        )
        for argument in arguments[:_MAX_ARGUMENTS]
    ]


def _bounded_texts(
    entry: ResourceOrPrompt | types.PromptArgument, label: str, problems: list[str]
) -> dict[str, str]:
    """The title and the description, if there are any."""
    limits = {"title": NAME_LIMIT, "description": DESCRIPTION_LIMIT}
    texts = {field: getattr(entry, field) for field in limits}
    return {
        field: _cut(text, limits[field], f"{label}: its {field}", problems)
        for field, text in texts.items()
        if text is not None
    }


def _cut(text: str, limit: int, subject: str, problems: list[str]) -> str:
    if len(text) > limit:
        problems.append(
            f"{subject} has {len(text):,} characters; only the first {limit:,} are read"
        )
    return text[:limit]


_TOOLS_METHOD = "tools/list"
#: The protocol version with the strictest rules for tools.
_STRICTEST_PROTOCOL_VERSION = "2025-11-25"
#: Most problems that are stored for a connection.
_MAX_PROBLEMS = 100


class ToolPages:
    """Checks the pages of the lists of tools that come over one connection.

    Args:
        pages_name_problems: whether the pages name the problems of their tools in `_meta`; only
            those of a server that is a part of the gateway do.

    Attributes:
        removes_malformed: whether malformed tools are removed. It is set after the SDK refused a
            page, because the check takes as long as reading the page.
        problems: one line for each tool that was left out.
    """

    def __init__(self, *, pages_name_problems: bool = False) -> None:
        self.removes_malformed = False
        self.pages_name_problems = pages_name_problems
        self.problems: list[str] = []
        self._requested: set[types.RequestId] = set()

    def record_request(self, message: types.JSONRPCMessage) -> None:
        """Record a request for a page."""
        if isinstance(message, types.JSONRPCRequest) and message.method == _TOOLS_METHOD:
            self._requested.add(message.id)

    def filter_response(self, message: types.JSONRPCMessage) -> None:
        """Remove malformed tools if the message is a page and `removes_malformed` is set."""
        if isinstance(message, types.JSONRPCResponse) and message.id in self._requested:
            self._requested.discard(message.id)
            tools = message.result.get("tools")
            if isinstance(tools, list) and self.removes_malformed:
                message.result["tools"] = self.valid_tools(tools)

    def valid_tools(self, tools: list[Any]) -> list[Any]:
        """The valid tools of a page. The others become problems."""
        return [tool for tool in tools if self._is_valid(tool)]

    def _is_valid(self, tool: Any) -> bool:
        if isinstance(tool, dict):
            for field in ("inputSchema", "outputSchema"):
                if isinstance(schema := tool.get(field), dict):
                    schema.setdefault("type", "object")
        try:
            validate_server_result(_TOOLS_METHOD, _STRICTEST_PROTOCOL_VERSION, {"tools": [tool]})
        except ValidationError as error:
            if len(self.problems) < _MAX_PROBLEMS:
                first_error = error.errors(include_url=False, include_input=False)[0]
                name = tool.get("name") if isinstance(tool, dict) else None
                place = ".".join(map(str, first_error["loc"][2:])) or "the tool"
                self.problems.append(
                    f"tool {name!r:.80} is left out: {place}: {first_error['msg']}"
                )
            return False
        return True


#: Most characters of a description; the rest is cut.
_MAX_DESCRIPTION_CHARS = 20_000


@dataclass(frozen=True, slots=True)
class Listing:
    """The lists of a server.

    Args:
        tools: the server's definitions.
        instructions: the server's instructions.
        valid_s: seconds for which the list of tools is valid, by the server; 0 if unknown.
        problems: problems of its lists, one line each.
        resources_and_prompts: its other lists.
    """

    tools: tuple[types.Tool, ...]
    instructions: str = ""
    valid_s: float = 0.0
    problems: tuple[str, ...] = ()
    resources_and_prompts: ResourcesAndPrompts = NO_RESOURCES_OR_PROMPTS


async def read_listing(client: Client, pages: ToolPages) -> Listing:
    """All lists of a server, up to the limits on pages and entries.

    Args:
        client: the connection.
        pages: pages of the connection. Malformed tools on them are left out and become problems.
    """
    tools = await _read_tools(client, pages)
    problems: list[str] = []
    lists = await read_resources_and_prompts(client, problems)
    return replace(tools, problems=(*tools.problems, *problems), resources_and_prompts=lists)


async def _read_tools(client: Client, pages: ToolPages) -> Listing:
    tools: list[types.Tool] = []
    problems: list[str] = []
    valid_seconds = [float("inf")]
    pages.problems = []
    instructions = _cut(
        client.instructions or "", _MAX_DESCRIPTION_CHARS, "the text of its instructions", problems
    )
    if client.server_capabilities.tools is not None:
        read_page = partial(_read_tool_page, client, pages)
        async for page, page_tools in _pages("tools", read_page, _MAX_TOOL_LIST_BYTES, problems):
            for tool in page_tools:
                _shorten_description(tool, problems)
            tools += page_tools
            if pages.pages_name_problems:
                problems += (page.meta or {}).get(PROBLEMS_META_KEY, ())
            valid_seconds.append(page.ttl_ms / 1e3)
    return Listing(
        tools=tuple(tools),
        instructions=instructions,
        valid_s=min(valid_seconds),
        problems=(*problems, *pages.problems),
    )


def _shorten_description(tool: types.Tool, problems: list[str]) -> None:
    if tool.description:
        subject = f"tool {tool.name!r:.80}: its description"
        tool.description = _cut(tool.description, _MAX_DESCRIPTION_CHARS, subject, problems)


async def _read_tool_page(
    client: Client, pages: ToolPages, cursor: str | None
) -> tuple[types.ListToolsResult, list[types.Tool]]:
    try:
        page = await client.list_tools(cursor=cursor, cache_mode="bypass")
    except ValidationError:
        if pages.removes_malformed:
            raise
        pages.removes_malformed = True
        page = await client.list_tools(cursor=cursor, cache_mode="bypass")
    return page, page.tools


_LOG = logging.getLogger("shortlist.gateway")
#: Seconds between a change of a list and its reading: at first, and at most if changes go on.
_FIRST_SETTLE_S, _MAX_SETTLE_S = 0.2, 30.0
#: Least number of seconds for which a list counts as fresh. A server cannot shorten it.
_MIN_VALID_S = 60.0
#: Seconds before the gateway asks for changes again after their stream ended: at first, at most.
_FIRST_RELISTEN_S, _MAX_RELISTEN_S = 5.0, 300.0

#: Messages by which a server says that a list has changed.
LIST_CHANGE_NOTIFICATIONS = (
    types.ToolListChangedNotification,
    types.ResourceListChangedNotification,
    types.PromptListChangedNotification,
)


class RereadingSchedule:
    """Time of the next reading of a list: soon after a change, and later if many changes follow.

    Args:
        wake: called when a reading becomes due.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._settle_s = _FIRST_SETTLE_S
        self._last_read_at = monotonic()
        self._due_at: float | None = None

    def note_change(self) -> None:
        """Note that the list changed. It is read a moment later, with further changes."""
        if self._due_at is not None:
            return
        now = monotonic()
        is_calm = now >= self._last_read_at + 2 * self._settle_s
        self._settle_s = _FIRST_SETTLE_S if is_calm else min(self._settle_s * 2, _MAX_SETTLE_S)
        self._due_at = now + self._settle_s
        self._wake()

    def next_reading_at(self, client: Client, valid_s: float) -> float:
        """The time of the next reading, as of `monotonic`.

        Args:
            client: the connection. If the server reports changes, `valid_s` is not used.
            valid_s: number of seconds after which the server's list may be outdated.
        """
        if self._due_at is not None:
            return self._due_at
        if not valid_s or _reports_tool_changes(client):
            return float("inf")
        return self._last_read_at + max(valid_s, _MIN_VALID_S)

    def note_begin(self) -> None:
        """Note that the list is read now. A later change needs another reading."""
        self._due_at = None

    def note_end(self) -> None:
        """Note that the list was read."""
        self._last_read_at = monotonic()

    async def listen(self, client: Client) -> None:
        """Receive changes from a server of the newer protocol, which clients must ask for them."""
        capabilities = client.server_capabilities
        reports_changes = any(
            capability and capability.list_changed
            for capability in (capabilities.tools, capabilities.prompts, capabilities.resources)
        )
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or not reports_changes:
            return
        wait_s = _FIRST_RELISTEN_S
        while True:
            try:
                async with client.listen(
                    tools_list_changed=True,
                    prompts_list_changed=True,
                    resources_list_changed=True,
                ) as changes:
                    async for _ in changes:
                        self.note_change()
            except (MCPError, SubscriptionLost) as error:
                _LOG.info("a server reports no list changes for now: %s", error_in_one_line(error))
            await anyio.sleep(wait_s)
            wait_s = min(wait_s * 2, _MAX_RELISTEN_S)
            # Changes in between were not reported.
            self.note_change()


def _reports_tool_changes(client: Client) -> bool:
    tools = client.server_capabilities.tools
    return tools is not None and bool(tools.list_changed)
