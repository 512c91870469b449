"""The layout of stubs for models: fewer tokens, the same code."""

from __future__ import annotations

import ast

from hypothesis import given
from hypothesis import strategies as st

from shortlist import Catalog, Tool
from shortlist.codemode.script_names import ToolNames
from shortlist.codemode.stubs import STUB_IMPORTS, Stubs, compact


def stubs(*tools: Tool) -> Stubs:
    return Stubs(tools, ToolNames(Catalog(tools)))


def test_only_spaces_classes_and_results_without_a_type_differ():
    item = {"type": "object", "properties": {"x-y": {"type": "string"}, "at": {"enum": ["a, b"]}}}
    listed = {"type": "object", "properties": {"all": {"type": "array", "items": item}}}
    fields = {"mode": {"enum": ["a = b", "it's"], "default": "it's"}, "item": item}
    schema = {"type": "object", "properties": fields, "required": ["item"]}
    tool = Tool("get", "srv", 'Says "a: b = c" -> d,\n e.', schema, output_schema=listed)
    assert stubs(tool, Tool("put", "srv")).for_model() == (
        "GetItem=TypedDict(\"GetItem\",{'at':NotRequired[Literal['a, b']],"
        "'x-y':NotRequired[str]})\n"
        "class GetResult(TypedDict):\n"
        " all:NotRequired[list[GetItem]]\n"
        "class srv:\n"
        " async def get(self,*,item:GetItem,mode:Literal['a = b',\"it's\"]=\"it's\")->GetResult:"
        '"""Says \'a: b = c\' -> d, e."""\n'
        ' async def put(self):""""""'
    )


_NAMES = st.text("ab_-: =|,'\"#\\\n", min_size=1, max_size=8)
_TEXTS = st.text("ab :=|,->#'\"\\\n{}()[]Any", max_size=60)


@given(
    names=st.lists(_NAMES, min_size=1, max_size=3, unique=True),
    texts=st.lists(_TEXTS, min_size=4, max_size=4),
    choices=st.lists(_TEXTS, min_size=1, max_size=3),
)
def test_the_code_is_the_same(names, texts, choices):
    values = {"enum": choices, "default": choices[0], "description": texts[0]}
    nested = {"type": "object", "properties": dict.fromkeys(names, values)}
    schema = {"type": "object", "properties": {"a": nested, **dict.fromkeys(names, values)}}
    tools = [Tool(f"do{at}", "srv", text, schema) for at, text in enumerate(texts)]
    before = ast.parse(stubs(*tools).text().removeprefix(STUB_IMPORTS))
    after = ast.parse(stubs(*tools).for_model())
    assert _meaning(before) == _meaning(after)


def _meaning(tree: ast.Module) -> list[str]:
    """The code but for names of servers' classes, missing result types and indented prose."""
    kept = [one for one in tree.body if not isinstance(one, ast.AnnAssign)]
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            node.name = node.name.removeprefix("_")
        elif isinstance(node, ast.AsyncFunctionDef) and _is_any(node.returns):
            node.returns = None
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value.value = " ".join(str(node.value.value).split())
    return [ast.dump(one) for one in kept]


def _is_any(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Name) and node.id == "Any"


def test_nothing_of_nothing():
    assert compact("") == ""
