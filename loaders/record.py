"""What the model of one conversation has read of its tools: an append-only record.

A turn appends what the model needs and has not read. Nothing before it changes, with three
exceptions: the way `list`, a catalog that has changed much, and quarantined definitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from ..catalog import Tool
from ..config import SessionConfig
from ..gating.admission import Admission
from .definitions import choose_definitions
from .head import Head, write_head
from .levels import Level
from .pool import Lines, lines_of_tools
from .providers import Messages, Provider, Way
from .providers.provider import Function
from .read_tools import ReadTools
from .step import Shown, Step, StepWriter
from .summaries import shared_summaries
from .tool_list import ToolList

_TURN_LINE_TOKENS = 450
"""Tokens of lines that any turn may add, where the head has no line for each tool."""
_ANSWER_TURNS = 2
"""An answer to a search of the model may have the definitions of so many turns."""


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


class ReadRecord:
    """What the model of one conversation has read, and what the next step shows. Not thread-safe.

    Args:
        provider: writes requests and messages; None where nothing is rendered.
        way: how found tools reach the model; None without a provider.
        settings: settings of the session.

    Attributes:
        head: the system prompt and the list of tools; None before the first step.
        read: what the model has read of each tool.
    """

    def __init__(
        self,
        provider: Provider | None,
        way: Way | None,
        settings: SessionConfig,
    ) -> None:
        self.head: Head | None = None
        self.read = ReadTools()
        self._writer: StepWriter | None = None
        #: The list of the way `list`.
        self._list: ToolList | None = None
        if provider is not None and way is not None:
            self._writer = StepWriter(provider, way)
            if way == "list":
                self._list = ToolList(provider, settings.list_tokens)
        self._settings = settings
        self._summaries = shared_summaries((), settings.summaries)
        self._offered: dict[str, None] = {}
        self._called_servers: list[str] = []
        self._unread_count = 0
        self._line_tokens = 0
        self._permissions: _Permissions | None = None
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
        return self.head is not None and self._list is None and self._unread_count > 0

    @property
    def callable_ids(self) -> frozenset[str]:
        """Ids of the available tools whose arguments the model has read, and may call."""
        return self.read.callable_ids(() if self._list is None else self._list.ids)

    def level_of(self, tool_id: str) -> Level | None:
        """How much of an available tool the model has; None for nothing."""
        read = self.read.get(tool_id)
        if read is None or read.is_withdrawn:
            return None
        if read.place == "list" and self._list is not None and tool_id not in self._list.ids:
            return None
        return read.level

    def tool_id_of(self, name: str) -> str | None:
        """The id of the tool that the model calls by this name; None if it has read of none."""
        if name in self.read:
            return name
        if self._writer is None:
            return None
        name_of = self._writer.provider.name_of
        return next((tool_id for tool_id in self.read if name_of(tool_id) == name), None)

    def follow(self, admission: Admission) -> Changes:
        """Compare with the present permissions. What the model must be told waits for a step."""
        permissions = _Permissions.of(admission)
        if self._permissions is not None and self._permissions.equal(permissions):
            return Changes()
        self._permissions = permissions
        self._summaries = shared_summaries(admission.index.summaries, self._settings.summaries)
        changed_ids = [name for name in self.read.follow(admission) if name in self._offered]
        departures = []
        for tool_id in self.offered:
            if not admission.admits(tool_id):
                del self._offered[tool_id]
                departures.append(_departure(admission, tool_id))
        if self._writer is not None:
            self._follow_quarantine(self._writer, admission.quarantined_ids)
            self._follow_head(self._writer, admission)
        self._unread_count = admission.permitted_count - len(self.callable_ids)
        return Changes(tuple(departures), tuple(changed_ids))

    def show(
        self, admission: Admission, found: Sequence[Tool], also_found: Iterable[Tool] = ()
    ) -> Shown:
        """Show what a step needs and the model has not read.

        Args:
            admission: the present permissions, which the record follows already.
            found: tools to show with their definition, best first.
            also_found: further tools, best first. They get a line while there is room.
        """
        self._offer(found)
        if self._writer is None:
            self.read.note(found, Level.FULL)
            return Shown(levels=dict.fromkeys((tool.id for tool in found), Level.FULL))
        if self._list is not None:
            return self._show_in_list(self._list, admission, found)
        budget = self._settings.turn_tokens
        step = self._choose(self._writer, admission, found, also_found, budget)
        return self._shown(step, self._writer.messages(step))

    def show_in_answer(self, admission: Admission, found: Sequence[Tool], nothing: str) -> Shown:
        """Answer a search of the model: each tool is loaded, has a line, or is named as known.

        Args:
            admission: the present permissions, which the record follows already.
            found: the tools found, best first.
            nothing: what the answer says where no tool is found.
        """
        writer = self._writer
        if writer is None:
            return self.show(admission, found)
        known_ids = [tool.id for tool in found if self.read.has(tool, Level.SIGNATURE)]
        nothing = "" if found else nothing
        if self._list is not None:
            if not self.shows_whole_catalog:
                # The model has read a definition that left the list, but does not have it any more.
                known_ids = [tool_id for tool_id in known_ids if tool_id in self._list.ids]
            shown = self.show(admission, found)
            new_ids = [tool.id for tool in found if tool.id not in known_ids]
            listed = self._list.ids
            sentences = [
                writer.naming(
                    "Added to your list of tools", [name for name in new_ids if name in listed]
                ),
                writer.naming("You already have", known_ids),
                writer.naming(
                    "Also found; search for the name of one to add it",
                    [name for name in new_ids if name not in listed],
                ),
                nothing,
            ]
            return replace(shown, answer="\n".join(filter(None, sentences)))
        lined_ids = [
            tool.id
            for tool in found
            if self.read.has(tool, Level.ARGUMENTS) and tool.id not in known_ids
        ]
        self._offer(found)
        budget = _ANSWER_TURNS * self._settings.turn_tokens
        step = self._choose(writer, admission, found, (), budget)
        defined = {definition.tool.id for definition in step.definitions}
        step = step._replace(named=[tool_id for tool_id in lined_ids if tool_id not in defined])
        answer, messages = writer.answer(step, known_ids, nothing)
        return replace(self._shown(step, messages), answer=answer)

    def note_answer(self, admission: Admission, tool: Tool, answer: str) -> None:
        """Note that the answer to a call has a tool's whole definition.

        Args:
            admission: the present permissions, which the record follows already.
            tool: the tool, which counts as offered from now on.
            answer: text of the answer.
        """
        self._offer([tool])
        if self._list is not None:
            self._list.add(tool)
            self._write_list(self._list, admission)
        self.read.note([tool], Level.FULL)
        if self._writer is not None:
            self._writer.texts.note(answer, [tool.id])

    def note_called(self, tool: Tool) -> None:
        """Note a successful call: the tools of its server get lines, if the head has none."""
        self._offer([tool])
        if self._list is not None and tool.id in self._list.latest:
            self._list.add(tool)
        if tool.server and self.wants_lines and tool.server not in self._called_servers:
            self._called_servers.append(tool.server)

    def compacted(self) -> None:
        """Note that the host has removed the messages about tools from the conversation."""
        self.read.forget_messages(self.head)
        if self._writer is not None:
            self._writer.forget_messages()
        self._line_tokens = 0
        self._permissions = None

    def request(
        self, messages: Messages, first_tools: Iterable[Mapping[str, Any]] = ()
    ) -> dict[str, Any]:
        """The arguments of the next request to the model.

        Args:
            messages: the conversation. Texts with quarantined definitions are taken out of it.
            first_tools: what the list of tools begins with.
        """
        writer, head = self._writer, self.head
        assert writer is not None
        assert head is not None
        name_of = writer.provider.name_of
        messages = writer.texts.cleaned(messages, set(map(name_of, writer.declared.quarantined)))
        functions = [*map(dict, first_tools), *self.functions]
        return writer.provider.request(head.system, functions, messages, writer.way)

    @property
    def functions(self) -> list[Function]:
        """The provider's list of tools."""
        if self.head is None or self._writer is None:
            return []
        listed = [] if self._list is None else self._list.functions
        deferred = self._writer.declared.deferred
        return [*self.head.own_tools, *self.head.resident, *listed, *deferred]

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "head": None if self.head is None else self.head.model_dump(mode="json"),
            "offered": list(self._offered),
            "called_servers": list(self._called_servers),
            "line_tokens": self._line_tokens,
            "listed": [] if self._list is None else list(self._list.latest),
            **self.read.to_dict(),
            **({} if self._writer is None else self._writer.to_dict()),
        }

    def load(self, saved: Mapping[str, Any], admission: Admission) -> None:
        """Continue from the JSON form of another record of the same provider, way and settings.

        Args:
            saved: result of `to_dict`.
            admission: the permissions at the time of the last step, over the present catalog.

        Raises:
            AttributeError, KeyError, TypeError, ValueError: it is damaged.
        """
        self._summaries = shared_summaries(admission.index.summaries, self._settings.summaries)
        self.head = None if saved["head"] is None else Head.model_validate(saved["head"])
        self.read.load(saved)
        self._offered.update(dict.fromkeys(map(str, saved["offered"])))
        self._called_servers = list(map(str, saved["called_servers"]))
        self._line_tokens = int(saved["line_tokens"])
        writer = self._writer
        if writer is None:
            return
        writer.load(saved)
        if self.head is not None:
            writer.declared.follow_head(self.head)
        declared_ids = map(str, saved["declared"])
        for tool_id in writer.declared.declare_again(
            declared_ids, admission, self.read, self._summaries
        ):
            self.read.forget(tool_id, self.head)
        self._follow_quarantine(writer, admission.quarantined_ids)
        if self._list is not None:
            self._list.latest.update(dict.fromkeys(map(str, saved["listed"])))
            saved_list = self.read.listed()
            self._write_list(self._list, admission)
            self._head_is_new = self.read.listed() != saved_list
        writer.declared.follow(admission, self._summaries)

    def _follow_quarantine(self, writer: StepWriter, quarantined: frozenset[str]) -> None:
        """Take quarantined definitions out of the conversation while they are quarantined.

        What else stood in the same texts counts as not read.
        """
        declared = writer.declared
        declared.quarantined = {name for name in declared.functions if name in quarantined}
        for tool_id in writer.texts.drop_quarantined(quarantined):
            if declared.refers_to_list:
                declared.functions.pop(tool_id, None)
            read = self.read.get(tool_id)
            is_in_message = read is not None and read.place == "messages"
            if is_in_message and tool_id not in declared.functions:
                self.read.forget(tool_id, self.head)

    def _follow_head(self, writer: StepWriter, admission: Admission) -> None:
        """Write the head again where it must not stay, and the rest of the list of tools."""
        head = self.head
        if (
            head is None
            or self._list is not None
            or not admission.quarantined_ids.isdisjoint(head.levels)
            or head.is_outdated(admission.permitted_count, self.read.present_ids(admission))
        ):
            self._write_head(writer, admission)
        if self._list is not None:
            self._write_list(self._list, admission)
        writer.declared.follow(admission, self._summaries)

    def _write_head(self, writer: StepWriter, admission: Admission) -> None:
        settings = self._settings
        head = write_head(
            writer.provider,
            writer.way,
            admission.index.catalog,
            _denied_ids(admission),
            self._summaries,
            instructions=settings.instructions,
            pool_tokens=settings.pool_tokens,
            whole_catalog_tokens=int(settings.context_tokens * settings.pass_through),
        )
        if head != self.head:
            self.read.follow_head(self.head, head, writer.declared.removed)
            writer.declared.follow_head(head)
            self.head = head
            self._head_is_new = True

    def _choose(
        self,
        writer: StepWriter,
        admission: Admission,
        found: Sequence[Tool],
        also_found: Iterable[Tool],
        budget: int,
    ) -> Step:
        """What a step tells: what the model needs and has not read, within a budget.

        Args:
            writer: writes the step.
            admission: the present permissions.
            found: tools that need a definition, best first.
            also_found: further tools, best first, that get a line while there is room.
            budget: maximum tokens of the definitions.
        """
        rows, tools = admission.index.rows, admission.tools
        repeated = [
            tools[rows[tool_id]] for tool_id in self.read.to_repeat if admission.admits(tool_id)
        ]
        self.read.to_repeat.clear()
        restored = [tool.id for tool in found if self.read.was_withdrawn(tool, Level.SIGNATURE)]
        unread = {
            tool.id: tool
            for tool in (*repeated, *found)
            if not self.read.has(tool, Level.SIGNATURE) and tool.id not in restored
        }
        definitions = choose_definitions(
            list(unread.values()),
            budget,
            lambda tool, level: writer.declared.definition(tool, level, self._summaries),
        )
        defined_ids = {definition.tool.id for definition in definitions}
        needs_line = [
            tool
            for tool_id, tool in unread.items()
            if tool_id not in defined_ids and not self.read.has(tool, Level.ARGUMENTS)
        ]
        further = []
        for tool in also_found if self.wants_lines else ():
            if self.read.was_withdrawn(tool, Level.ARGUMENTS):
                restored.append(tool.id)
            elif tool.id not in unread and not self.read.has(tool, Level.ARGUMENTS):
                further.append(tool)
        return Step(
            removed=list(self.read.untold),
            restored=list(dict.fromkeys(restored)),
            definitions=definitions,
            lines=self._choose_lines(admission, needs_line, further, defined_ids),
        )

    def _choose_lines(
        self,
        admission: Admission,
        required: list[Tool],
        further: Sequence[Tool],
        defined_ids: set[str],
    ) -> Lines:
        """Lines of tools without a definition, of called servers, and of further tools found."""
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
                and not self.read.has(tool, Level.ARGUMENTS)
            ]
            if lines_of_tools(unread, (), 0).tokens <= room:
                required = [*required, *unread]
        self._called_servers.clear()
        taken = {tool.id for tool in required}
        budget = max(room - self._line_tokens, min(room, _TURN_LINE_TOKENS))
        lines = lines_of_tools(required, (tool for tool in further if tool.id not in taken), budget)
        self._line_tokens += lines.tokens
        return lines

    def _shown(self, step: Step, messages: Messages) -> Shown:
        """What a step shows, after the record has noted it."""
        levels = {tool_id: self.read.restore(tool_id) for tool_id in step.restored}
        for tool_id in step.removed:
            self.read.untold.pop(tool_id, None)
        shown_tools = [
            *((definition.tool, definition.level) for definition in step.definitions),
            *((tool, Level.ARGUMENTS) for tool in step.lines.tools),
        ]
        for tool, level in shown_tools:
            self.read.note([tool], level)
            levels[tool.id] = level
        return self._with_counts(Shown(tuple(messages), levels=levels))

    def _with_counts(self, shown: Shown) -> Shown:
        """What a step shows, with the size of the request after it."""
        head_is_new, self._head_is_new = self._head_is_new, False
        listed = () if self._list is None else self._list.definitions
        return replace(
            shown,
            head_is_new=head_is_new,
            head_tokens=(0 if self.head is None else self.head.tokens)
            + sum(definition.tokens for definition in listed),
            message_tokens=0 if self._writer is None else self._writer.message_tokens,
        )

    def _offer(self, tools: Iterable[Tool]) -> None:
        for tool in tools:
            self._offered.setdefault(tool.id)

    def _show_in_list(self, listed: ToolList, admission: Admission, found: Sequence[Tool]) -> Shown:
        for tool in reversed(found):
            listed.add(tool)
        self.read.untold.clear()
        self.read.to_repeat.clear()
        self._write_list(listed, admission)
        levels = {definition.tool.id: definition.level for definition in listed.definitions}
        return self._with_counts(Shown(levels=levels))

    def _write_list(self, listed: ToolList, admission: Admission) -> None:
        """Choose the tools of the list again."""
        if self.shows_whole_catalog:
            listed.definitions = []
            return
        before = listed.functions
        for tool_id in listed.choose(admission, self._summaries):
            self._offered.pop(tool_id, None)
        for definition in listed.definitions:
            self.read.note_listed(definition.tool, definition.level)
        self._head_is_new |= before != listed.functions


def _denied_ids(admission: Admission) -> frozenset[str]:
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
