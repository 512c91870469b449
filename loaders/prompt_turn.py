"""PromptTurn: the text about tools in one turn's prompt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .detail import Detail
from .render import Rendered
from .schemas import Missing


@dataclass(frozen=True, slots=True)
class PromptTurn:
    """The prompt of one turn: its text, messages and token counts.

    Args:
        rendered: system prompt and tools in the provider's format.
        appended: new messages; after a rebuild, all messages about tools, in place of the earlier
            ones.
        passing: messages for this turn only, right before the user's message.
        phase1_tokens: tokens of the pool and of tools that are always shown.
        phase2_tokens: tokens of the promoted tools in the present prompt.
        working_tokens: tokens of the lines of a working set.
        changed_bytes: bytes of the last prompt that the provider's cache lost because something
            before them changed. Appending changes nothing.
        details: id to level of detail, for each promoted tool.
        callable: ids of the tools whose arguments are shown in any form.
        missing: id to reason, for tools whose definition could not be loaded.
        left_out: ids of tools that did not fit in the token budgets.
        rebuilt: whether all promoted tools were written again.
    """

    rendered: Rendered
    appended: tuple[dict[str, Any], ...]
    passing: tuple[dict[str, Any], ...]
    phase1_tokens: int
    phase2_tokens: int
    working_tokens: int
    changed_bytes: int
    details: Mapping[str, Detail]
    callable: frozenset[str]
    missing: tuple[Missing, ...]
    left_out: tuple[str, ...]
    rebuilt: bool
