"""Python stubs of tools: one async function for each, in a class for each server."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from ..catalog import Tool
from ..catalog.text import Notes, clean_line
from ..loaders.prose import plain_sentences
from .names import ToolNames, identifiers
from .python_types import LOOSE, TYPE_NAMES, TypeDefinitions, TypeWriter, scalar_default

#: Before all stubs. A script does not need the imports.
HEAD = (
    "from __future__ import annotations\nfrom typing import Any, Literal, NotRequired, TypedDict\n"
)
#: Arguments of one function; more become `**more: Any`.
_ARGUMENTS = 150
#: Letters of a function's description, of an argument's, and of all of one function's.
_SUMMARY, _ARGUMENT, _TEXT = 200, 90, 1_200
_SPACES = re.compile(r"\s+")
_SELF = frozenset({"self"})


class Stubs:
    """The stubs of some tools, as one text.

    Args:
        tools: which.
        names: by which a script calls them.
        loose_objects: whether objects in arguments are `dict[str, Any]`, for a check that lets
            pass what only the call itself can judge.
        namespaces: servers to name even if none of the tools is theirs.
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        names: ToolNames,
        *,
        loose_objects: bool = False,
        namespaces: Iterable[str] = (),
    ) -> None:
        self._names = names
        self._namespaces = tuple(namespaces)
        self._loose = loose_objects
        self._tools = tuple(tools)

    def text(self) -> str:
        """The stubs, as a `.pyi` file has them; an empty file where there are no tools."""
        taken = frozenset(self._names.namespaces) | TYPE_NAMES
        definitions = TypeDefinitions(taken)
        functions: dict[str, list[str]] = {name: [] for name in self._namespaces}
        for tool in self._tools:
            namespace, function = self._names.of(tool.id)
            stub = _function(tool, function, definitions, loose_objects=self._loose)
            functions.setdefault(namespace, []).append(stub)
        classes = [
            f"class _{name}:\n{''.join(texts) or '    pass'}" for name, texts in functions.items()
        ]
        bound = [f"{name}: _{name}\n" for name in functions]
        return "\n".join([HEAD, *definitions.texts, *classes, *bound])


def _function(
    tool: Tool, function: str, definitions: TypeDefinitions, *, loose_objects: bool
) -> str:
    """A tool as an async method with keyword arguments, indented for a class."""
    schema = tool.input_schema
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    required = _required(schema)
    known = argument_names(tool)
    writer = TypeWriter(schema, definitions, function, loose_objects=loose_objects)
    written = []
    for name in sorted(properties, key=lambda one: one not in required):
        made = known.get(name)
        if made is None:
            continue
        kind = writer.write(properties[name], name)
        default = "" if name in required else f" = {scalar_default(properties[name], kind)}"
        written.append(f"{made}: {kind}{default}")
    if len(known) < len(properties) or _takes_more(schema):
        written.append(f"**{_free('more', known.values())}: Any")
    gives = _result_type(tool, function, definitions)
    given = f"self{', *, ' if written and not written[0].startswith('**') else ''}"
    given += ", " if written and written[0].startswith("**") else ""
    return (
        f"    async def {function}({given}{', '.join(written)}) -> {gives}:\n"
        f'        """{_described(tool, function, known, properties)}"""\n'
    )


@lru_cache(20_000)
def argument_names(tool: Tool) -> Mapping[str, str]:
    """Name of an argument in the schema to its name in Python, required ones first.

    At most 150; the others are given as they are, by `**{"name": value}`.
    """
    schema = tool.input_schema
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return {}
    required = _required(schema)
    ordered = sorted(properties, key=lambda one: one not in required)
    return identifiers(ordered[:_ARGUMENTS], taken=_SELF)


def _required(schema: Mapping[str, Any]) -> frozenset[str]:
    listed = schema.get("required")
    named = listed if isinstance(listed, list) else []
    return frozenset(one for one in named if isinstance(one, str))


def _takes_more(schema: Mapping[str, Any]) -> bool:
    """Whether a schema says that it takes arguments it does not name."""
    extra = schema.get("additionalProperties")
    if extra is True or isinstance(extra, dict):
        return True
    # Without properties, alternatives or a reference may name some.
    return not schema.get("properties") and any(
        one in schema for one in ("$ref", "anyOf", "oneOf", "allOf", "patternProperties")
    )


def _free(name: str, taken: Iterable[str]) -> str:
    used = set(taken)
    while name in used:
        name += "_"
    return name


def _result_type(tool: Tool, function: str, definitions: TypeDefinitions) -> str:
    schema = tool.output_schema
    if not schema:
        return LOOSE
    return TypeWriter(schema, definitions, function).write(schema, "result")


def _described(
    tool: Tool, function: str, known: Mapping[str, str], properties: Mapping[str, Any]
) -> str:
    """The docstring: what the tool does, its original name if it differs, its arguments."""
    summary = ""
    for sentence in plain_sentences(tool.description):
        longer = f"{summary} {sentence}.".strip()
        if len(longer) > _SUMMARY:
            break
        summary = longer
    lines = [summary or _short(tool.description or tool.title or "", _SUMMARY)]
    if function != tool.name:
        lines[0] = f"{lines[0]} (tool: {_short(tool.name, 100)})".strip()
    left = _TEXT
    for name, made in known.items():
        schema = properties[name]
        said = schema.get("description") if isinstance(schema, dict) else None
        text = _short(said, _ARGUMENT) if isinstance(said, str) else ""
        if made != name:
            text = f'sent as "{_short(name, 80)}". {text}'.strip()
        if text and left > 0 and not (made == name and _says_nothing(name, text)):
            lines.append(f"{made}: {text}")
            left -= len(text)
    joined = "\n        ".join(lines)
    return joined.replace("\\", "\\\\").replace('"""', "'''").replace('"', "'")


def _says_nothing(name: str, text: str) -> bool:
    """Whether an argument's description only repeats its name."""
    words = set(re.findall(r"[a-z]+", text.casefold()))
    own = set(re.findall(r"[a-z]+", name.replace("_", " ").casefold()))
    split = {part.casefold() for part in re.findall(r"[A-Z]?[a-z]+", name)}
    return not words - own - split - {"the", "a", "an", "of", "to"}


def _short(text: str, letters: int) -> str:
    """The first sentence of a text on one line, cut to a length."""
    line = _SPACES.sub(" ", clean_line(text[: letters * 4], "text", Notes(), letters * 4)).strip()
    first = re.split(r"(?<=[^.\s])\.(?=\s|$)", line, maxsplit=1)[0]
    return first if len(first) <= letters else first[: letters - 3].rstrip() + "..."
