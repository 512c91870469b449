"""Tools in every form a program has them in: recognised one by one, also mixed."""

from __future__ import annotations

import enum
from datetime import date
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import mcp.types as types
import pytest
from langchain_core.tools import StructuredTool
from langchain_core.tools import tool as langchain_tool
from pydantic import BaseModel, Field

from shortlist import Catalog, Engine, Tool
from shortlist.catalog.python_function import call_function
from shortlist.errors import CatalogError, ToolError

SCHEMA = {
    "type": "object",
    "properties": {"invoice": {"type": "string"}},
    "required": ["invoice"],
    "additionalProperties": False,
}
TEXT = "Pay an invoice back."


def refund(invoice: str) -> str:
    """Pay an invoice back.

    Args:
        invoice: number of the invoice,
            as it is printed on it.

    Returns:
        The number of the refund.
    """
    return f"refund of {invoice}"


async def refund_later(invoice: str) -> str:
    """Pay an invoice back."""
    return refund(invoice)


def langchain() -> Any:
    return langchain_tool(refund)


def pydantic_ai() -> Any:
    return pytest.importorskip("pydantic_ai").Tool(refund)


def openai_agents() -> Any:
    return pytest.importorskip("agents").function_tool(refund, strict_mode=False)


FORMS: dict[str, Any] = {
    "Tool": lambda: Tool("refund", None, TEXT, SCHEMA),
    "function": lambda: refund,
    "LangChain": langchain,
    "pydantic-ai": pydantic_ai,
    "pydantic-ai definition": lambda: pydantic_ai().tool_def,
    "OpenAI Agents SDK": openai_agents,
    "OpenAI chat": lambda: {
        "type": "function",
        "function": {"name": "refund", "description": TEXT, "parameters": SCHEMA},
    },
    "OpenAI responses": lambda: {
        "type": "function",
        "name": "refund",
        "description": TEXT,
        "parameters": SCHEMA,
        "strict": True,
    },
    "Anthropic": lambda: {"name": "refund", "description": TEXT, "input_schema": SCHEMA},
    "Anthropic custom": lambda: {
        "type": "custom",
        "name": "refund",
        "description": TEXT,
        "input_schema": SCHEMA,
    },
    "MCP": lambda: {"name": "refund", "description": TEXT, "inputSchema": SCHEMA},
    "MCP object": lambda: types.Tool(name="refund", description=TEXT, input_schema=SCHEMA),
    "MCP listing": lambda: types.ListToolsResult(
        tools=[types.Tool(name="refund", description=TEXT, input_schema=SCHEMA)]
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_keeps_its_schema(form: str) -> None:
    given = FORMS[form]()
    for tools in ([given], {"billing": [given]}):
        engine = Engine.from_tools(tools, tiers=["lexical"])
        (tool,) = engine.catalog
        assert tool.id == ("refund" if isinstance(tools, list) else "billing/refund")
        assert "invoice" in tool.input_schema["properties"]
        assert TEXT in tool.description
        assert engine.view().check("refund", {"invoice": "7"}).passed
        assert engine.view().check("refund", {"bogus": 1}).status == "invalid"


def test_all_forms_in_one_list_and_in_one_mapping() -> None:
    forms = [name for name in FORMS if "pydantic-ai" not in name and "Agents" not in name]

    def renamed(form: str) -> Any:
        name = f"refund_{forms.index(form)}"
        given = FORMS[form]()
        if isinstance(given, dict):
            inner = given.get("function", given)
            return (
                {**given, "function": {**inner, "name": name}}
                if "function" in given
                else {
                    **given,
                    "name": name,
                }
            )
        if form == "MCP listing":
            return types.ListToolsResult(tools=[types.Tool(name=name, input_schema=SCHEMA)])
        if form == "MCP object":
            return given.model_copy(update={"name": name})
        if form == "LangChain":
            return StructuredTool.from_function(refund, name=name)
        if form == "function":
            return Tool.from_function(refund, name=name)
        return Tool(name, None, TEXT, SCHEMA)

    names = [f"refund_{place}" for place in range(len(forms))]
    mixed = [{"type": "web_search"}, *map(renamed, forms)]
    catalog = Catalog(mixed)
    assert [tool.name for tool in catalog] == names
    assert catalog.provider_tools == ({"type": "web_search"},)
    by_server = Catalog({"billing": mixed, "git": [FORMS["OpenAI chat"]()]})
    assert [tool.id for tool in by_server] == [*(f"billing/{name}" for name in names), "git/refund"]
    assert by_server.provider_tools == ({"type": "web_search"},)


def test_a_langchain_tool_keeps_its_server_hints_and_tags() -> None:
    tool = StructuredTool.from_function(
        refund, metadata={"server": "billing", "destructiveHint": True}, tags=["money"]
    )
    (read,) = Catalog([tool])
    assert (read.id, read.tags) == ("billing/refund", ("money",))
    assert read.annotations == {"destructiveHint": True}
    assert Catalog({"pay": [tool]})[0].id == "pay/refund"


def test_fields_that_one_format_lacks_are_kept() -> None:
    row = {"name": "refund", "input_schema": SCHEMA, "annotations": {"readOnlyHint": True}}
    assert Catalog([row])[0].annotations == {"readOnlyHint": True}
    assert Catalog([{"name": "other", "server": "s"}, row])[1].annotations == {"readOnlyHint": True}


class CrewTool(BaseModel):
    """Looks like a tool: its fields may mean anything."""

    name: str = "refund"
    description: str = TEXT
    args: Any = None


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (7, "got int"),
        ("refund", "got str"),
        (None, "got NoneType"),
        ([refund], "got list"),
        (Path("tools.json"), "got pathlib"),
        (CrewTool(), "CrewTool"),
        (CrewTool, "got the class"),
        ({"google_search": {}}, "an object with the keys google_search"),
        ({}, "an object with the keys none"),
        ({"mcpServers": {"git": {"command": "git"}}}, "names servers, not tools"),
    ],
)
@pytest.mark.parametrize("by_server", [False, True])
def test_anything_else_is_refused_with_its_kind_and_place(
    given: Any, kind: str, by_server: bool
) -> None:
    tools = [Tool("add"), given]
    with pytest.raises(CatalogError) as raised:
        Catalog({"billing": tools} if by_server else tools)
    assert kind in str(raised.value)
    if not isinstance(given, dict) or "mcpServers" not in given:
        assert ("billing[1]" if by_server else "tools[1]") in str(raised.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"refund": refund}, "each with a list of its tools, as in .* here 'refund' has function"),
        ({"billing": Tool("refund")}, "here 'billing' has shortlist.catalog.tool.Tool"),
        ({"billing": {"refund": refund}}, "here 'billing' has dict"),
        ({"git": [refund], "billing": None}, "here 'billing' has NoneType"),
        ({"billing": "refund"}, "here 'billing' has str"),
        (Tool("refund"), "put it in a list"),
        (refund, "put it in a list"),
    ],
)
def test_tools_in_the_wrong_container_say_what_it_should_be(given: Any, message: str) -> None:
    with pytest.raises(CatalogError, match=message):
        Catalog(given)
    with pytest.raises(CatalogError, match="a list of the tools of 'git', not a dictionary"):
        Catalog([Tool("log", "git")]).replace_server("git", {"git": [refund]})


