"""Computes the cost of the tools in a conversation's prompts, with a prompt cache."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from .arm import ShownTools
from .tasks import TaskTurn

if TYPE_CHECKING:
    from ...models import TokenCounter


_LINE = re.compile(r".*?\n(?=\S)|.+", re.DOTALL)
"""A line with its end, and with those after it that begin with white space."""
_TEXTS = 1_024
"""Texts whose sums are kept: what stands in a prompt is counted again in every turn."""


@dataclass(frozen=True, slots=True)
class Prices:
    """The price rule, per token and as a share of a plain input token.

    Defaults are those of Anthropic's prompt cache of five minutes. A text that is also in the next
    turn's prompt is written to the cache when it is new. It is read from the cache until something
    before it changes. A text that the next turn drops is never cached. Minimum lengths and expiry
    are ignored.

    Args:
        read: price of a cached token.
        write: price of a token that is written to the cache.
        plain: price of a token that is not cached.
    """

    read: float = 0.1
    write: float = 1.25
    plain: float = 1.0


class Paid(NamedTuple):
    """Cost of one turn's prompt.

    Attributes:
        tokens: tokens of all texts about tools.
        cached: their price with the cache, in plain input tokens.
        uncached: their price without a cache, over all model calls of the turn.
        changed_bytes: bytes of the last turn's prompt, with the conversation, that must be read
            again because of a change at or before them.
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
        counter: token counter; shared, so that a text is counted once.
        prices: the price rule.
    """

    def __init__(self, counter: TextTokens, prices: Prices) -> None:
        self._count = counter
        self._prices = prices
        self._history: list[_Piece] = []
        self._batches: tuple[str, ...] = ()
        self._before: list[_Piece] = []

    def turn(self, shown: ShownTools, turn: TaskTurn) -> Paid:
        """The cost of a turn. Its messages are added to the conversation."""
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

    No token crosses a line end if the next line is not empty. So the sum over lines is exact.

    Args:
        counter: token counter.
    """

    def __init__(self, counter: TokenCounter) -> None:
        self._of_line = cache(counter.count)
        self._of_text = lru_cache(_TEXTS)(self._sum)

    def __call__(self, text: str) -> int:
        """Tokens of a text."""
        return self._of_text(text)

    def _sum(self, text: str) -> int:
        return sum(map(self._of_line, _LINE.findall(text)))
