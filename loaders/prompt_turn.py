"""What a prompt says about tools in one turn."""

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
        rendered: in the provider's shape.
        appended: messages that are new; after a rebuild all there are, in place of earlier ones.
        passing: messages of this turn alone, which stand right before what the user says.
        phase1_tokens: of the pool and of tools that are always there.
        phase2_tokens: of the tools promoted, as they stand in the prompt now.
        working_tokens: of the lines of a working set.
        changed_bytes: of last turn's prompt that have to be read anew because something before
            them changed; what is appended changes nothing.
        details: id to level, for each tool promoted.
        callable: ids of the tools whose arguments are shown, in whatever form.
        missing: tools whose definition could not be had, with the reason.
        left_out: ids for which the budget has no room at any level that says more than the pool,
            nor a working set for their line.
        rebuilt: whether the suffix was laid out anew.
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