def test_a_bad_definition_is_named_by_its_place() -> None:
    with pytest.raises(ToolError) as raised:
        Catalog([FORMS["MCP"](), {"name": "x", "inputSchema": "text"}])
    assert str(raised.value).startswith("[1]: tool 'x': input_schema")
    with pytest.raises(ToolError) as raised:
        Catalog({"git": [FORMS["OpenAI chat"](), {"type": "function", "function": {"name": 7}}]})
    assert str(raised.value).startswith("git[1]: ")


@pytest.mark.parametrize(
    "key",
    [
        "schema",
        "arguments",
        "args",
        "params",
        "input",
        "inputschema",
        "json_schema",
        "Input-Schema",
    ],
)
@pytest.mark.parametrize("row", [{}, {"server": "billing"}, {"type": "tool"}])
def test_a_schema_under_another_key_is_refused_and_not_lost(key: str, row: dict[str, str]) -> None:
    definition = {**row, "name": "refund", "description": TEXT, key: SCHEMA}
    bare = {"type": "function", "function": {"name": "refund", key: SCHEMA}}
    for tools in ([definition], {"billing": [{"name": "refund", key: SCHEMA}]}, [bare]):
        with pytest.raises(ToolError) as raised:
            Catalog(tools)
        for word in (repr(key), "'input_schema'", "'inputSchema'", "'parameters'", "refund"):
            assert word in str(raised.value)
    with pytest.raises(ToolError, match="a row has 'input_schema'"):
        Tool.from_dict(definition)


def test_a_key_beside_a_schema_or_without_one_is_ignored() -> None:
    for extra in ({"arguments": {"x": 1}, "inputSchema": SCHEMA}, {"args": {}}, {"schema": "v2"}):
        assert len(Catalog([{"name": "refund", **extra}])) == 1
    assert Catalog([{"type": "file_search", "vector_store_ids": ["a"]}]).provider_tools


