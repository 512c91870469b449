"""Phase 2: full definitions of the chosen tools, from the catalog or another place, in time."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, Protocol

from ..catalog import Tool, read_tools
from ..catalog.mcp_listing import ListsTools, list_definitions
from ..catalog.text_file import read_text_file, replace_text_file
from ..errors import SchemaError, ToolError

TIMEOUT = 2.0
"""Seconds all definitions of a turn may take together, by default."""
CACHED_DEFINITIONS = 4_096
"""Definitions that a loader keeps; some 10 MB of typical ones."""
MAX_REQUESTS = 32
"""Unfinished calls of a loader's sources; a source that hangs does not collect more threads."""
LARGEST_FILE = 1_048_576
"""Maximum bytes of a file in a `FolderSource`; larger than any valid definition."""
_LISTING_SECONDS = 60.0
"""Time for an MCP server to list all its tools."""
_UNSAFE = re.compile(r"[^a-z0-9]+")
_READABLE = 40


class DefinitionSource(Protocol):
    """A place with tool definitions: a `Catalog`, a `FolderSource`, an `McpSource`, or yours."""

    def definitions(self, ids: Sequence[str], /) -> Mapping[str, Tool | SchemaError]:
        """The definitions of tools.

        The loader calls this in a thread, perhaps in several at once. It may block.

        Args:
            ids: ids of the tools.

        Returns:
            Id to definition, or to why it cannot be read. Ids of unknown tools are left out.
        """
        ...


class MissingDefinition(NamedTuple):
    """A definition that could not be loaded, with the reason.

    Attributes:
        tool_id: id of the tool.
        reason: reason for people.
    """

    tool_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class LoadedDefinitions:
    """The loaded definitions of a turn, and the missing ones.

    Args:
        tools: id to definition, in the requested order; without the missing ones.
        missing: the others; their summaries can still be shown.
    """

    tools: Mapping[str, Tool]
    missing: tuple[MissingDefinition, ...]


