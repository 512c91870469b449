"""The texts of a definition: everything that a model may read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from ..catalog import Tool

MOST_CHARACTERS: Final = 200_000
"""Characters of one definition that are scanned."""
MOST_STRINGS: Final = 20_000
"""Strings of one definition that are scanned."""
_LONG_LIST: Final = 500
_KEYWORDS: Final = frozenset(
    "additionalProperties allOf anyOf default description enum examples items maxItems maxLength "
    "maximum minItems minLength minimum oneOf properties required title type string integer number "
    "boolean array object null $schema destructiveHint idempotentHint openWorldHint "
    "readOnlyHint".split()
)
"""Keywords of JSON Schema and MCP, which are not scanned."""


class Text(NamedTuple):
    """One text of a definition.

    Args:
        where: path of the field, such as `description` or
            `input_schema.properties.note.description`.
        text: the text.
        identifier: whether it is a name.
        slot: whether it describes a value that the model fills in.
        loose: whether it is a long list of names or values, in which neighbouring words are less
            related.
        encoded: whether it was decoded from base64 or hexadecimal.
    """

    where: str
    text: str
    identifier: bool = False
    slot: bool = False
    loose: bool = False
    encoded: bool = False


def texts(tool: Tool) -> Iterator[Text]:
    """Server, name, id, title, description, tags, and every key and string of schemas and hints."""
    if tool.server:
        yield Text("server", tool.server, identifier=True)
    yield Text("name", tool.name, identifier=True)
    if tool.id not in (tool.name, f"{tool.server}/{tool.name}"):
        yield Text("id", tool.id, identifier=True)
    if tool.title:
        yield Text("title", tool.title)
    if tool.description:
        yield Text("description", tool.description)
    if tool.tags:
        yield Text("tags", " ".join(tool.tags))
    for field in ("input_schema", "output_schema", "annotations"):
        if (value := getattr(tool, field)) is not None:
            yield from _inside(value, field)


def _inside(root: dict[str, Any], field: str) -> Iterator[Text]:
    """Every key and string.

    Neighbouring ones are also joined, so that an instruction cannot be split.
    """
    stack: list[tuple[Any, str]] = [(root, field)]
    slot = field == "input_schema"
    while stack:
        value, path = stack.pop()
        if isinstance(value, dict):
            names = [key for key in value if key not in _KEYWORDS]
            if names:
                yield _together(names, path, slot, identifier=True)
            for key, child in value.items():
                if isinstance(child, str):
                    if child not in _KEYWORDS:
                        yield Text(f"{path}.{key}", child, False, slot)
                elif isinstance(child, dict | list):
                    stack.append((child, f"{path}.{key}"))
        else:
            strings = [one for one in value if isinstance(one, str) and one not in _KEYWORDS]
            if strings:
                yield _together(strings, path, slot)
            stack.extend((one, path) for one in value if isinstance(one, dict | list))


def _together(strings: list[str], path: str, slot: bool, *, identifier: bool = False) -> Text:
    text = " ".join(strings)
    return Text(path, text, identifier, slot, len(text) > _LONG_LIST)
