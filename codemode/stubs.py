"""Python stubs of tools: one async function for each, in a class for each server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from ..catalog import Tool
from .docstrings import argument_notes, docstring, shared_notes, summary
from .layout import compact
from .names import ToolNames, identifiers
from .python_types import LOOSE, TYPE_NAMES, TypeDefinitions, TypeWriter, scalar_default

#: Imports at the start of the stubs. Scripts do not need them.
HEAD = (
    "from __future__ import annotations\nfrom typing import Any, Literal, NotRequired, TypedDict\n"
)
#: Most arguments of one function. Further ones become `**more: Any`.
_ARGUMENTS = 150
_SELF = frozenset({"self"})
#: Before the arguments that several functions of a server describe alike.
_SHARED = "Arguments, unless a function says otherwise:"


class Stubs:
    """The stubs of some tools, as one text.

    Args:
        tools: the tools.
        names: their names in scripts.
        namespaces: further servers to declare, without tools.
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        names: ToolNames,
        *,
        namespaces: Iterable[str] = (),
    ) -> None:
        self._names = names
        self._namespaces = tuple(namespaces)
        self._tools = tuple(tools)

    def text(self) -> str:
        """The stubs as the text of a `.pyi` file; empty if there are no tools."""
        taken = frozenset(self._names.namespaces) | TYPE_NAMES
        definitions = TypeDefinitions(taken)
        servers: dict[str, list[tuple[Tool, str]]] = {name: [] for name in self._namespaces}
        for tool in self._tools:
            namespace, function = self._names.of(tool.id)
            servers.setdefault(namespace, []).append((tool, function))
        classes = []
        for name, tools in servers.items():
            notes = {tool.id: argument_notes(tool, argument_names(tool)) for tool, _ in tools}
            shared = shared_notes(notes.values())
            hyphens = _have_hyphens(tools)
            own = [
                _function(
                    tool,
                    function,
                    definitions,
                    [
                        summary(
                            tool, "" if hyphens and _hyphened(function) == tool.name else function
                        ),
                        *(one for one in notes[tool.id].values() if one and one not in shared),
                    ],
                )
                for tool, function in tools
            ]
            said = ["Tools have - in place of _ in their names."] * hyphens
            said += [_SHARED, *shared] * bool(shared)
            body = (f"    {docstring(said, 4)}\n" if said else "") + "".join(own)
            classes.append(f"class _{name}:\n{body or '    pass'}")
        bound = [f"{name}: _{name}\n" for name in servers]
        return "\n".join([HEAD, *definitions.texts, *classes, *bound])

    def shown(self) -> str:
        """The stubs for a model, in few tokens; "" if there are no tools."""
        return compact(self.text().removeprefix(HEAD)).strip()


def _hyphened(function: str) -> str:
    return function.replace("_", "-")


def _have_hyphens(tools: Sequence[tuple[Tool, str]]) -> bool:
    """Whether names of tools and functions differ only by hyphens; at least two must differ."""
    changed = [(tool.name, function) for tool, function in tools if "_" in function]
    return len(changed) > 1 and all(name == _hyphened(function) for name, function in changed)


def _function(tool: Tool, function: str, definitions: TypeDefinitions, said: list[str]) -> str:
    """A tool as an async method with keyword arguments, indented for a class."""
    schema = tool.input_schema
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    required = _required(schema)
    known = argument_names(tool)
    writer = TypeWriter(schema, definitions, function, given=True)
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
    output = tool.output_schema
    gives = TypeWriter(output, definitions, function).write(output, "result") if output else LOOSE
    given = f"self{', *, ' if written and not written[0].startswith('**') else ''}"
    given += ", " if written and written[0].startswith("**") else ""
    return (
        f"    async def {function}({given}{', '.join(written)}) -> {gives}:\n"
        f"        {docstring(said, 8)}\n"
    )


@lru_cache(20_000)
def argument_names(tool: Tool) -> Mapping[str, str]:
    """Argument's name in the schema to its name in Python, required ones first.

    At most 150. Scripts give the others with `**{"name": value}`.
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
    """Whether a schema permits arguments that it does not list."""
    extra = schema.get("additionalProperties")
    if extra is True or isinstance(extra, dict):
        return True
    # Without properties, alternatives or a reference may list arguments.
    return not schema.get("properties") and any(
        one in schema for one in ("$ref", "anyOf", "oneOf", "allOf", "patternProperties")
    )


def _free(name: str, taken: Iterable[str]) -> str:
    used = set(taken)
    while name in used:
        name += "_"
    return name