class SchemaLoader:
    """Loads definitions from sources: all at the same time, with a timeout, cached by fingerprint.

    Thread-safe. A failing or slow source never raises and never takes longer than the timeout:
    definitions that do not arrive are reported as missing. Definitions that arrive later are cached
    for the next turn. The cache drops those that were not used for the longest time.

    Args:
        sources: places of the definitions, each asked for all tools; the first that has a
            definition gives it. Without any, the catalog's tools are used as they are.
        timeout: seconds for all definitions of one load together.
        verify: refuse a definition that differs from the catalog's, because only that one was
            scanned and approved. Set False for catalogs without schemas.
    """

    def __init__(
        self, *sources: DefinitionSource, timeout: float = TIMEOUT, verify: bool = True
    ) -> None:
        self._sources = sources
        self.timeout = timeout
        self._verify = verify
        self._cache: OrderedDict[str, Tool] = OrderedDict()
        self._lock = threading.Lock()
        self._calls = threading.BoundedSemaphore(MAX_REQUESTS)

    def load(self, tools: Sequence[Tool]) -> LoadedDefinitions:
        """The definitions of tools. Waits at most the timeout.

        Args:
            tools: tools of the catalog.
        """
        if not self._sources:
            return LoadedDefinitions({tool.id: tool for tool in tools}, ())
        outcomes: dict[str, Tool | str] = {}
        uncached: dict[str, Tool] = {}
        for tool in tools:
            if (cached := self._cached_definition(tool)) is None:
                uncached[tool.id] = tool
            else:
                outcomes[tool.id] = cached
        if uncached:
            outcomes |= self._ask_sources(uncached)
        loaded: dict[str, Tool] = {}
        missing: dict[str, MissingDefinition] = {}
        for tool in tools:
            outcome = outcomes[tool.id]
            if isinstance(outcome, str):
                missing[tool.id] = MissingDefinition(tool.id, outcome)
            else:
                loaded[tool.id] = outcome if outcome.id == tool.id else outcome.with_id(tool.id)
        return LoadedDefinitions(loaded, tuple(missing.values()))

    async def aload(self, tools: Sequence[Tool]) -> LoadedDefinitions:
        """`load` for event loops, in a thread.

        Args:
            tools: tools of the catalog.
        """
        return await asyncio.to_thread(self.load, tools)

    def _ask_sources(self, tools: Mapping[str, Tool]) -> dict[str, Tool | str]:
        """Id to definition, or to why no source gives one."""
        answers = [self._start_request(source, tools) for source in self._sources]
        wait(answers, self.timeout)
        outcomes: dict[str, Tool | str] = {}
        for answer in answers:
            if not answer.done():
                source_outcomes: Mapping[str, Tool | str] = dict.fromkeys(
                    tools, f"no answer within {self.timeout:g} s"
                )
            elif (error := answer.exception()) is not None:
                source_outcomes = dict.fromkeys(tools, _reason(error))
            else:
                source_outcomes = answer.result()
            for tool_id, outcome in source_outcomes.items():
                if isinstance(outcome, Tool) and not isinstance(outcomes.get(tool_id), Tool):
                    outcomes[tool_id] = outcome
                outcomes.setdefault(tool_id, outcome)
        return {tool_id: outcomes.get(tool_id, "no source has it") for tool_id in tools}

    def _start_request(
        self, source: DefinitionSource, tools: Mapping[str, Tool]
    ) -> Future[Mapping[str, Tool | str]]:
        """Ask a source in a daemon thread: if it hangs, the process can still end."""
        answer: Future[Mapping[str, Tool | str]] = Future()
        if not self._calls.acquire(blocking=False):
            answer.set_exception(
                SchemaError(f"{MAX_REQUESTS} earlier requests are not answered yet")
            )
            return answer

        def ask() -> None:
            try:
                answer.set_result(self._verify_definitions(source, tools))
            except BaseException as raised:  # noqa: BLE001 - the reason why definitions are missing
                answer.set_exception(raised)
            finally:
                self._calls.release()

        threading.Thread(target=ask, name="shortlist-source", daemon=True).start()
        return answer

    def _verify_definitions(
        self, source: DefinitionSource, tools: Mapping[str, Tool]
    ) -> dict[str, Tool | str]:
        """Id to the source's definition, or to why it is not used. Caches the definitions."""
        definitions = source.definitions(tuple(tools))
        if not isinstance(definitions, Mapping):
            raise SchemaError(
                f"the source answered with {type(definitions).__name__}, not a mapping"
            )
        outcomes: dict[str, Tool | str] = {}
        for tool_id, tool in tools.items():
            definition = definitions.get(tool_id)
            if isinstance(definition, SchemaError):
                outcomes[tool_id] = str(definition)
            elif isinstance(definition, Tool):
                if self._verify and definition.fingerprint != tool.fingerprint:
                    outcomes[tool_id] = "the source has another definition than the catalog"
                else:
                    outcomes[tool_id] = definition
                    self._cache_definition(tool.fingerprint, definition)
            elif definition is not None:
                name = type(definition).__name__
                outcomes[tool_id] = f"the source answered with {name}, not with a Tool"
        return outcomes

    def _cached_definition(self, tool: Tool) -> Tool | None:
        with self._lock:
            if tool.fingerprint not in self._cache:
                return None
            self._cache.move_to_end(tool.fingerprint)
            return self._cache[tool.fingerprint]

    def _cache_definition(self, fingerprint: str, definition: Tool) -> None:
        with self._lock:
            self._cache[fingerprint] = definition
            self._cache.move_to_end(fingerprint)
            if len(self._cache) > CACHED_DEFINITIONS:
                self._cache.popitem(last=False)


def _reason(error: BaseException) -> str:
    return str(error) if isinstance(error, SchemaError) else f"{type(error).__name__}: {error}"


