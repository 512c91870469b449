"""Python stubs of tools: an async function with docstring for each, a class for each server."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from ..catalog import Tool
from .docstrings import argument_notes, docstring, shared_notes, summary
from .python_types import ANY_TYPE, TYPE_NAMES, TypeDefinitions, TypeWriter, scalar_default
from .script_names import IMPORTABLE_MODULES, ToolNames, identifiers

#: Imports at the start of the stubs. Scripts do not need them.
STUB_IMPORTS = (
    "from __future__ import annotations\nfrom typing import Any, Literal, NotRequired, TypedDict\n"
)
#: Most arguments of one function. Further ones become `**more: Any`.
_MAX_ARGUMENTS = 150
_RESERVED_ARGUMENT_NAMES = frozenset({"self"})
_ASKS_LINE = "Each call needs a person's approval."
#: Before the arguments that several functions of a server describe alike.
_SHARED_ARGUMENTS_LINE = "Arguments, unless a function says otherwise:"


class Stubs:
    """The stubs of some tools, as one text.

    Args:
        tools: the tools.
        names: their names in scripts.
        namespaces: further servers to declare, without tools.
        asking_ids: ids of the tools of which each call needs a person's approval.
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        names: ToolNames,
        *,
        namespaces: Iterable[str] = (),
        asking_ids: Collection[str] = (),
    ) -> None:
        self._names = names
        self._namespaces = tuple(namespaces)
        self._tools = tuple(tools)
        self._asking_ids = frozenset(asking_ids)

    def text(self) -> str:
        """The stubs as the text of a `.pyi` file; empty if there are no tools."""
        reserved = frozenset(self._names.namespaces) | TYPE_NAMES
        definitions = TypeDefinitions(reserved)
        servers: dict[str, list[tuple[Tool, str]]] = {name: [] for name in self._namespaces}
        for tool in self._tools:
            namespace, function = self._names.function_of(tool.id)
            servers.setdefault(namespace, []).append((tool, function))
        classes = []
        for name, tools in servers.items():
            notes = {tool.id: argument_notes(tool, argument_names(tool)) for tool, _ in tools}
            shared = shared_notes(notes.values())
            hyphens = _tool_names_have_hyphens(tools)
            functions = [
                _function_stub(
                    tool,
                    function,
                    definitions,
                    [
                        summary(
                            tool,
                            "" if hyphens and _with_hyphens(function) == tool.name else function,
                        ),
                        *([_ASKS_LINE] if tool.id in self._asking_ids else []),
                        *(note for note in notes[tool.id].values() if note and note not in shared),
                    ],
                )
                for tool, function in tools
            ]
            header_lines = ["Tools have - in place of _ in their names."] if hyphens else []
            if (module := name.removesuffix("_")) in IMPORTABLE_MODULES:
                header_lines.append(f"Or {module}, if the script does not import that module.")
            if shared:
                header_lines += [_SHARED_ARGUMENTS_LINE, *shared]
            body = (f"    {docstring(header_lines, 4)}\n" if header_lines else "") + "".join(
                functions
            )
            classes.append(f"class _{name}:\n{body or '    pass'}")
        variables = [f"{name}: _{name}\n" for name in servers]
        return "\n".join([STUB_IMPORTS, *definitions.texts, *classes, *variables])

    def for_model(self) -> str:
        """The stubs for a model, in few tokens; "" if there are no tools."""
        return compact(self.text().removeprefix(STUB_IMPORTS)).strip()


def _with_hyphens(function: str) -> str:
    return function.replace("_", "-")


def _tool_names_have_hyphens(tools: Sequence[tuple[Tool, str]]) -> bool:
    """Whether names of tools and functions differ only by hyphens; at least two must differ."""
    changed = [(tool.name, function) for tool, function in tools if "_" in function]
    return len(changed) > 1 and all(name == _with_hyphens(function) for name, function in changed)


def _function_stub(
    tool: Tool, function: str, definitions: TypeDefinitions, doc_lines: list[str]
) -> str:
    """A tool as an async method with keyword arguments, indented for a class."""
    schema = tool.input_schema
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    required = _required_names(schema)
    python_names = argument_names(tool)
    writer = TypeWriter(schema, definitions, function, is_argument=True)
    parameters = []
    for name in sorted(properties, key=lambda argument: argument not in required):
        python_name = python_names.get(name)
        if python_name is None:
            continue
        kind = writer.write(properties[name], name)
        default = "" if name in required else f" = {scalar_default(properties[name], kind)}"
        parameters.append(f"{python_name}: {kind}{default}")
    if len(python_names) < len(properties) or _accepts_more(schema):
        parameters.append(f"**{_unused_name('more', python_names.values())}: Any")
    returns = ANY_TYPE
    if output := tool.output_schema:
        value_schema = output["properties"]["result"] if has_wrapped_result(tool) else output
        returns = TypeWriter(output, definitions, function).write(value_schema, "result")
    if not parameters:
        receiver = "self"
    elif parameters[0].startswith("**"):
        receiver = "self, "
    else:
        receiver = "self, *, "
    return (
        f"    async def {function}({receiver}{', '.join(parameters)}) -> {returns}:\n"
        f"        {docstring(doc_lines, 8)}\n"
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
    required = _required_names(schema)
    ordered = sorted(properties, key=lambda argument: argument not in required)
    return identifiers(ordered[:_MAX_ARGUMENTS], reserved=_RESERVED_ARGUMENT_NAMES)


def has_wrapped_result(tool: Tool) -> bool:
    """Whether a tool's result is an object with one field, `result`, as SDKs wrap other values."""
    output = tool.output_schema or {}
    properties = output.get("properties")
    return (
        isinstance(properties, dict)
        and properties.keys() == {"result"}
        and _required_names(output) == {"result"}
    )


def _required_names(schema: Mapping[str, Any]) -> frozenset[str]:
    listed = schema.get("required")
    names = listed if isinstance(listed, list) else []
    return frozenset(name for name in names if isinstance(name, str))


def _accepts_more(schema: Mapping[str, Any]) -> bool:
    """Whether a schema permits arguments that it does not list."""
    extra = schema.get("additionalProperties")
    if extra is True or isinstance(extra, dict):
        return True
    # Without properties, alternatives or a reference may list arguments.
    return not schema.get("properties") and any(
        keyword in schema for keyword in ("$ref", "anyOf", "oneOf", "allOf", "patternProperties")
    )


def _unused_name(name: str, names: Iterable[str]) -> str:
    used = set(names)
    while name in used:
        name += "_"
    return name


#: Docstrings and other strings, which stay, and what is between them. A docstring of
#: `docstring` holds no double quote.
_STUB_PARTS = re.compile(
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
_SERVER_CLASS_OR_VARIABLE = re.compile(r"^class _(?=\w+:$)|^(\w+): _\1$\n?", re.MULTILINE)


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
    return _STUB_PARTS.sub(
        _shorten_part,
        _SERVER_CLASS_OR_VARIABLE.sub(lambda match: "" if match[1] else "class ", stubs),
    )


def _shorten_part(part: re.Match[str]) -> str:
    if part["docstring"]:
        return _INDENT.sub("\n ", part[0])
    if part["string"]:
        return part[0]
    if part["gone"]:
        return ""
    return " " if part["indent"] else part[0].strip()
