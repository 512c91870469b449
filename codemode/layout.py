"""The layout of stubs that a model reads: the same code with fewer tokens."""

from __future__ import annotations

import re

#: Docstrings and other strings, which stay, and what is between them. A docstring of
#: `docstrings.docstring` holds no double quote.
_PARTS = re.compile(
    r"""
    (?P<docstring> \"{3}[^"]*\"{3})
    | (?P<string> '(?:\\.|[^'\\])*' | "(?:\\.|[^"\\])*")
    | (?P<gone> [ ]->[ ]Any(?=:) | (?<=:)\n[ ]{8}(?=\"{3}) | \n(?=\n))
    | (?P<indent> ^[ ]+)
    | (?P<sign> [ ]?(?:->|[:=|,])[ ])
    """,
    re.VERBOSE | re.MULTILINE,
)
_INDENT = re.compile(r"\n +")
#: The class of a server, and the name of its only instance.
_CLASS = re.compile(r"^class _(?=\w+:$)|^(\w+): _\1$\n?", re.MULTILINE)


def compact(stubs: str) -> str:
    r"""Stubs with one space of indentation, none around signs, and without result types `Any`.

    A server is a class of its name; the statement that binds the name to an instance is left out.

    Args:
        stubs: as `Stubs.text` writes them.

    Example:
        >>> print(compact('class _a:\n    def b(self, *, c: int = 1) -> Any:\n        ...\n'))
        class a:
         def b(self,*,c:int=1):
         ...
    """
    return _PARTS.sub(_shorter, _CLASS.sub(lambda found: "" if found[1] else "class ", stubs))


def _shorter(part: re.Match[str]) -> str:
    if part["docstring"]:
        return _INDENT.sub("\n ", part[0])
    if part["string"]:
        return part[0]
    if part["gone"]:
        return ""
    return " " if part["indent"] else part[0].strip()
