"""Docstrings of stubs: what a tool does, and arguments whose name and type do not explain them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ..catalog import Tool
from ..catalog.text import Notes, clean_line
from ..loaders.summaries import plain_sentences

#: Most characters of a function's description, of an argument's, and of all of one function's.
_SUMMARY, _ARGUMENT, _TEXT = 200, 90, 1_200
#: If this many functions of a server describe an argument alike, the description is shown once.
_FEWEST_SHARED = 2
_SPACES = re.compile(r"\s+")
_SENTENCE = re.compile(r"(?<=[^.\s])(?<!e\.g)(?<!i\.e)(?<!etc)\.(?=\s|$)")
#: Information that the signature already contains.
_OPTIONAL = re.compile(r"^\W*optional\b\W*", re.IGNORECASE)
_DEFAULT = re.compile(
    r"[\s,;]*\(?\b(?:the )?defaults?(?: value)?(?: is| to|:|=)?\s*", re.IGNORECASE
)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
#: Words that add nothing to a signature.
_EMPTY = frozenset(
    """the a an of to for in on with by from this that be is which whose used optional you your want
    whether use using specify specified provide provided given retrieve include included return
    returned result array boolean list number object string""".split()
)


def docstring(lines: Iterable[str], indent: int) -> str:
    """Lines as a docstring. Quotes in them cannot end it.

    Args:
        lines: lines of text; the first follows the quotes.
        indent: spaces before all other lines.
    """
    joined = ("\n" + " " * indent).join(lines)
    joined = joined.replace("\\", "\\\\").replace('"""', "'''").replace('"', "'")
    return f'"""{joined}"""'


def summary(tool: Tool, function: str) -> str:
    """What a tool does, with its original name if the function's name differs.

    Args:
        tool: the tool.
        function: name of the function; "" leaves the original name out.
    """
    said = ""
    for sentence in plain_sentences(tool.description):
        longer = f"{said} {sentence}.".strip()
        if len(longer) > _SUMMARY:
            break
        said = longer
    said = said or _short(tool.description or tool.title or "", _SUMMARY)
    if function not in ("", tool.name):
        said = f"{said} (tool: {_short(tool.name, 100)})".strip()
    return said


def argument_notes(tool: Tool, known: Mapping[str, str]) -> dict[str, str]:
    """One line for each argument; "" if its name and type explain it.

    Args:
        tool: tool with the arguments.
        known: argument's name in the schema to its name in Python.

    Returns:
        Argument's name in Python to the line.
    """
    properties, left = tool.input_schema.get("properties", {}), _TEXT
    about = _words(f"{tool.name} {summary(tool, '')} {' '.join(known)}")
    lines: dict[str, str] = {}
    for name, made in known.items():
        text, label = _argument(properties[name], about), made
        if made != name:
            # A readable original name is shown in place of the Python name.
            same = re.sub(r"\W", "_", name) == made.rstrip("_")
            plain = text and same and name.isascii() and name.isprintable()
            label = name if plain else made
            text = text if plain else f'sent as "{_short(name, 80)}". {text}'.strip()
        lines[made] = f"{label}: {text}" if text and left > 0 else ""
        left -= len(text)
    return lines


def shared_notes(notes: Iterable[Mapping[str, str]]) -> list[str]:
    """Lines that most functions of a server with an argument share, and at least two.

    Args:
        notes: lines of each function.
    """
    counted: dict[str, Counter[str]] = {}
    for one in notes:
        for made, line in one.items():
            counted.setdefault(made, Counter())[line] += 1
    best = ((lines.most_common(1)[0], lines.total()) for lines in counted.values())
    return [
        line
        for (line, count), total in best
        if line and count >= _FEWEST_SHARED and count * 2 > total
    ]


def _argument(schema: Any, known: frozenset[str]) -> str:
    """A schema's description of an argument, besides name, type and default; "" if there is none.

    Args:
        schema: schema of the argument.
        known: words in the signature and the summary.
    """
    said = schema.get("description") if isinstance(schema, dict) else None
    if not isinstance(said, str):
        return ""
    text = _OPTIONAL.sub("", _short(said, _ARGUMENT))
    found = _DEFAULT.search(text) if "default" in schema else None
    if found is not None:
        given = text[found.end() :].strip(" .)`'\"")
        if given.casefold() == str(schema["default"]).casefold():
            text = text[: found.start()]
    return "" if _words(text) <= known | _EMPTY else text


def _words(text: str) -> frozenset[str]:
    """The words of a text or a name, without the plural s."""
    found = (one.casefold() for one in _WORDS.findall(text))
    return frozenset(one if len(one) < 4 else one.removesuffix("s") for one in found)


def _short(text: str, letters: int) -> str:
    """The first sentence of a text on one line, cut to a length."""
    line = _SPACES.sub(" ", clean_line(text[: letters * 4], "text", Notes(), letters * 4)).strip()
    first = _SENTENCE.split(line, maxsplit=1)[0]
    if len(first) <= letters:
        return first
    cut = first[: letters - 3]
    if cut.count("(") > cut.count(")") and (before := cut.rpartition("(")[0].rstrip()):
        return before
    if " " in cut:
        cut = cut.rpartition(" ")[0]
    return f"{cut.rstrip()}..."
