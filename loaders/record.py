"""What the model of one conversation has read of its tools: an append-only record.

A turn appends what the model needs and has not read. Nothing before it changes, with three
exceptions: the way `list`, a catalog that has changed much, and quarantined definitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Literal, NamedTuple, Self, TypeAlias

import numpy as np

from ..catalog import Tool
from ..catalog.schema import canonical_json
from ..config import SessionConfig
from ..errors import RequestError
from ..gating.admission import Admission
from .counting import bundled_counter
from .definitions import Definition, choose_definitions, define
from .head import LOADED_HEADING, Head, write_head
from .levels import Level, describe
from .pool import Lines, lines_of_tools
from .providers import Messages, Provider, Way
from .providers.provider import Function, SearchContent
from .schemas import MissingDefinition, SchemaLoader
from .summaries import shared_summaries

_TURN_LINE_TOKENS = 450
"""Tokens of lines that any turn may add, where the head has no line for each tool."""
_MAX_CHANGED_SHARE = 0.25
"""The head is written again if more of it is wrong than this share of its tools."""
_MIN_CHANGED = 10
"""Number of tools that may be wrong in a head of any size."""
_ANSWER_TURNS = 2
"""An answer to a search of the model may have the definitions of so many turns."""
_MAX_NAMES = 20
"""Most tools that a line names as no longer available."""
_WITHDRAWN = "A tool definition was withdrawn here."
_LINES_HEADING = "Also found; call them with call_tool:\n"
_LINES_HEADING_WITHOUT_LIST = "Also found:\n"

Place: TypeAlias = Literal["head", "messages", "list"]


class ReadTool(NamedTuple):
    """What the model has read of one tool.

    Attributes:
        level: how much of it.
        fingerprint: fingerprint of that definition.
        place: where it stands: in the head, in a message, or in the list of the way `list`.
        is_withdrawn: whether the tool is not available any more.
    """

    level: Level
    fingerprint: str
    place: Place
    is_withdrawn: bool = False


@dataclass(frozen=True, slots=True)
class Departure:
    """A tool that is no longer offered, with the reason.

    Args:
        tool_id: the tool.
        kind: `vanished` (no longer in the catalog), or the kind of the refusal that denies it now.
        reason: a sentence for people and models.

    Example:
        >>> from shortlist import Engine, Tool
        >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
        >>> session = engine.session()
        >>> turn = session.turn("list the invoices")
        >>> session.allowed = []
        >>> [(tool.tool_id, tool.kind) for tool in session.turn("list them again").left]
        [('billing/list_invoices', 'not_allowed')]
    """

    tool_id: str
    kind: str
    reason: str

    def to_dict(self) -> dict[str, str]:
        """JSON form."""
        return {"tool": self.tool_id, "kind": self.kind, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Shown:
    """What one step shows the model.

    Args:
        messages: messages to add to the conversation.
        answer: content of the answer to a search of the model; None for other steps.
        levels: id to level, for each tool that the step shows.
        missing: tools whose definition could not be loaded, with the reasons.
        head_is_new: whether the system prompt or the list of tools differs from the last step's.
        head_tokens: tokens of the system prompt and the list of tools.
        message_tokens: tokens of all messages about tools in the conversation.
    """

    messages: tuple[dict[str, Any], ...] = ()
    answer: SearchContent | None = None
    levels: Mapping[str, Level] = field(default_factory=dict)
    missing: tuple[MissingDefinition, ...] = ()
    head_is_new: bool = False
    head_tokens: int = 0
    message_tokens: int = 0


class Changes(NamedTuple):
    """What a step found changed since the last one.

    Attributes:
        departures: offered tools that are gone or denied now.
        changed_ids: offered tools with another definition.
    """

    departures: tuple[Departure, ...] = ()
    changed_ids: tuple[str, ...] = ()


class _Permissions(NamedTuple):
    """Which tools a step may use, to see whether the next step may use the same.

    An `Admission` is not kept: it has a whole version of the index.
    """

    names: object
    mask: Any
    unreachable: frozenset[str]
    quarantined_ids: frozenset[str]

    @classmethod
    def of(cls, admission: Admission) -> Self:
        return cls(
            admission.index.names,
            admission.mask,
            admission.unreachable,
            admission.quarantined_ids,
        )

    def equal(self, other: _Permissions) -> bool:
        if self.names is not other.names or self.unreachable != other.unreachable:
            return False
        if self.quarantined_ids != other.quarantined_ids:
            return False
        if self.mask is None or other.mask is None:
            return self.mask is other.mask
        return np.array_equal(self.mask, other.mask)


class _Step(NamedTuple):
    """What a step tells the model, in no provider's form.

    Attributes:
        removed: ids of tools that are not available any more.
        restored: ids of tools that are available again.
        definitions: definitions that it has not read.
        lines: lines of further tools.
        without_definition: tools of which only the purpose can be said.
        named: ids of tools found of which the model has a line already.
    """

    removed: Sequence[str] = ()
    restored: Sequence[str] = ()
    definitions: Sequence[Definition] = ()
    lines: Lines = Lines()
    without_definition: Sequence[Tool] = ()
    named: Sequence[str] = ()


class ReadRecord:
    """What the model of one conversation has read of its tools. Not thread-safe.

    Args:
        provider: writes requests and messages; None where nothing is rendered.
        way: how found tools reach the model; None without a provider.
        settings: settings of the session.
        schemas: loads definitions that the catalog lacks.

    Attributes:
        head: the system prompt and the list of tools; None before the first step.
        message_tokens: tokens of all messages about tools in the conversation.
    """

    def __init__(
        self,
        provider: Provider | None,
        way: Way | None,
        settings: SessionConfig,
        schemas: SchemaLoader,
    ) -> None:
        self.head: Head | None = None
        self.message_tokens = 0
        self._provider, self._way = provider, way
        self._settings = settings
        self._schemas = schemas
        self._summaries = shared_summaries((), settings.summaries)
        self._tools: dict[str, ReadTool] = {}
        self._offered: dict[str, None] = {}
        #: Ids of the tools in the list of the way `list`; the one found or called last at the end.
        self._listed: dict[str, None] = {}
        self._list: list[Definition] = []
        #: Id to the entry of the list that the provider took into the conversation.
        self._declared: dict[str, Function] = {}
        #: Ids of the tools that the provider's own messages removed and did not restore.
        self._removed: set[str] = set()
        #: Fingerprint of a text in the conversation to the ids of the tools it is about.
        self._texts: dict[str, tuple[str, ...]] = {}
        #: Fingerprints of texts with a definition that was quarantined since.
        self._dropped: set[str] = set()
        self._quarantined: set[str] = set()
        self._untold: dict[str, None] = {}
        self._to_repeat: dict[str, None] = {}
        #: Id to the fingerprint of the definition that replaced the one that the model has read.
        self._changed: dict[str, str] = {}
        self._called_servers: list[str] = []
        self._unread_count = 0
        self._exchange_count = 0
        self._line_tokens = 0
        self._permissions: _Permissions | None = None
        self._deferred: list[Function] = []
        self._head_is_new = False

    @property
    def offered(self) -> tuple[str, ...]:
        """Ids of the tools offered so far that are still available, in the order they came."""
        return tuple(self._offered)

    @property
    def shows_whole_catalog(self) -> bool:
        """Whether the head has the definitions of all tools."""
        return self.head is not None and self.head.shows_whole_catalog

    @property
    def wants_lines(self) -> bool:
        """Whether further tools found get a line, because the head has none for them."""
        return self.head is not None and self._way != "list" and self._unread_count > 0

    @property
    def callable_ids(self) -> frozenset[str]:
        """Ids of the available tools whose arguments the model has read, and may call."""
        listed = {one.tool.id for one in self._list}
        return frozenset(
            tool_id
            for tool_id, read in self._tools.items()
            if read.level >= Level.ARGUMENTS
            and not read.is_withdrawn
            and (read.place != "list" or tool_id in listed)
        )

    def level(self, tool: Tool) -> Level | None:
        """How much of this definition the model has read; None for nothing."""
        read = self._tools.get(tool.id)
        return None if read is None or read.fingerprint != tool.fingerprint else read.level

    def level_of(self, tool_id: str) -> Level | None:
        """How much of an available tool the model has read, of whatever definition."""
        read = self._tools.get(tool_id)
        return None if read is None or read.is_withdrawn else read.level

    def has_other_definition(self, tool: Tool) -> bool:
        """Whether the model has read another definition of this tool."""
        read = self._tools.get(tool.id)
        return read is not None and read.fingerprint != tool.fingerprint

    def tool_id_of(self, name: str) -> str | None:
        """The id of the tool that the model calls by this name; None if it has read of none."""
        if name in self._tools:
            return name
        if self._provider is None:
            return None
        name_of = self._provider.name_of
        return next((tool_id for tool_id in self._tools if name_of(tool_id) == name), None)

    def follow(self, admission: Admission) -> Changes:
        """Compare with the present permissions. What the model must be told waits for a step."""
        permissions = _Permissions.of(admission)
        if self._permissions is not None and self._permissions.equal(permissions):
            return Changes()
        self._permissions = permissions
        self._summaries = shared_summaries(admission.index.summaries, self._settings.summaries)
        departures, changed_ids = [], []
        rows, tools = admission.index.rows, admission.tools
        for tool_id, read in list(self._tools.items()):
            if admission.admits(tool_id):
                if read.is_withdrawn and tool_id in self._untold:
                    del self._untold[tool_id]
                    self._tools[tool_id] = read = read._replace(is_withdrawn=False)
                if self._note_change(tools[rows[tool_id]], read) and tool_id in self._offered:
                    changed_ids.append(tool_id)
                continue
            if not read.is_withdrawn:
                self._tools[tool_id] = read._replace(is_withdrawn=True)
                self._untold[tool_id] = None
                self._to_repeat.pop(tool_id, None)
        for tool_id in self.offered:
            if not admission.admits(tool_id):
                del self._offered[tool_id]
                departures.append(_departure(admission, tool_id))
        quarantined = admission.quarantined_ids
        self._use_quarantine(quarantined)
        if self._provider is not None and self._way is not None:
            self._follow_head(admission, quarantined)
        self._unread_count = admission.permitted_count - len(self.callable_ids)
        return Changes(tuple(departures), tuple(changed_ids))

    def show(
        self, admission: Admission, found: Sequence[Tool], also_found: Iterable[Tool] = ()
    ) -> Shown:
        """Show what a step needs and the model has not read. Waits at most for the schema loader.

        Args:
            admission: the present permissions, which the record follows already.
            found: tools to show with their definition, best first.
            also_found: further tools, best first. They get a line while there is room.
        """
        self._offer(found)
        if self._provider is None:
            for tool in found:
                self._note(tool, Level.FULL, "messages")
            return Shown(levels=dict.fromkeys((tool.id for tool in found), Level.FULL))
        if self._way == "list":
            return self._show_in_list(admission, found)
        step, missing = self._choose(admission, found, also_found, self._settings.turn_tokens)
        return self._shown(step, self._write_messages(step), missing)

    def answer_search(self, admission: Admission, found: Sequence[Tool], nothing: str) -> Shown:
        """Answer a search of the model: each tool is loaded, has a line, or is named as known.

        Args:
            admission: the present permissions, which the record follows already.
            found: the tools found, best first.
            nothing: what the answer says where no tool is found.
        """
        if self._provider is None:
            return self.show(admission, found)
        known_ids = [tool.id for tool in found if self._is_defined(tool)]
        if self._way == "list" and not self.shows_whole_catalog:
            # The model has read a definition that left the list, but does not have it any more.
            listed_before = {one.tool.id for one in self._list}
            known_ids = [tool_id for tool_id in known_ids if tool_id in listed_before]
        lined_ids = [tool.id for tool in found if self._has_line(tool) and tool.id not in known_ids]
        self._offer(found)
        if self._way == "list":
            shown = self._show_in_list(admission, found)
            new_ids = [tool.id for tool in found if tool.id not in known_ids]
            listed = {one.tool.id for one in self._list}
            sentences = [
                self._naming("Added to your list of tools", [i for i in new_ids if i in listed]),
                self._naming("You already have", known_ids),
                self._naming(
                    "Also found; search for the name of one to add it",
                    [tool_id for tool_id in new_ids if tool_id not in listed],
                ),
                "" if found else nothing,
            ]
            return replace(shown, answer="\n".join(filter(None, sentences)))
        budget = _ANSWER_TURNS * self._settings.turn_tokens
        step, missing = self._choose(admission, found, (), budget)
        defined = {one.tool.id for one in step.definitions}
        step = step._replace(named=[tool_id for tool_id in lined_ids if tool_id not in defined])
        answer, messages = self._write_answer(step, known_ids, "" if found else nothing)
        return replace(self._shown(step, messages, missing), answer=answer)

    def note_answer(self, admission: Admission, tool: Tool, answer: str) -> None:
        """Note that the answer to a call has a tool's whole definition.

        Args:
            admission: the present permissions, which the record follows already.
            tool: the tool, which counts as offered from now on.
            answer: text of the answer.
        """
        self._offer([tool])
        if self._way == "list":
            self._list_latest(tool)
            self._write_list(admission)
        self._note(tool, Level.FULL, "messages")
        if self._provider is not None:
            self._note_text(answer, [tool.id])

    def note_read(self, tools: Iterable[Tool], level: Level) -> None:
        """Note that the model has read of tools in a text that somebody else wrote.

        Args:
            tools: the tools.
            level: how much of them.
        """
        for tool in tools:
            self._note(tool, level, "messages")

    def note_called(self, tool: Tool) -> None:
        """Note a successful call: the tools of its server get lines, if the head has none."""
        self._offer([tool])
        if self._way == "list" and tool.id in self._listed:
            self._list_latest(tool)
        if tool.server and self.wants_lines and tool.server not in self._called_servers:
            self._called_servers.append(tool.server)

    def compacted(self) -> None:
        """Note that the host has removed the messages about tools from the conversation."""
        head = self.head
        kept_levels = {} if head is None else head.levels
        for tool_id, read in list(self._tools.items()):
            if read.place == "messages":
                del self._tools[tool_id]
                if head is not None and tool_id in kept_levels:
                    fingerprint = head.fingerprints[tool_id]
                    self._tools[tool_id] = ReadTool(
                        kept_levels[tool_id], fingerprint, "head", read.is_withdrawn
                    )
                    if read.is_withdrawn:
                        self._untold[tool_id] = None
        self._declared.clear()
        self._removed.clear()
        self._texts.clear()
        self._dropped.clear()
        self.message_tokens = self._line_tokens = 0
        self._permissions = None

    def request(
        self, messages: Messages, first_tools: Iterable[Mapping[str, Any]] = ()
    ) -> dict[str, Any]:
        """The arguments of the next request to the model.

        Args:
            messages: the conversation. Texts with quarantined definitions are taken out of it.
            first_tools: what the list of tools begins with.

        Raises:
            RequestError: there was no step yet.
        """
        assert self._provider is not None
        assert self._way is not None
        head = self.head
        if head is None:
            raise RequestError("request: no tools yet; call session.turn(...) first")
        if self._dropped or self._quarantined:
            messages = [kept for kept in map(self._cleaned, messages) if kept is not None]
        functions = [*map(dict, first_tools), *self.functions]
        return self._provider.request(head.system, functions, messages, self._way)

    @property
    def functions(self) -> list[Function]:
        """The provider's list of tools."""
        if self.head is None:
            return []
        listed = [one.function for one in self._list if one.function is not None]
        return [*self.head.own_tools, *self.head.resident, *listed, *self._deferred]

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "head": None if self.head is None else self.head.to_dict(),
            "tools": [
                [tool_id, int(read.level), read.fingerprint, read.place, read.is_withdrawn]
                for tool_id, read in self._tools.items()
            ],
            "offered": list(self._offered),
            "listed": list(self._listed),
            "declared": sorted(self._declared),
            "removed": sorted(self._removed),
            "texts": {text: list(ids) for text, ids in self._texts.items()},
            "untold": list(self._untold),
            "to_repeat": list(self._to_repeat),
            "called_servers": list(self._called_servers),
            "exchanges": self._exchange_count,
            "line_tokens": self._line_tokens,
            "message_tokens": self.message_tokens,
        }

    def load(self, saved: Mapping[str, Any], admission: Admission) -> None:
        """Continue from the JSON form of another record of the same provider, way and settings.

        Args:
            saved: result of `to_dict`.
            admission: the permissions at the time of the last step, over the present catalog.

        Raises:
            AttributeError, KeyError, TypeError, ValueError: it is damaged.
        """
        self.head = None if saved["head"] is None else Head.from_dict(saved["head"])
        for tool_id, level, fingerprint, place, is_withdrawn in saved["tools"]:
            if place not in ("head", "messages", "list") or not isinstance(is_withdrawn, bool):
                raise ValueError(f"{tool_id}: {place!r}, {is_withdrawn!r}")
            self._tools[str(tool_id)] = ReadTool(
                Level(level), str(fingerprint), place, is_withdrawn
            )
        for name, target in (
            ("offered", self._offered),
            ("listed", self._listed),
            ("untold", self._untold),
            ("to_repeat", self._to_repeat),
        ):
            target.update(dict.fromkeys(map(str, saved[name])))
        self._texts = {str(text): tuple(map(str, ids)) for text, ids in saved["texts"].items()}
        self._removed = set(map(str, saved["removed"]))
        self._called_servers = list(map(str, saved["called_servers"]))
        self._exchange_count = int(saved["exchanges"])
        self._line_tokens = int(saved["line_tokens"])
        self.message_tokens = int(saved["message_tokens"])
        self._declare_again(map(str, saved["declared"]), admission)
        self._use_quarantine(admission.quarantined_ids)
        if self._provider is not None and self._way == "list":
            saved_list = self._tools_in_list()
            self._write_list(admission)
            self._head_is_new = self._tools_in_list() != saved_list
        self._use_deferred(admission)

    def _declare_again(self, tool_ids: Iterable[str], admission: Admission) -> None:
        """Take over declared tools whose definition is still the one that the model has read."""
        rows = admission.index.rows
        for tool_id in tool_ids:
            read = self._tools.get(tool_id)
            function: Function = {}
            if tool_id in rows and read is not None:
                tool = admission.tools[rows[tool_id]]
                level = Level.FULL if read.level is Level.FULL else Level.SIGNATURE
                if tool.fingerprint == read.fingerprint:
                    function = self._define(tool, level, in_list=True).function or {}
            self._declared[tool_id] = function
            if self._refers_to_list and not function and read is not None:
                # What the conversation referred to is not in the list any more.
                self._forget(tool_id)

    # Following the catalog and the permissions.

    def _note_change(self, tool: Tool, read: ReadTool) -> bool:
        """Whether a definition has changed since the last step. The model reads it again."""
        if tool.fingerprint in (read.fingerprint, self._changed.get(tool.id)):
            return False
        self._changed[tool.id] = tool.fingerprint
        if read.level >= Level.SIGNATURE and read.place != "list" and not read.is_withdrawn:
            self._to_repeat[tool.id] = None
        return True

    def _use_quarantine(self, quarantined: frozenset[str]) -> None:
        """Take quarantined definitions out of the conversation while they are quarantined.

        What else stood in the same texts counts as not read.
        """
        self._quarantined = {tool_id for tool_id in self._declared if tool_id in quarantined}
        dropped_before = self._dropped
        self._dropped = {
            text for text, tool_ids in self._texts.items() if not quarantined.isdisjoint(tool_ids)
        }
        for text in self._dropped - dropped_before:
            for tool_id in self._texts[text]:
                read = self._tools.get(tool_id)
                if self._refers_to_list:
                    self._declared.pop(tool_id, None)
                if read is not None and read.place == "messages" and tool_id not in self._declared:
                    self._forget(tool_id)

    def _forget(self, tool_id: str) -> None:
        """Note that the model reads nothing of a tool any more but what the head says."""
        read = self._tools.pop(tool_id)
        if self.head is not None and tool_id in self.head.levels:
            fingerprint = self.head.fingerprints[tool_id]
            self._tools[tool_id] = ReadTool(
                self.head.levels[tool_id], fingerprint, "head", read.is_withdrawn
            )
        elif read.is_withdrawn:
            self._untold.pop(tool_id, None)

    def _follow_head(self, admission: Admission, quarantined: frozenset[str]) -> None:
        assert self._provider is not None
        if (
            self.head is None
            or self._way == "list"
            or not quarantined.isdisjoint(self.head.levels)
            or self._is_outdated(self.head, admission)
        ):
            self._write_head(admission)
        if self._way == "list":
            self._write_list(admission)
        self._use_deferred(admission)

    def _is_outdated(self, head: Head, admission: Admission) -> bool:
        """Whether too much of the head is wrong."""
        permitted = admission.permitted_count
        if head.levels:
            rows, tools = admission.index.rows, admission.tools
            right_ids = {
                tool_id
                for tool_id, read in self._tools.items()
                if admission.admits(tool_id)
                and tools[rows[tool_id]].fingerprint == read.fingerprint
            }
            wrong = len(head.levels.keys() - right_ids) + permitted - len(right_ids)
        else:
            wrong = abs(permitted - head.tool_count)
        return wrong > max(_MIN_CHANGED, _MAX_CHANGED_SHARE * head.tool_count)

    def _write_head(self, admission: Admission) -> None:
        assert self._provider is not None
        assert self._way is not None
        settings = self._settings
        head = write_head(
            self._provider,
            self._way,
            admission.index.catalog,
            denied_ids(admission),
            self._summaries,
            instructions=settings.instructions,
            pool_tokens=settings.pool_tokens,
            whole_catalog_tokens=int(settings.context_tokens * settings.pass_through),
        )
        if head == self.head:
            return
        before, self.head = self.head, head
        self._head_is_new = True
        for tool_id in () if before is None else before.levels:
            read = self._tools.get(tool_id)
            if read is not None and read.place == "head":
                del self._tools[tool_id]
                self._untold.pop(tool_id, None)
        for tool_id, level in head.levels.items():
            read, is_removed = self._tools.get(tool_id), tool_id in self._removed
            fingerprint = head.fingerprints[tool_id]
            if read is None or (read.level < level and (is_removed or not read.is_withdrawn)):
                self._tools[tool_id] = ReadTool(level, fingerprint, "head", is_removed)

    def _use_deferred(self, admission: Admission) -> None:
        """The tools that the list has deferred: all that the session may ever use.

        A tool that the conversation refers to stays as it was referred to.
        """
        if not self._refers_to_list:
            return
        functions: dict[str, Function] = {}
        resident = self.head.levels if self.shows_whole_catalog and self.head else {}
        for tool in admission.index.catalog:
            if tool.id not in admission.unreachable and tool.id not in resident:
                functions[tool.id] = self._define(tool, Level.FULL, in_list=True).function or {}
        for tool_id, function in self._declared.items():
            functions.pop(tool_id, None)
            # Without a function, the definition that was referred to is not known any more.
            if function and tool_id not in self._quarantined and tool_id not in resident:
                functions[tool_id] = function
        self._deferred = [
            {**functions[tool_id], "defer_loading": True} for tool_id in sorted(functions)
        ]

    # Choosing what a step shows.

    def _choose(
        self,
        admission: Admission,
        found: Sequence[Tool],
        also_found: Iterable[Tool],
        budget: int,
    ) -> tuple[_Step, tuple[MissingDefinition, ...]]:
        repeated = self._take_repeated(admission)
        restored = [tool.id for tool in found if self._is_restored(tool)]
        unread = {
            tool.id: tool
            for tool in (*repeated, *found)
            if not self._is_defined(tool) and tool.id not in restored
        }
        loaded = self._schemas.load(list(unread.values()))
        definitions = choose_definitions(
            [loaded.tools[tool_id] for tool_id in unread if tool_id in loaded.tools],
            budget,
            self._definition_of,
        )
        defined_ids = {definition.tool.id for definition in definitions}
        needs_line = [
            tool
            for tool_id, tool in unread.items()
            if tool_id not in defined_ids and tool_id in loaded.tools and not self._has_line(tool)
        ]
        lines = Lines()
        if self.head is not None:
            further = []
            for tool in also_found if self.wants_lines else ():
                if self._is_restored(tool, Level.ARGUMENTS):
                    restored.append(tool.id)
                elif tool.id not in unread and not self._has_line(tool):
                    further.append(tool)
            lines = self._choose_lines(admission, needs_line, further, defined_ids)
        step = _Step(
            removed=list(self._untold),
            restored=list(dict.fromkeys(restored)),
            definitions=definitions,
            lines=lines,
            without_definition=[
                tool for tool_id, tool in unread.items() if tool_id not in loaded.tools
            ],
        )
        return step, loaded.missing

    def _take_repeated(self, admission: Admission) -> list[Tool]:
        """The tools whose changed definition the model has to read."""
        rows, tools = admission.index.rows, admission.tools
        repeated = [
            tools[rows[tool_id]] for tool_id in self._to_repeat if admission.admits(tool_id)
        ]
        self._to_repeat.clear()
        return repeated

    def _choose_lines(
        self,
        admission: Admission,
        required: Sequence[Tool],
        further: Sequence[Tool],
        defined_ids: set[str],
    ) -> Lines:
        """Lines of tools without a definition, of called servers, and of further tools found."""
        required = list(required)
        room = self._settings.pool_tokens
        if self.head is not None and self.head.levels:
            room = max(room - self.head.pool_tokens, 0)
        for server in self._called_servers:
            unread = [
                tool
                for tool in admission.index.catalog
                if tool.server == server
                and admission.admits(tool.id)
                and tool.id not in defined_ids
                and tool not in required
                and not self._has_line(tool)
            ]
            if lines_of_tools(unread, (), 0).tokens <= room:
                required += unread
        self._called_servers.clear()
        taken = {tool.id for tool in required}
        budget = max(room - self._line_tokens, min(room, _TURN_LINE_TOKENS))
        lines = lines_of_tools(required, (tool for tool in further if tool.id not in taken), budget)
        self._line_tokens += lines.tokens
        return lines

    def _is_defined(self, tool: Tool) -> bool:
        """Whether the model has the present definition, and may call it."""
        read = self._tools.get(tool.id)
        return (
            read is not None
            and read.level >= Level.SIGNATURE
            and read.fingerprint == tool.fingerprint
            and not read.is_withdrawn
        )

    def _has_line(self, tool: Tool) -> bool:
        """Whether the model has read the tool's present arguments, and may call it."""
        read = self._tools.get(tool.id)
        return (
            read is not None
            and read.level >= Level.ARGUMENTS
            and read.fingerprint == tool.fingerprint
            and not read.is_withdrawn
        )

    def _is_restored(self, tool: Tool, level: Level = Level.SIGNATURE) -> bool:
        """Whether the model was told that a tool is gone whose present definition it has."""
        read = self._tools.get(tool.id)
        return (
            read is not None
            and read.is_withdrawn
            and read.level >= level
            and read.fingerprint == tool.fingerprint
        )

    def _definition_of(self, tool: Tool, level: Level) -> Definition:
        """A tool as a step would show it."""
        provider = self._provider
        assert provider is not None
        is_native = self._way == "append" or self._way == "search"
        if is_native and tool.id in self._declared_ids:
            is_native = self._way == "append" and provider.redefines
        if is_native and self._way == "search":
            # The list has one form of each deferred tool.
            level = Level.FULL
        return self._define(tool, level, in_list=is_native)

    def _define(self, tool: Tool, level: Level, *, in_list: bool) -> Definition:
        summary = "" if level is Level.FULL else self._summaries.of(tool)
        return define(self._provider if in_list else None, tool, level, summary)

    # Writing.

    def _write_messages(self, step: _Step) -> Messages:
        provider, way = self._provider, self._way
        assert provider is not None
        assert way is not None
        loaded = [one.loaded for one in step.definitions if one.function is not None]
        messages, told_ids = self._write_additions(step)
        if way == "search" and loaded:
            self._exchange_count += 1
            messages += provider.search_exchange(
                f"call_shortlist_{self._exchange_count:06}", loaded
            )
        self._declare(step)
        if text := self._text(step, told_ids):
            note = provider.note(text, way)
            self._note_text(note, _ids_in_text(step))
            messages.append(note)
        self.message_tokens += _tokens_of(messages) + self._referenced_tokens(step)
        return messages

    def _write_additions(self, step: _Step) -> tuple[Messages, set[str]]:
        """The messages of the way `append`, and the ids that they can remove and restore."""
        provider = self._provider
        if provider is None or self._way != "append":
            return [], set()
        told_ids = self._declared_ids if provider.redefines else set()
        removed, restored = (
            [tool_id for tool_id in tool_ids if tool_id in told_ids]
            for tool_ids in (step.removed, step.restored)
        )
        self._removed.update(removed)
        self._removed.difference_update(restored)
        self._removed.difference_update(
            one.tool.id for one in step.definitions if one.function is not None
        )
        messages = provider.additions(
            [one.loaded for one in step.definitions if one.function is not None],
            removed=list(map(provider.name_of, removed)),
            restored=list(map(provider.name_of, restored)),
        )
        return messages, told_ids

    def _write_answer(
        self, step: _Step, known_ids: Sequence[str], nothing: str
    ) -> tuple[SearchContent, Messages]:
        provider, way = self._provider, self._way
        assert provider is not None
        assert way is not None
        loaded = [one.loaded for one in step.definitions if one.function is not None]
        loaded_ids = [one.tool.id for one in step.definitions if one.function is not None]
        self._declare(step)
        sentences = [
            self._naming("You already have", [*known_ids, *step.restored]),
            self._naming("Loaded", loaded_ids) if way == "append" else "",
            nothing,
        ]
        messages, told_ids = self._write_additions(step)
        told = self._text(step._replace(restored=()), told_ids)
        text = "\n".join(filter(None, (*sentences, told)))
        if way == "search":
            answer = provider.search_content(loaded, text)
            if loaded and text and not provider.search_loads_text:
                messages.append(provider.note(text, way))
        else:
            answer = text
        tool_ids = [*_ids_in_text(step), *(loaded_ids if self._refers_to_list else [])]
        self._note_text(messages[0] if messages and way == "search" else answer, tool_ids)
        self.message_tokens += _tokens_of([*messages, {"answer": answer}])
        self.message_tokens += self._referenced_tokens(step)
        return answer, messages

    def _text(self, step: _Step, told_ids: set[str]) -> str:
        """What a step says in words. `told_ids` are told in the provider's own way."""
        removed = [tool_id for tool_id in step.removed if tool_id not in told_ids]
        restored = [tool_id for tool_id in step.restored if tool_id not in told_ids]
        definitions = [one.text for one in step.definitions if one.function is None]
        definitions += [
            describe(tool, Level.SUMMARY, self._summaries.of(tool))
            for tool in step.without_definition
        ]
        has_list = self._provider is not None and self._provider.has_list
        heading = _LINES_HEADING if has_list else _LINES_HEADING_WITHOUT_LIST
        known_label = "Also found, with a line above"
        known_label += "; call them with call_tool" if has_list else ""
        parts = [
            self._naming("No longer available", removed),
            self._naming("Available again", restored),
            self._naming(known_label, step.named),
            f"{LOADED_HEADING}{chr(10).join(definitions)}" if definitions else "",
            f"{heading}{step.lines.text}".rstrip("\n") if step.lines.text else "",
        ]
        return "".join(f"{part}\n" for part in parts if part)

    def _naming(self, label: str, tool_ids: Sequence[str]) -> str:
        """A sentence that names tools as the model calls them; empty for none."""
        names = list(map(self._name_for_model, tool_ids[:_MAX_NAMES]))
        more = len(tool_ids) - len(names)
        ending = f" and {more} more; a call of one is answered with the reason" if more else ""
        return f"{label}: {', '.join(names)}{ending}" if names else ""

    def _name_for_model(self, tool_id: str) -> str:
        if self._provider is None or tool_id not in self._declared_ids:
            in_list = self._way == "list" and self._provider is not None
            return self._provider.name_of(tool_id) if in_list and self._provider else tool_id
        return self._provider.name_of(tool_id)

    @property
    def _declared_ids(self) -> set[str]:
        """Ids of the tools that the model can call by their names."""
        resident = set(self.head.levels) if self.head is not None and self.head.resident else set()
        return resident | self._declared.keys()

    def _declare(self, step: _Step) -> None:
        for definition in step.definitions:
            if definition.function is not None:
                self._declared[definition.tool.id] = definition.function

    @property
    def _refers_to_list(self) -> bool:
        """Whether messages have references to the list in place of definitions."""
        return (
            self._way == "search" and self._provider is not None and self._provider.lists_deferred
        )

    def _referenced_tokens(self, step: _Step) -> int:
        """Tokens of definitions that messages refer to, and that stand in the list."""
        if not self._refers_to_list:
            return 0
        return sum(one.tokens for one in step.definitions if one.function is not None)

    def _shown(
        self, step: _Step, messages: Messages, missing: tuple[MissingDefinition, ...]
    ) -> Shown:
        levels: dict[str, Level] = {}
        for tool_id in step.removed:
            self._untold.pop(tool_id, None)
        for tool_id in step.restored:
            self._tools[tool_id] = self._tools[tool_id]._replace(is_withdrawn=False)
            levels[tool_id] = self._tools[tool_id].level
        for definition in step.definitions:
            self._note(definition.tool, definition.level, "messages")
            levels[definition.tool.id] = definition.level
        for tools, level in (
            (step.lines.tools, Level.ARGUMENTS),
            (step.without_definition, Level.SUMMARY),
        ):
            for tool in tools:
                self._note(tool, level, "messages")
                levels[tool.id] = level
        return self._finish(messages, levels, missing)

    def _finish(
        self,
        messages: Messages,
        levels: Mapping[str, Level],
        missing: tuple[MissingDefinition, ...],
    ) -> Shown:
        head_is_new, self._head_is_new = self._head_is_new, False
        head_tokens = 0 if self.head is None else self.head.tokens
        return Shown(
            messages=tuple(messages),
            levels=levels,
            missing=missing,
            head_is_new=head_is_new,
            head_tokens=head_tokens + sum(one.tokens for one in self._list),
            message_tokens=self.message_tokens,
        )

    def _note(self, tool: Tool, level: Level, place: Place) -> None:
        self._changed.pop(tool.id, None)
        read = self._tools.get(tool.id)
        if read is not None and read.fingerprint == tool.fingerprint and read.level >= level:
            self._tools[tool.id] = read._replace(is_withdrawn=False)
            return
        self._tools.pop(tool.id, None)
        self._tools[tool.id] = ReadTool(level, tool.fingerprint, place)

    def _offer(self, tools: Iterable[Tool]) -> None:
        for tool in tools:
            self._offered.setdefault(tool.id)

    def _note_text(self, text: object, tool_ids: Sequence[str]) -> None:
        if tool_ids:
            fingerprint = _fingerprint(text)
            self._texts[fingerprint] = tuple(dict.fromkeys(tool_ids))

    # The way `list`.

    def _show_in_list(self, admission: Admission, found: Sequence[Tool]) -> Shown:
        for tool in reversed(found):
            self._list_latest(tool)
        self._untold.clear()
        self._to_repeat.clear()
        missing = self._write_list(admission)
        levels = {one.tool.id: one.level for one in self._list}
        return self._finish([], levels, missing)

    def _list_latest(self, tool: Tool) -> None:
        self._listed.pop(tool.id, None)
        self._listed[tool.id] = None

    def _tools_in_list(self) -> dict[str, ReadTool]:
        return {tool_id: read for tool_id, read in self._tools.items() if read.place == "list"}

    def _write_list(self, admission: Admission) -> tuple[MissingDefinition, ...]:
        """The tools of the list: those found or called last, as many as fit, in order of id."""
        before = [one.function for one in self._list]
        if self.shows_whole_catalog:
            self._list = []
            return ()
        rows, tools = admission.index.rows, admission.tools
        latest = [
            tools[rows[tool_id]] for tool_id in reversed(self._listed) if admission.admits(tool_id)
        ]
        loaded = self._schemas.load(latest)
        definitions = choose_definitions(
            [loaded.tools[tool.id] for tool in latest if tool.id in loaded.tools],
            self._settings.list_tokens,
            lambda tool, level: self._define(tool, level, in_list=True),
        )
        self._listed = {
            tool_id: None
            for tool_id in self._listed
            if tool_id in {one.tool.id for one in definitions}
        }
        for tool in latest:
            if tool.id not in self._listed:
                self._offered.pop(tool.id, None)
        self._list = sorted(definitions, key=lambda one: one.tool.id)
        for definition in self._list:
            tool = definition.tool
            self._tools[tool.id] = ReadTool(definition.level, tool.fingerprint, "list")
        self._head_is_new |= before != [one.function for one in self._list]
        return loaded.missing

    # Quarantined definitions.

    def _cleaned(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """A message without quarantined definitions; None if nothing of it is left."""
        if _fingerprint(message) in self._dropped:
            return None
        provider = self._provider
        assert provider is not None
        names = {provider.name_of(tool_id) for tool_id in self._quarantined}
        cleaned: dict[str, Any] = self._without_quarantined(message, names)
        return cleaned

    def _without_quarantined(self, value: Any, names: set[str]) -> Any:
        if isinstance(value, list):
            return [self._without_quarantined(item, names) for item in value]
        if not isinstance(value, dict):
            return value
        is_definition = "input_schema" in value or "parameters" in value
        if is_definition and value.get("name") in names:
            schema = {"type": "object", "properties": {}}
            emptied = {name: schema for name in ("input_schema", "parameters") if name in value}
            return {**value, "description": _WITHDRAWN, **emptied}
        cleaned = {}
        for name, item in value.items():
            if name in ("content", "output") and _fingerprint(item) in self._dropped:
                cleaned[name] = _WITHDRAWN
            else:
                cleaned[name] = self._without_quarantined(item, names)
        return cleaned


def denied_ids(admission: Admission) -> frozenset[str]:
    """Ids of the denied tools of a catalog version."""
    index, mask = admission.index, admission.mask
    if mask is None:
        return frozenset()
    return frozenset(index.tools[row].id for row in index.rows_in_id_order(~mask).tolist())


def _departure(admission: Admission, tool_id: str) -> Departure:
    if not admission.exists(tool_id):
        return Departure(tool_id, "vanished", "it is no longer in the catalog")
    refusal = admission.refusal(tool_id)
    assert refusal is not None
    return Departure(tool_id, refusal.kind, refusal.reason)


def _ids_in_text(step: _Step) -> list[str]:
    """Ids of the tools of which a step's text says something."""
    return [
        *(one.tool.id for one in step.definitions if one.function is None),
        *(tool.id for tool in (*step.lines.tools, *step.without_definition)),
    ]


def _tokens_of(messages: Sequence[Mapping[str, Any]]) -> int:
    return sum(bundled_counter().count(canonical_json(message)) for message in messages)


def _fingerprint(value: object) -> str:
    text = value if isinstance(value, str) else canonical_json(value)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=9).hexdigest()
