"""Prompts of a conversation piece by piece: what is paid for tools, and what a change costs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from .arm import ShownTools
from .tasks import TaskTurn

if TYPE_CHECKING:
    from ....models import TokenCounter


_LINE = re.compile(r".*?\n(?=\S)|.+", re.DOTALL)
"""A line with its end, and with those after it that begin with white space."""
_TEXTS = 1_024
"""Texts whose sums are kept: what stands in a prompt is counted again in every turn."""


@dataclass(frozen=True, slots=True)
class Prices:
    """The price rule, per token and as a share of a plain input token.

    Defaults are those of Anthropic's prompt cache of five minutes. Texts that stand in the next
    turn's prompt as well are written to the cache when they come and read from it as long as
    nothing before them changes; texts that the next turn drops are never cached. Minimum lengths
    and expiry are left out of account.

    Args:
        read: of a cached token.
        write: of a token written to the cache.
        plain: of a token that is not cached.
    """

    read: float = 0.1
    write: float = 1.25
    plain: float = 1.0


class Paid(NamedTuple):
    """What one turn's prompt costs.

    Attributes:
        tokens: of everything about tools in it.
        cached: the same at the price rule, in plain input tokens.
        uncached: the same without a cache, over all calls the turn takes.
        changed_bytes: of the last turn's prompt, tools and conversation, that have to be read anew
            because something at or before them changed.
        words: tokens of the conversation.
    """

    tokens: int
    cached: float
    uncached: float
    changed_bytes: int
    words: int


class _Piece(NamedTuple):
    text: str
    tools: bool
    stays: bool


class Transcript:
    """The prompts of one conversation under one arm.

    Args:
        counter: counts tokens; shared, so that a text is counted once.
        prices: the price rule.
    """

    def __init__(self, counter: TextTokens, prices: Prices) -> None:
        self._count = counter
        self._prices = prices
        self._history: list[_Piece] = []
        self._batches: tuple[str, ...] = ()
        self._before: list[_Piece] = []

    def turn(self, shown: ShownTools, turn: TaskTurn) -> Paid:
        """The cost of a turn; what it says joins the conversation."""
        self._place(shown.batches)
        said = _Piece(turn.user, tools=False, stays=True)
        prompt = [
            *(_Piece(text, tools=True, stays=True) for text in shown.head),
            *self._history,
            *(_Piece(text, tools=True, stays=False) for text in shown.tail),
            said,
        ]
        paid = self._paid(prompt, shown.extra_calls)
        self._before = prompt
        self._history += [said, _Piece(turn.assistant, tools=False, stays=True)]
        return paid

    def _place(self, batches: tuple[str, ...]) -> None:
        known = len(self._batches)
        if batches[:known] != self._batches:
            self._history = [piece for piece in self._history if not piece.tools]
            known = 0
        self._history += [_Piece(text, tools=True, stays=True) for text in batches[known:]]
        self._batches = batches

    def _paid(self, prompt: list[_Piece], extra_calls: int) -> Paid:
        same = 0
        for one, other in zip(self._before, prompt, strict=False):
            if one != other:
                break
            same += 1
        tokens, cached = 0, 0.0
        for at, piece in enumerate(prompt):
            if piece.tools:
                count = self._count(piece.text)
                tokens += count
                fresh = self._prices.write if piece.stays else self._prices.plain
                cached += count * (self._prices.read if at < same else fresh)
        cached += extra_calls * tokens * self._prices.read
        changed = sum(len(piece.text.encode()) for piece in self._before[same:])
        words = sum(self._count(piece.text) for piece in prompt if not piece.tools)
        return Paid(tokens, cached, float(tokens * (1 + extra_calls)), changed, words)


class TextTokens:
    """Tokens of texts, each line counted once.

    No token reaches from one line into the next where that begins with more than a line's end, so
    that the sum over lines is exact.

    Args:
        counter: counts them.
    """

    def __init__(self, counter: TokenCounter) -> None:
        self._of_line = cache(counter.count)
        self._of_text = lru_cache(_TEXTS)(self._sum)

    def __call__(self, text: str) -> int:
        """Tokens of a text."""
        return self._of_text(text)

    def _sum(self, text: str) -> int:
        return sum(map(self._of_line, _LINE.findall(text)))
