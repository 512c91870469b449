"""What the model has read of each tool, and which changes it was not told yet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from ..catalog import Tool
from ..gating.admission import Admission
from .head import Head
from .levels import Level

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


class ReadTools:
    """What the model has read of each tool, by id.

    Attributes:
        untold: ids of withdrawn tools of which the model was not told, in order.
        to_repeat: ids of tools whose changed definition the model has to read, in order.
    """

    def __init__(self) -> None:
        self.untold: dict[str, None] = {}
        self.to_repeat: dict[str, None] = {}
        self._tools: dict[str, ReadTool] = {}
        #: Id to the fingerprint of the definition that replaced the one that the model has read.
        self._changed: dict[str, str] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __contains__(self, tool_id: object) -> bool:
        return tool_id in self._tools

    def get(self, tool_id: str) -> ReadTool | None:
        """What the model has read of a tool; None for nothing."""
        return self._tools.get(tool_id)

    def level(self, tool: Tool) -> Level | None:
        """How much of this definition the model has read; None for nothing."""
        read = self._tools.get(tool.id)
        return None if read is None or read.fingerprint != tool.fingerprint else read.level

    def has(self, tool: Tool, level: Level) -> bool:
        """Whether the model has read so much of this definition, and the tool is available."""
        read_level = self.level(tool)
        return read_level is not None and read_level >= level and not self._is_withdrawn(tool.id)

    def was_withdrawn(self, tool: Tool, level: Level) -> bool:
        """Whether the model has read so much of this definition, and the tool is withdrawn."""
        read_level = self.level(tool)
        return read_level is not None and read_level >= level and self._is_withdrawn(tool.id)

    def has_other_definition(self, tool: Tool) -> bool:
        """Whether the model has read another definition of this tool."""
        read = self._tools.get(tool.id)
        return read is not None and read.fingerprint != tool.fingerprint

    def callable_ids(self, listed_ids: Collection[str]) -> frozenset[str]:
        """Ids of the available tools whose arguments the model has read.

        Args:
            listed_ids: ids of the tools that are in the list of the way `list` now.
        """
        return frozenset(
            tool_id
            for tool_id, read in self._tools.items()
            if read.level >= Level.ARGUMENTS
            and not read.is_withdrawn
            and (read.place != "list" or tool_id in listed_ids)
        )

    def present_ids(self, admission: Admission) -> set[str]:
        """Ids of the permitted tools whose present definition the model has read."""
        rows, tools = admission.index.rows, admission.tools
        return {
            tool_id
            for tool_id, read in self._tools.items()
            if admission.admits(tool_id) and tools[rows[tool_id]].fingerprint == read.fingerprint
        }

    def note(self, tools: Iterable[Tool], level: Level) -> None:
        """Note that messages say so much of tools."""
        for tool in tools:
            self._changed.pop(tool.id, None)
            if (read_level := self.level(tool)) is not None and read_level >= level:
                self.restore(tool.id)
                continue
            self._tools.pop(tool.id, None)
            self._tools[tool.id] = ReadTool(level, tool.fingerprint, "messages")

    def note_listed(self, tool: Tool, level: Level) -> None:
        """Note that the list of the way `list` has a tool."""
        self._tools[tool.id] = ReadTool(level, tool.fingerprint, "list")

    def restore(self, tool_id: str) -> Level:
        """Note that a tool is available, and return how much of it the model has read."""
        read = self._tools[tool_id] = self._tools[tool_id]._replace(is_withdrawn=False)
        return read.level

    def follow(self, admission: Admission) -> list[str]:
        """Compare with the present permissions. Returns the ids with another definition."""
        changed_ids = []
        rows, tools = admission.index.rows, admission.tools
        for tool_id, read in list(self._tools.items()):
            if admission.admits(tool_id):
                if read.is_withdrawn and tool_id in self.untold:
                    del self.untold[tool_id]
                    self.restore(tool_id)
                if self._note_change(tools[rows[tool_id]]):
                    changed_ids.append(tool_id)
            elif not read.is_withdrawn:
                self._tools[tool_id] = read._replace(is_withdrawn=True)
                self.untold[tool_id] = None
                self.to_repeat.pop(tool_id, None)
        return changed_ids

    def follow_head(self, before: Head | None, head: Head, removed_ids: Collection[str]) -> None:
        """Note what a new head says.

        Args:
            before: the head that it replaces; None for the first one.
            head: the head.
            removed_ids: ids of tools that the provider's own messages removed.
        """
        for tool_id in () if before is None else before.levels:
            read = self._tools.get(tool_id)
            if read is not None and read.place == "head":
                del self._tools[tool_id]
                self.untold.pop(tool_id, None)
        for tool_id, level in head.levels.items():
            read, is_removed = self._tools.get(tool_id), tool_id in removed_ids
            fingerprint = head.fingerprints[tool_id]
            if read is None or (read.level < level and (is_removed or not read.is_withdrawn)):
                self._tools[tool_id] = ReadTool(level, fingerprint, "head", is_removed)

    def forget(self, tool_id: str, head: Head | None) -> None:
        """Note that the model reads nothing of a tool any more but what the head says."""
        if not self._fall_back(tool_id, head):
            self.untold.pop(tool_id, None)

    def forget_messages(self, head: Head | None) -> None:
        """Note that the messages about tools were removed from the conversation."""
        for tool_id, read in list(self._tools.items()):
            if read.place == "messages" and self._fall_back(tool_id, head) and read.is_withdrawn:
                self.untold[tool_id] = None

    def listed(self) -> dict[str, ReadTool]:
        """Id to what the list of the way `list` says, or said, of a tool."""
        return {tool_id: read for tool_id, read in self._tools.items() if read.place == "list"}

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "tools": [
                [tool_id, int(read.level), read.fingerprint, read.place, read.is_withdrawn]
                for tool_id, read in self._tools.items()
            ],
            "untold": list(self.untold),
            "to_repeat": list(self.to_repeat),
        }

    def load(self, saved: Mapping[str, Any]) -> None:
        """Continue from the result of `to_dict`.

        Raises:
            AttributeError, KeyError, TypeError, ValueError: it is damaged.
        """
        for tool_id, level, fingerprint, place, is_withdrawn in saved["tools"]:
            if place not in ("head", "messages", "list") or not isinstance(is_withdrawn, bool):
                raise ValueError(f"{tool_id}: {place!r}, {is_withdrawn!r}")
            self._tools[str(tool_id)] = ReadTool(
                Level(level), str(fingerprint), place, is_withdrawn
            )
        self.untold.update(dict.fromkeys(map(str, saved["untold"])))
        self.to_repeat.update(dict.fromkeys(map(str, saved["to_repeat"])))

    def _is_withdrawn(self, tool_id: str) -> bool:
        return self._tools[tool_id].is_withdrawn

    def _note_change(self, tool: Tool) -> bool:
        """Whether a definition has changed since the last step. The model reads it again."""
        read = self._tools[tool.id]
        if tool.fingerprint in (read.fingerprint, self._changed.get(tool.id)):
            return False
        self._changed[tool.id] = tool.fingerprint
        if read.level >= Level.SIGNATURE and read.place != "list" and not read.is_withdrawn:
            self.to_repeat[tool.id] = None
        return True

    def _fall_back(self, tool_id: str, head: Head | None) -> bool:
        """Keep of a tool what the head says; whether it says anything."""
        read = self._tools.pop(tool_id)
        if head is None or tool_id not in head.levels:
            return False
        level, fingerprint = head.levels[tool_id], head.fingerprints[tool_id]
        self._tools[tool_id] = ReadTool(level, fingerprint, "head", read.is_withdrawn)
        return True
