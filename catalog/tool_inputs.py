"""Tools in any form that a program has them in: recognised and read one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

from ..errors import CatalogError, ToolError
from .mcp_listing import PydanticModel, is_pydantic_model, plain_json
from .schema import misnamed_schema_key
from .tool import Tool


class NamedTool(Protocol):
    """A tool of a framework, such as LangChain or pydantic-ai."""

    @property
    def name(self) -> str:
        """Its name."""
        ...


ToolInput: TypeAlias = Tool | Mapping[str, Any] | PydanticModel | NamedTool | Callable[..., Any]
"""One tool: a Tool, a definition of any format as JSON, an object of the MCP SDK, a tool of
LangChain, pydantic-ai or the OpenAI Agents SDK, a Python function, or a provider tool such as
`{"type": "web_search"}`."""

Tools: TypeAlias = Iterable[ToolInput] | Mapping[str, Any] | PydanticModel
"""What is accepted as tools: a list of `ToolInput`, also mixed; a listing such as
`ListToolsResult`; or a mapping of server to any of these."""

_HINTS = ("title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
#: Keys of which a definition has one, beside its name.
_SCHEMA_KEYS = frozenset({"inputSchema", "input_schema", "parameters", "function"})
#: Keys of documents that are read as a whole.
_DOCUMENT_KEYS = frozenset(
    {"functions", "messages", "name", "openapi", "result", "swagger", "tools", "type"}
)
#: Values of `type` in definitions of functions, and in JSON schemas.
_NOT_PROVIDER_TYPES = frozenset({"function", "custom", "object"})
_ACCEPTED_FORMS = (
    "a Tool, a definition (MCP, OpenAI, Anthropic, or a row with the fields of Tool), an object of "
    "the MCP SDK, a tool of LangChain, pydantic-ai or the OpenAI Agents SDK, or a Python function"
)


class ReadInputs(NamedTuple):
    """Tools that were read.

    Attributes:
        tools: the tools, in order.
        provider_tools: tools that the model's provider runs, untouched.
    """

    tools: list[Tool]
    provider_tools: list[Mapping[str, Any]]


def tools_of_inputs(tools: Tools, server: str | None = None) -> ReadInputs:
    """The tools, each recognised by itself.

    Args:
        tools: see `Tools`.
        server: the server of tools that name none.

    Raises:
        CatalogError: an item is nothing of the kind, or belongs to another server; says which and
            what is accepted.
        ToolError: a definition is bad.
    """
    given = ReadInputs([], [])
    if isinstance(tools, str | Path):
        raise CatalogError(f"tools: not a path; read files with Catalog.read({str(tools)!r:.80})")
    if hasattr(tools, "list_tools"):
        raise CatalogError(
            "tools: a client answers in its event loop; use: await Catalog.from_client(client)"
        )
    if isinstance(tools, Mapping) and (servers := _servers_in(tools)):
        if server is not None:
            raise CatalogError(
                f"tools: a list of the tools of {server!r:.80}, not a dictionary of servers"
            )
        for name, inner in servers.items():
            _add_each(given, inner if _is_list(inner) else [inner], name, f"{name:.80}")
    elif isinstance(tools, Mapping) or is_pydantic_model(tools):
        _add(given, tools, server, "")
    elif isinstance(tools, Iterable):
        _add_each(given, tools, server, "")
    else:
        mend = "; put it in a list" if isinstance(tools, Tool) or callable(tools) else ""
        raise CatalogError(f"tools: a list, each item {_ACCEPTED_FORMS}; not {_kind(tools)}{mend}")
    return given


def _servers_in(tools: Mapping[Any, Any]) -> Mapping[str, Any]:
    """Servers and their tools, if it is a dictionary of them; empty for a definition or document.

    Raises:
        CatalogError: it is neither; says what a dictionary should be.
    """
    if not _DOCUMENT_KEYS.isdisjoint(tools) or "mcpServers" in tools:
        return {}
    for name, inner in tools.items():
        has_tools = _is_list(inner) or is_pydantic_model(inner) or _is_listing(inner)
        if not isinstance(name, str) or not has_tools:
            raise CatalogError(
                "tools: a dictionary has names of servers, each with a list of its tools, as in "
                f'{{"billing": [refund]}}; here {name!r:.80} has {_kind(inner)}'
            )
    return tools


def _is_list(value: object) -> bool:
    return (
        isinstance(value, Iterable)
        and not isinstance(value, Mapping | str | bytes)
        and not is_pydantic_model(value)
    )


def _is_listing(value: object) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("tools"), list)


def _add_each(given: ReadInputs, items: Iterable[Any], server: str | None, place: str) -> None:
    for index, item in enumerate(items):
        # Most items are tools of a catalog before.
        if server is None and isinstance(item, Tool):
            given.tools.append(item)
        else:
            _add(given, item, server, f"{place}[{index}]")


def _add(given: ReadInputs, item: Any, server: str | None, place: str) -> None:
    """Add what one item holds. Its own server counts only where the caller names none."""
    try:
        if isinstance(item, Tool):
            given.tools.append(_tool_of_server(item, server))
        elif (row := _framework_row(item)) is not None:
            given.tools.append(Tool.from_dict({**row, "server": server or row.get("server")}))
        elif isinstance(item, Mapping) or is_pydantic_model(item):
            definition = _plain_definition(item, place)
            if _is_provider_tool(definition):
                given.provider_tools.append(definition)
            else:
                given.tools.extend(_read(definition, server, place))
        elif callable(item) and not isinstance(item, type):
            given.tools.append(Tool.from_function(item, server=server))
        else:
            raise _refused(item, place)
    except ToolError as error:
        if error.where is not None or not place:
            raise
        raise ToolError(
            field=error.field, reason=error.reason, tool=error.tool, where=place
        ) from None


def _tool_of_server(tool: Tool, server: str | None) -> Tool:
    if server is None or tool.server == server:
        return tool
    if tool.server is not None:
        raise CatalogError(f"tool {tool.id!r} belongs to server {tool.server!r}, not {server!r}")
    row = tool.to_dict()
    del row["id"]
    return Tool.from_dict({**row, "server": server})


def _kinds(item: object) -> set[str]:
    """Package and name of the classes of an object, so that no framework need be imported."""
    return {f"{cls.__module__.partition('.')[0]}.{cls.__name__}" for cls in type(item).__mro__}


def _kind(item: object) -> str:
    cls = item if isinstance(item, type) else type(item)
    article = "the class " if isinstance(item, type) else ""
    module = "" if cls.__module__ == "builtins" else f"{cls.__module__}."
    return f"{article}{module}{cls.__qualname__}"


def _framework_row(item: Any) -> dict[str, Any] | None:
    """The fields of a tool of a framework; None for anything else."""
    if isinstance(item, dict):
        return None
    kinds = _kinds(item)
    if "langchain_core.BaseTool" in kinds:
        from langchain_core.utils.function_calling import convert_to_openai_tool

        metadata = item.metadata or {}
        return {
            "name": item.name,
            "server": metadata.get("server"),
            "description": item.description,
            "input_schema": convert_to_openai_tool(item)["function"].get("parameters"),
            "annotations": {
                hint: metadata[hint] for hint in _HINTS if metadata.get(hint) is not None
            },
            "tags": tuple(item.tags or ()),
        }
    if "pydantic_ai.Tool" in kinds:
        item, kinds = item.tool_def, {"pydantic_ai.ToolDefinition"}
    if "pydantic_ai.ToolDefinition" in kinds:
        return {
            "name": item.name,
            "description": item.description or "",
            "input_schema": item.parameters_json_schema,
        }
    if "agents.FunctionTool" in kinds:
        return {
            "name": item.name,
            "description": item.description or "",
            "input_schema": item.params_json_schema,
        }
    return None


def _refused(item: object, place: str) -> CatalogError:
    where = f"tools{place}" if place[:1] in ("", "[") else place
    return CatalogError(f"{where}: {_ACCEPTED_FORMS}; got {_kind(item)}")


def _plain_definition(item: Any, place: str) -> Mapping[str, Any]:
    """A definition or a listing as JSON.

    Raises:
        CatalogError: it is an object of an unknown kind, whose fields may mean anything.
    """
    if isinstance(item, Mapping):
        return item if isinstance(item, dict) else dict(item)
    if callable(convert := getattr(item, "to_mcp_tool", None)):
        item = convert()
    value = plain_json(item)
    if not isinstance(value, dict) or not (
        _is_listing(value) or not _SCHEMA_KEYS.isdisjoint(value) or _is_provider_tool(value)
    ):
        raise _refused(item, place)
    return value


def _is_provider_tool(definition: Mapping[str, Any]) -> bool:
    """Whether the provider runs the tool, such as `{"type": "web_search"}`."""
    kind = definition.get("type")
    return (
        isinstance(kind, str)
        and kind not in _NOT_PROVIDER_TYPES
        and _SCHEMA_KEYS.isdisjoint(definition)
        and misnamed_schema_key(definition, ()) is None
    )


def _read(definition: Mapping[str, Any], server: str | None, place: str) -> list[Tool]:
    from .reading import read_definition

    return read_definition(definition, server=server, place=place)
