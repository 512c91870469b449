"""Reading: every text of a definition that a model sees, cut into segments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from ..catalog import Tool
from .folding import fold, hidden_texts, mixed_words, padded, segments

TEXTS_LIMIT: Final = 2_000
"""Texts read of one tool's schemas."""
_LONG_ENOUGH = 12  # shorter strings in a schema are types and plain names, which order nothing
_INVISIBLE = re.compile(r"(\d+) (tag|bidi|zero-width|variation selector) character")
_MOST_INVISIBLE = {"tag": 6, "bidi": 3, "zero-width": 15, "variation selector": 8}
_PARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_\-./]+")
_UNSEEN = "holds text that nobody can see"
_SCRIPTS = "writes in letters of other scripts"
_PADDED = "pushes text out of sight"
_ENCODED = "holds encoded text"


class Form(NamedTuple):
    """Something about how a text is written, whatever it says.

    Args:
        signal: its name.
        reason: what it says of the text.
        weight: as of a signal.
        text: what it was seen in, or "" where that cannot be shown.
    """

    signal: str
    reason: str
    weight: float
    text: str = ""


class Passage(NamedTuple):
    """One text of a definition.

    Args:
        where: its path, such as `description`.
        pieces: its segments, folded, case kept.
        slot: whether it stands for a value that the model fills in.
        about: further words on what it is for.
        form: how it is written.
    """

    where: str
    pieces: tuple[str, ...]
    slot: bool = False
    about: str = ""
    form: tuple[Form, ...] = ()


def words_of(name: str) -> str:
    """The words of an identifier."""
    return _PARTS.sub(" ", name)


def passages(tool: Tool) -> Iterator[Passage]:
    """Name, title, description, tags and every string in the schemas and annotations.

    Names of parameters are among them, and what is encoded in a text is a text of its own.

    Args:
        tool: the definition.
    """
    for note in tool.cleaned:
        where, _, what = note.partition(": ")
        found = _INVISIBLE.match(what)
        if found and int(found[1]) > _MOST_INVISIBLE[found[2]]:
            yield Passage(where, (), form=(Form("invisible", _UNSEEN, 1.0, what),))
    yield from _read("name", words_of(tool.name))
    yield from _read("title", tool.title or "")
    yield from _read("description", tool.description)
    for tag in tool.tags:
        yield from _read("tags", tag)
    seen = {tool.description}
    for field in ("input_schema", "output_schema", "annotations"):
        value = getattr(tool, field)
        if value is not None:
            yield from _strings(value, field, seen)


def _strings(root: Any, field: str, seen: set[str]) -> Iterator[Passage]:
    """Every string in a schema once, and the names of its parameters."""
    stack: list[tuple[Any, str, bool]] = [(root, field, False)]
    while stack and len(seen) < TEXTS_LIMIT:
        value, path, names = stack.pop()
        if isinstance(value, dict):
            for key, child in value.items():
                if names and len(key) > _LONG_ENOUGH and key not in seen:
                    seen.add(key)
                    yield from _read(f"{path}.{key}", words_of(key), slot=True)
                properties = not names and key in ("properties", "$defs", "definitions")
                stack.append((child, f"{path}.{key}", properties))
        elif isinstance(value, list):
            stack.extend((child, path, False) for child in value)
        elif isinstance(value, str) and len(value) > _LONG_ENOUGH and value not in seen:
            seen.add(value)
            slot = field == "input_schema" and path.count(".") > 1
            yield from _read(path, value, slot=slot, about=words_of(path) if slot else "")


def _read(where: str, text: str, *, slot: bool = False, about: str = "") -> Iterator[Passage]:
    form = []
    if mixed_words(text) > 1:
        form.append(Form("disguise", _SCRIPTS, 0.5))
    if padded(text):
        form.append(Form("padding", _PADDED, 0.5))
    pieces = segments(fold(text))
    if pieces:
        yield Passage(where, tuple(pieces), slot, about, tuple(form))
    for plain in hidden_texts(text):
        encoded = Form("encoded", _ENCODED, 0.5, plain)
        yield Passage(where, tuple(segments(fold(plain))), slot, about, (encoded,))
