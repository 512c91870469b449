"""Full definitions of the chosen tools, from the catalog or another place, within a timeout."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ..catalog import Tool
from ..errors import SchemaError

LOAD_TIMEOUT_S = 2.0
"""Default maximum seconds for all definitions of a turn together."""
CACHED_DEFINITIONS = 4_096
"""Maximum number of definitions that a loader caches; some 10 MB of typical ones."""
MAX_REQUESTS = 32
"""Maximum number of unfinished calls of a source. So a source that hangs uses no more threads."""


class DefinitionSource(Protocol):
    """A place with tool definitions: a `Catalog`, or an object of your own with this method."""

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
    """Loads definitions from a source, within a timeout, and caches them by fingerprint.

    Thread-safe. A failing or slow source never raises and never takes longer than the timeout:
    definitions that do not arrive are reported as missing. Definitions that arrive later are cached
    for the next turn. The cache drops those that were not used for the longest time.

    Args:
        source: place of the definitions; without one, the catalog's tools are used as they are.
            A definition that differs from the catalog's is refused, because only that one was
            scanned and approved.
        timeout: seconds for all definitions of one load together.
    """

    def __init__(
        self, source: DefinitionSource | None = None, timeout: float = LOAD_TIMEOUT_S
    ) -> None:
        self._source = source
        self.timeout = timeout
        self._cache: OrderedDict[str, Tool] = OrderedDict()
        self._lock = threading.Lock()
        self._calls = threading.BoundedSemaphore(MAX_REQUESTS)

    def load(self, tools: Sequence[Tool]) -> LoadedDefinitions:
        """The definitions of tools. Waits at most the timeout.

        Args:
            tools: tools of the catalog.
        """
        if self._source is None:
            return LoadedDefinitions({tool.id: tool for tool in tools}, ())
        outcomes: dict[str, Tool | str] = {}
        uncached: dict[str, Tool] = {}
        for tool in tools:
            if (cached := self._cached_definition(tool)) is None:
                uncached[tool.id] = tool
            else:
                outcomes[tool.id] = cached
        if uncached:
            outcomes |= self._ask(self._source, uncached)
        loaded: dict[str, Tool] = {}
        missing: dict[str, MissingDefinition] = {}
        for tool in tools:
            outcome = outcomes[tool.id]
            if isinstance(outcome, str):
                missing[tool.id] = MissingDefinition(tool.id, outcome)
            else:
                loaded[tool.id] = outcome if outcome.id == tool.id else outcome.with_id(tool.id)
        return LoadedDefinitions(loaded, tuple(missing.values()))

    def _ask(self, source: DefinitionSource, tools: Mapping[str, Tool]) -> dict[str, Tool | str]:
        """Id to definition, or to why the source does not give it."""
        answer = self._start_request(source, tools)
        wait([answer], self.timeout)
        if not answer.done():
            return dict.fromkeys(tools, f"no answer within {self.timeout:g} s")
        if (error := answer.exception()) is not None:
            return dict.fromkeys(tools, _reason(error))
        definitions = answer.result()
        return {
            tool_id: definitions.get(tool_id, "the source has no such tool") for tool_id in tools
        }

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
                if definition.fingerprint != tool.fingerprint:
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
