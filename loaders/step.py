"""What one step tells the model, and how it is written as messages or as an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..catalog.schema import canonical_json
from .counting import bundled_counter
from .declared_tools import DeclaredTools
from .definitions import Definition
from .head import LOADED_HEADING
from .levels import Level
from .pool import Lines
from .providers import Messages, Provider, Way
from .providers.provider import SearchContent
from .sent_texts import SentTexts

_MAX_NAMES = 20
"""Most tools that a line names as no longer available."""
_LINES_HEADING = "Also found; call them with call_tool:\n"
_LINES_HEADING_WITHOUT_LIST = "Also found:\n"


@dataclass(frozen=True, slots=True)
class Shown:
    """What one step shows the model.

    Args:
        messages: messages to add to the conversation.
        answer: content of the answer to a search of the model; None for other steps.
        levels: id to level, for each tool that the step shows.
        head_is_new: whether the system prompt or the list of tools differs from the last step's.
        head_tokens: tokens of the system prompt and the list of tools.
        message_tokens: tokens of all messages about tools in the conversation.
    """

    messages: tuple[dict[str, Any], ...] = ()
    answer: SearchContent | None = None
    levels: Mapping[str, Level] = field(default_factory=dict)
    head_is_new: bool = False
    head_tokens: int = 0
    message_tokens: int = 0

    @property
    def tokens(self) -> int:
        """Tokens of all text about tools in the next request."""
        return self.head_tokens + self.message_tokens


class Step(NamedTuple):
    """What a step tells the model, in no provider's form.

    Attributes:
        removed: ids of tools that are not available any more.
        restored: ids of tools that are available again.
        definitions: definitions that it has not read.
        lines: lines of further tools.
        named: ids of tools found of which the model has a line already.
    """

    removed: Sequence[str] = ()
    restored: Sequence[str] = ()
    definitions: Sequence[Definition] = ()
    lines: Lines = Lines()
    named: Sequence[str] = ()

    @property
    def native(self) -> list[Definition]:
        """The definitions in the provider's form."""
        return [definition for definition in self.definitions if definition.function is not None]

    @property
    def ids_in_text(self) -> list[str]:
        """Ids of the tools of which its text says something."""
        return [
            *(definition.tool.id for definition in self.definitions if definition.function is None),
            *(tool.id for tool in self.lines.tools),
        ]