class FolderSource:
    """Definitions in a folder, one JSON file per tool.

    Args:
        folder: folder of files named by `file_name`. Links are not followed.
    """

    def __init__(self, folder: Path | str) -> None:
        self._folder = Path(folder)

    def definitions(self, ids: Sequence[str], /) -> Mapping[str, Tool | SchemaError]:
        """The definitions of tools.

        An error says that a file is missing, too large, has no tool, or has a tool with another id.

        Args:
            ids: ids of the tools.
        """
        return {tool_id: self._read(tool_id) for tool_id in ids}

    def store(self, tools: Iterable[Tool]) -> None:
        """Write the definitions of tools. The folder is created if needed.

        Raises:
            SchemaError: the folder cannot be written.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for tool in tools:
                path = self._folder / file_name(tool.id)
                replace_text_file(path, [json.dumps(tool.to_dict(), ensure_ascii=False)])
        except OSError as error:
            raise SchemaError(f"cannot write definitions to {self._folder}: {error}") from error

    def _read(self, tool_id: str) -> Tool | SchemaError:
        path = self._folder / file_name(tool_id)
        if path.is_symlink():
            return SchemaError(f"cannot read the definition of {tool_id!r:.100}: {path} is a link")
        try:
            tool = Tool.from_dict(json.loads(read_text_file(path, LARGEST_FILE, error=SchemaError)))
        except (SchemaError, ValueError, TypeError, RecursionError, ToolError) as error:
            return SchemaError(f"cannot read the definition of {tool_id!r:.100}: {error}")
        if tool.id != tool_id:
            return SchemaError(f"{path} holds the definition of {tool.id!r:.100}")
        return tool


def file_name(tool_id: str) -> str:
    """The file name of a tool: a readable part and a hash. It is safe for any id.

    `github/create_issue` gives `github-create-issue.`, 32 hexadecimal digits, and `.json`. It also
    works on file systems that ignore letter case.

    Args:
        tool_id: any text.
    """
    readable = _UNSAFE.sub("-", tool_id.lower())[:_READABLE].strip("-") or "tool"
    digest = sha256(tool_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{readable}.{digest}.json"


class McpSource:
    """Definitions that an MCP server lists. It is asked once, and again after a change.

    A client belongs to the event loop in which it was opened. If you make the source inside that
    loop, all requests run there. Do not block that loop with a session: await `SchemaLoader.aload`
    there.

    Args:
        client: an open MCP client.
        server: name of the server in the catalog; its tools have ids as `server/name`.
    """

    def __init__(self, client: ListsTools, server: str) -> None:
        self._client = client
        self._server = server
        self._lock = threading.Lock()
        self._changes = 0
        self._listing: tuple[int, Mapping[str, Tool]] | None = None
        try:
            self._loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            self._loop = None

    def changed(self) -> None:
        """Forget the definitions. Call it on `notifications/tools/list_changed`."""
        self._changes += 1

    def definitions(self, ids: Sequence[str], /) -> Mapping[str, Tool | SchemaError]:
        """The definitions of the server's tools, and an error for each that it does not list.

        Args:
            ids: ids of tools; those of other servers are left out.

        Raises:
            SchemaError: the server cannot be reached.
        """
        own_ids = [tool_id for tool_id in ids if tool_id.startswith(f"{self._server}/")]
        if not own_ids:
            return {}
        with self._lock:
            changes = self._changes
            if self._listing is None or self._listing[0] != changes:
                self._listing = changes, self._list()
            listing = self._listing[1]
        return {
            tool_id: listing.get(tool_id)
            or SchemaError(f"server {self._server!r:.100} does not list {tool_id!r:.100}")
            for tool_id in own_ids
        }

    def _list(self) -> Mapping[str, Tool]:
        if self._loop is None:
            return asyncio.run(self._read())
        if self._loop.is_closed():
            raise SchemaError(f"the connection to server {self._server!r:.100} is closed")
        listing = asyncio.run_coroutine_threadsafe(self._read(), self._loop)
        try:
            return listing.result(_LISTING_SECONDS)
        except TimeoutError as error:
            listing.cancel()
            raise SchemaError(f"server {self._server!r:.100} does not list its tools") from error

    async def _read(self) -> Mapping[str, Tool]:
        rows = await list_definitions(self._client)
        result = read_tools({"tools": rows}, format="mcp", server=self._server, strict=False)
        return {tool.id: tool for tool in result.tools}