def test_a_tool_of_another_server_is_refused() -> None:
    assert Catalog({"billing": [Tool("refund", "billing")]})[0].id == "billing/refund"
    with pytest.raises(CatalogError, match="belongs to server 'mail', not 'billing'"):
        Catalog({"billing": [Tool("refund", "mail")]})


PROVIDER_TOOLS = [
    {"type": "web_search"},
    {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
    {"type": "code_interpreter", "container": {"type": "auto"}},
]


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("openai", "list"),
        ("openai_responses", "append"),
        ("openai", "call_tool"),
        ("anthropic", "list"),
        ("anthropic", "search"),
    ],
)
def test_provider_tools_are_rendered_first_as_they_are(name: str, way: Any, tmp_path: Path) -> None:
    tools = [*PROVIDER_TOOLS, *(Tool(f"tool_{number}", "s", "Do it") for number in range(9))]
    engine = Engine.from_tools(tools, tiers=["lexical"])
    engine.save(tmp_path)
    for each in (engine, Engine.open(tmp_path), Engine.open(tmp_path, tools)):
        assert len(each.catalog) == 9
        session = each.session(name, tools=way)
        session.turn("do it")
        assert session.tools[:3] == session.request([])["tools"][:3] == PROVIDER_TOOLS
    engine.replace_server("s", [Tool("tool", "s")])
    assert engine.catalog.provider_tools == tuple(PROVIDER_TOOLS)
    engine.replace([Tool("tool", "s")])
    session = engine.session(name, tools=way)
    session.turn("do it")
    assert session.tools[0] not in PROVIDER_TOOLS
    with pytest.raises(CatalogError, match="'web_search' is a tool of the model's provider"):
        engine.replace_server("s", [{"type": "web_search"}])


class Colour(enum.Enum):
    RED = "red"


class Line(BaseModel):
    amount: float
    note: str = ""


def book(
    day: date,
    lines: list[Line],
    colour: Colour = Colour.RED,
    kind: Literal["in", "out"] = "in",
    limit: Annotated[int, Field(ge=1)] = 5,
    **more: str,
) -> str:
    """Book lines."""
    return f"{day:%d.%m.} {sum(line.amount for line in lines)} {colour.name} {kind} {limit} {more}"


def test_a_function_gets_the_types_of_its_annotations() -> None:
    tool = Tool.from_function(book, server="books")
    schema = tool.input_schema
    assert schema["required"] == ["day", "lines"]
    assert schema["properties"]["limit"] == {
        "default": 5,
        "minimum": 1,
        "title": "Limit",
        "type": "integer",
    }
    arguments = {"day": "2026-11-23", "lines": [{"amount": 1.5}], "colour": "red", "x": "y"}
    engine = Engine.from_tools([tool], tiers=["lexical"])
    assert engine.view().check("book", arguments).passed
    assert engine.view().check("book", {**arguments, "limit": 0}).status == "invalid"
    assert call_function(book, arguments) == "23.11. 1.5 RED in 5 {'x': 'y'}"


def test_texts_come_from_the_docstring() -> None:
    tool = Tool.from_function(refund)
    assert (tool.name, tool.description) == ("refund", TEXT)
    text = "number of the invoice, as it is printed on it."
    assert tool.input_schema["properties"]["invoice"]["description"] == text
    assert tool.input_schema["additionalProperties"] is False
    assert Tool.from_function(refund_later).name == "refund_later"
    assert Tool.from_function(lambda: 7, name="seven").input_schema["properties"] == {}


class Books:
    def refund(self, invoice: str) -> str:
        """Pay an invoice back."""
        return invoice

    def __call__(self, invoice: str) -> str:
        return invoice


@pytest.mark.parametrize(
    ("function", "name"),
    [(Books().refund, "refund"), (partial(refund), "refund"), (Books(), "Books")],
)
def test_methods_partial_functions_and_callable_objects(function: Any, name: str) -> None:
    tool = Tool.from_function(function)
    assert tool.name == name
    assert tool.input_schema["required"] == ["invoice"]


def by_position(first: int, /) -> None: ...
def many(*values: int) -> None: ...
def unreadable(value: Engine) -> None: ...


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (by_position, "first: can only be given by position"),
        (many, "values: can only be given by position"),
        (unreadable, "annotations: has a parameter without a JSON schema"),
        (lambda: 7, 'name: a lambda has no name; write Tool.from_function(function, name="...")'),
        (partial(lambda: 7), "name: a lambda has no name"),
        (7, "function: must be a function, got int"),
    ],
)
def test_functions_that_are_no_tools_are_refused(function: Any, problem: str) -> None:
    with pytest.raises(ToolError) as raised:
        Tool.from_function(function)
    assert problem in str(raised.value)
    if callable(function):
        with pytest.raises(ToolError, match=r"\[0\]: "):
            Catalog([function])
