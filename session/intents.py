"""Splits a message into parts, one for each thing it asks for.

Parts are split at words and punctuation. Whether a part is an intent depends on its hits, see
`ScoreBoard.intents`.
"""

from __future__ import annotations

import re

from ..text import terms

#: Parts a request is taken apart into at most; each costs an encoding.
MAX_CLAUSES = 6
#: Characters beyond which a request is a document, not a list of wishes, and stays whole.
_MAX_CHARS = 1_000
# Distinct terms a part needs: below that it is the end of its neighbour.
_LEAST_TERMS = 2
_MARKS = " \n,.;:"

_SENTENCE = re.compile(r"(?<=[.?!;…])\s+|(?<=[。？！；])|\n+|;\s*")
# Longer forms first. Words that are one letter in one language and an article in another
# (`a`, `i`, `o`) are left out.
_CONJUNCTIONS = "|".join(
    (
        "and then|and also|and finally|and|then|also|plus|as well as|after that|afterwards",
        "finally|but|y luego|y después|y también|y|luego|después|también|et puis|et aussi|et|puis",
        "ensuite|und dann|und auch|und|dann|außerdem|e poi|poi|depois|então|e também|e|en dan",
        "daarna|och|sedan|og|oraz|potem|и затем|и|затем|потом|а также|ve sonra|ve|ardından|sonra",
        "ثم|و",
    )
)
_JOINT = re.compile(
    rf"(\s*,?\s+(?:{_CONJUNCTIONS})\s+"
    r"|[，、]\s*(?:然后|并且|并|再|接着|还有|そして|それから|また)?|(?:然后|并且|接着)"
    r"|\s*:\s+)",
    re.IGNORECASE,
)
_GOING_ON = re.compile(
    rf"\s*(?:{_CONJUNCTIONS}|然后|接着|そして|それから|また|그리고)\b", re.IGNORECASE
)
_BLANKS = re.compile(r"[^\S\n]+")
_COMMA = re.compile(r"(,\s+)")


def clauses(text: str) -> tuple[str, ...]:
    """The parts of a message, in order; one if it cannot be split, none if it is empty.

    Several sentences alone are not several parts, because people often explain one need in two or
        three. If there is a conjunction (in a dozen languages) or a colon, the message is split
        there and at the ends of sentences. It is split at commas only in a series that ends in a
        conjunction ("find X, gather Y and file Z"). A very short part stays with its neighbour.
    """
    bare = _BLANKS.sub(" ", text).strip(_MARKS)
    if len(bare) > _MAX_CHARS:
        return (bare,)
    found: list[str] = []
    several = False
    for sentence in _SENTENCE.split(bare):
        parts = _joined(_JOINT.split(sentence))
        several = several or len(parts) > 1 or _GOING_ON.match(sentence) is not None
        if len(parts) > 1:
            parts = [one for part in parts[:-1] for one in _joined(_COMMA.split(part))] + parts[-1:]
        for part in parts:
            if found and _slight(part):
                found[-1] += f" {part}"
            else:
                found.append(part)
    if not several:
        return (bare,) if bare else ()
    trimmed = (part.strip(_MARKS) for part in found)
    return tuple(part for part in trimmed if part)[:MAX_CLAUSES]


def _joined(pieces: list[str]) -> list[str]:
    """Texts between boundaries; `pieces` alternates texts and boundaries, as `re.split` gives."""
    current, parts = pieces[0], []
    for boundary, piece in zip(pieces[1::2], pieces[2::2], strict=True):
        if _slight(current) or _slight(piece):
            current += boundary + piece
        else:
            parts.append(current)
            current = piece
    return [*parts, current]


def _slight(part: str) -> bool:
    return len(set(terms(part))) < _LEAST_TERMS
