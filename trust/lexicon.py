"""Concepts: what a sentence speaks of, each found by one expression over folded text.

A concept says nothing about intent. "Reads a private key" names a secret as innocently as it can
be; it is what several concepts say together that `signals` weighs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

from .languages import FOREIGN
from .literals import Literals
from .words_of_conduct import CONDUCT
from .words_of_harm import HARM
from .words_of_order import ORDER
from .words_of_reach import REACH
from .words_of_secrecy import SECRECY

_WORDS: Final = ORDER | REACH | SECRECY | HARM | CONDUCT
_JOINING: Final = frozenset(
    "trigger oblige imperative self read hand_over send_away slot authority threat prefer redirect "
    "execute change defend path normative acts is_acted elsewhere learns usage illustrates "
    "own_server".split()
)


def _compiled(words: Mapping[str, str], joining: bool) -> dict[str, re.Pattern[str]]:
    return {
        name: re.compile(expression, re.MULTILINE)
        for name, expression in words.items()
        if (name in _JOINING) == joining
    }


POINTED: Final = _compiled(_WORDS, joining=False)
"""Concepts that an ordinary description seldom speaks of; every signal needs one of them."""
CONNECTING: Final = _compiled(_WORDS, joining=True)
"""Concepts that say nothing by themselves, looked for in segments that hold a pointed one."""
POINTED_ELSEWHERE: Final = _compiled(FOREIGN, joining=False)
"""The pointed concepts in other languages."""
CONNECTING_ELSEWHERE: Final = _compiled(FOREIGN, joining=True)
"""The connecting concepts in other languages."""


@cache
def literals() -> Literals:
    """What a text must hold for each concept to be found in it; derived once, when first asked."""
    return Literals(_WORDS)