class StepWriter:
    """Writes the steps of one conversation for its provider.

    Args:
        provider: the provider.
        way: how found tools reach the model.

    Attributes:
        declared: the tools that the provider has the definitions of.
        texts: the texts written so far.
        exchange_count: number of searches that were written in the model's name.
        message_tokens: tokens of everything written.
    """

    def __init__(self, provider: Provider, way: Way) -> None:
        self.provider, self.way = provider, way
        self.declared = DeclaredTools(provider, way)
        self.texts = SentTexts()
        self.exchange_count = 0
        self.message_tokens = 0

    def messages(self, step: Step) -> Messages:
        """The messages that tell a step."""
        loaded = [definition.loaded for definition in step.native]
        messages, rest = self._additions(step)
        self.declared.declare(step.definitions)
        if self.way == "search" and loaded:
            self.exchange_count += 1
            call_id = f"call_shortlist_{self.exchange_count:06}"
            messages += self.provider.search_exchange(call_id, loaded)
        if text := self._text(rest):
            note = self.provider.note(text, self.way)
            self.texts.note(note, step.ids_in_text)
            messages.append(note)
        self._count(step, messages)
        return messages

    def answer(
        self, step: Step, known_ids: Sequence[str], nothing: str
    ) -> tuple[SearchContent, Messages]:
        """The content of an answer to a search of the model, and messages after it.

        Args:
            step: what the answer tells.
            known_ids: ids of tools found whose definition the model has.
            nothing: what it says first if no tool is found; otherwise empty.
        """
        loaded = [definition.loaded for definition in step.native]
        loaded_ids = [definition.tool.id for definition in step.native]
        messages, rest = self._additions(step)
        self.declared.declare(step.definitions)
        sentences = [
            self.naming("You already have", [*known_ids, *step.restored]),
            self.naming("Loaded", loaded_ids) if self.way == "append" else "",
            nothing,
            self._text(rest._replace(restored=())),
        ]
        text = "\n".join(filter(None, sentences))
        answer: SearchContent = text
        if self.way == "search":
            answer = self.provider.search_content(loaded, text)
            if loaded and text and not self.provider.search_loads_text:
                messages.append(self.provider.note(text, self.way))
        tool_ids = [*step.ids_in_text, *(loaded_ids if self.declared.refers_to_list else [])]
        self.texts.note(messages[0] if messages and self.way == "search" else answer, tool_ids)
        self._count(step, [*messages, {"answer": answer}])
        return answer, messages

    def forget_messages(self) -> None:
        """Note that the conversation has no message about tools any more."""
        self.declared.clear()
        self.texts.clear()
        self.message_tokens = 0

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "declared": sorted(self.declared.functions),
            "removed": sorted(self.declared.removed),
            "texts": self.texts.to_dict(),
            "exchanges": self.exchange_count,
            "message_tokens": self.message_tokens,
        }

    def load(self, saved: Mapping[str, Any]) -> None:
        """Continue from the result of `to_dict`, but for the declared tools.

        Raises:
            AttributeError, KeyError, TypeError, ValueError: it is damaged.
        """
        self.declared.removed = set(map(str, saved["removed"]))
        self.texts.load(saved["texts"])
        self.exchange_count = int(saved["exchanges"])
        self.message_tokens = int(saved["message_tokens"])

    def naming(self, label: str, tool_ids: Sequence[str]) -> str:
        """A sentence that names tools as the model calls them; empty for none."""
        names = list(map(self.declared.name, tool_ids[:_MAX_NAMES]))
        more = len(tool_ids) - len(names)
        ending = f" and {more} more; a call of one is answered with the reason" if more else ""
        return f"{label}: {', '.join(names)}{ending}" if names else ""

    def _additions(self, step: Step) -> tuple[Messages, Step]:
        """The messages of the way `append`, and what of the step they do not tell."""
        if self.way != "append":
            return [], step
        removed, restored = (
            list(filter(self.declared.can_remove, tool_ids))
            for tool_ids in (step.removed, step.restored)
        )
        self.declared.removed.update(removed)
        self.declared.removed.difference_update(
            restored, (definition.tool.id for definition in step.native)
        )
        messages = self.provider.additions(
            [definition.loaded for definition in step.native],
            removed=list(map(self.provider.name_of, removed)),
            restored=list(map(self.provider.name_of, restored)),
        )
        rest = step._replace(
            removed=[tool_id for tool_id in step.removed if tool_id not in removed],
            restored=[tool_id for tool_id in step.restored if tool_id not in restored],
        )
        return messages, rest

    def _text(self, step: Step) -> str:
        """What a step says in words."""
        definitions = [
            definition.text for definition in step.definitions if definition.function is None
        ]
        has_list = self.provider.has_list
        heading = _LINES_HEADING if has_list else _LINES_HEADING_WITHOUT_LIST
        known_label = "Also found, with a line above"
        known_label += "; call them with call_tool" if has_list else ""
        parts = [
            self.naming("No longer available", step.removed),
            self.naming("Available again", step.restored),
            self.naming(known_label, step.named),
            f"{LOADED_HEADING}{chr(10).join(definitions)}" if definitions else "",
            f"{heading}{step.lines.text}".rstrip("\n") if step.lines.text else "",
        ]
        return "".join(f"{part}\n" for part in parts if part)

    def _count(self, step: Step, written: Sequence[Mapping[str, Any]]) -> None:
        count = bundled_counter().count
        self.message_tokens += sum(count(canonical_json(message)) for message in written)
        if self.declared.refers_to_list:
            # Definitions that the messages refer to, and that stand in the list.
            self.message_tokens += sum(definition.tokens for definition in step.native)
