"""Python functions as tools: the definition of one, and a call with JSON arguments."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, cast

from ..errors import ToolError

_SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns|Raises|Yields|Example|Examples):\s*$")
_PARAMETER = re.compile(r"^\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")


def definition_of(function: Callable[..., Any], name: str | None = None) -> dict[str, Any]:
    """The name, description and input schema of a function, from its signature and docstring.

    Args:
        function: with parameters that can be given by name. Types come from its annotations, and
            texts from its docstring (in Google's style).
        name: another name than the function's own.

    Raises:
        ToolError: it is a lambda without a name, or a parameter can only be given by position or
            has a type without a JSON schema.
    """
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    unwrapped = function.func if isinstance(function, partial) else function
    if not inspect.isroutine(function) and not isinstance(function, partial):
        function = cast("Callable[..., Any]", getattr(function, "__call__"))  # noqa: B004,B009 - of an object: its signature is that of the method
    if name is None:
        name = getattr(unwrapped, "__name__", None) or type(unwrapped).__name__
    if name == "<lambda>":
        reason = 'a lambda has no name; write Tool.from_function(function, name="...")'
        raise ToolError(field="name", reason=reason)
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            raise ToolError(
                field=parameter.name,
                reason="can only be given by position; a model gives arguments by name",
                tool=name,
            )
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(cast("Any", function))
        schema = adapter.json_schema()
    except (PydanticUserError, NameError, TypeError) as error:
        reason = f"has a parameter without a JSON schema: {error!s:.300}"
        raise ToolError(field="annotations", reason=reason, tool=name) from error
    if schema.get("type") != "object":
        schema = {"type": "object", "properties": {}}
    description, texts = _read_docstring(inspect.getdoc(unwrapped) or "")
    for parameter_name, text in texts.items():
        declared = schema.get("properties", {}).get(parameter_name)
        if isinstance(declared, dict):
            declared.setdefault("description", text)
    return {"name": name, "description": description, "input_schema": schema}


def is_async_function(function: object) -> bool:
    """Whether a call of a function gives an awaitable."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object with an async `__call__`
    )


def call_function(function: object, arguments: Mapping[str, Any]) -> Any:
    """Call a function by name of its parameters, with arguments as its annotations say.

    A `str` becomes a `date`, an object a model of pydantic, and so on. An object with `invoke`,
    such as a tool of LangChain, gets the arguments as they are.
    """
    if not callable(function):
        invoke = getattr(function, "invoke", None)
        if not callable(invoke):
            raise TypeError(f"a function, not {type(function).__name__}")
        return invoke(dict(arguments))
    return _with_conversion(function)(**arguments)


@lru_cache(1_024)
def _with_conversion(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its arguments converted; itself if its annotations cannot be read."""
    from pydantic import validate_call
    from pydantic.errors import PydanticUserError

    try:
        return validate_call(function)
    except (PydanticUserError, NameError, TypeError):
        return function


def _read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The text before the sections of a docstring, and the texts of its parameters."""
    description: list[str] = []
    texts: dict[str, str] = {}
    section, name, indent = "", "", 0
    for line in text.splitlines():
        if match := _SECTION.match(line):
            section, name = match[1], ""
        elif not section:
            description.append(line)
        elif section in ("Args", "Arguments", "Parameters") and line.strip():
            depth = len(line) - len(line.lstrip())
            match = _PARAMETER.match(line.strip())
            if match and (not name or depth <= indent):
                name, indent = match[1], depth
                texts[name] = match[2].strip()
            elif name:
                texts[name] = f"{texts[name]} {line.strip()}".strip()
    return "\n".join(description).strip(), texts
