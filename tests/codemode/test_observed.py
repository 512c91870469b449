"""Types of results that were seen so far, for tools that declare none."""

from __future__ import annotations

import ast
import asyncio

from hypothesis import given
from hypothesis import strategies as st

from shortlist import Catalog, Tool
from shortlist.codemode import CodeRunner, ObservedTypes, ToolNames
from shortlist.codemode.stubs import Stubs

from .servers import ENGINE, Servers, new_session

LIST = Tool("list", "srv", "Lists.")


def stub(observed: ObservedTypes, tool: Tool = LIST) -> str:
    return Stubs([tool], ToolNames(Catalog([tool])), observed=observed).text()


def after(*values) -> str:
    seen = ObservedTypes()
    for one in values:
        seen.add(LIST, one)
    return stub(seen)


def result_type(*values) -> str:
    [line] = [one for one in after(*values).splitlines() if "async def" in one]
    return line.partition(" -> ")[2].rstrip(":")


def test_a_result_gives_a_type_that_is_marked():
    text = after([{"id": 1, "name": "a"}, {"id": 2}], [{"id": 3, "name": None}])
    assert (
        "class ListResultItem(TypedDict):\n    id: int\n    name: NotRequired[str | None]" in text
    )
    assert "-> list[ListResultItem]:" in text
    assert "Result type: observed in 2 results, not declared; others may differ" in text
    assert "observed" not in stub(ObservedTypes())


def test_types():
    assert result_type("x") == "str"
    assert result_type(1, 1.5) == "float"
    assert result_type(1, None) == "int | None"
    assert result_type([]) == "list[Any]"
    assert result_type([1], "x") == "list[int] | str" or result_type([1], "x") == "str | list[int]"
    assert result_type({}) == "dict[str, Any]"
    assert result_type({"ann@example.com": 1}) == "dict[str, Any]"
    assert result_type({f"u{at}": 1 for at in range(60)}) == "dict[str, Any]"
    assert result_type(*[{f"u{at}": 1} for at in range(60)]) == "dict[str, Any]"


def test_values_are_not_kept_and_size_is_bounded():
    seen = ObservedTypes()
    seen.add(LIST, {"token": "hunter2", "rows": [{"a": {"b": {"c": {"d": {"e": {}}}}}}] * 5_000})
    assert "hunter2" not in str(seen.schema(LIST))
    assert len(stub(seen)) < 2_000
    for at in range(1_200):
        seen.add(Tool(f"t{at}", "srv"), "x")
    assert seen.schema(LIST) is None
    assert seen.count(Tool("t1199", "srv")) == 1


def test_a_declared_type_stays_and_a_changed_definition_is_another_tool():
    seen = ObservedTypes()
    declared = Tool("list", "srv", output_schema={"type": "object", "properties": {"a": {}}})
    seen.add(declared, {"b": 1})
    assert seen.schema(declared) is None
    seen.add(LIST, {"b": 1})
    assert seen.schema(Tool("list", "srv", "Lists otherwise.")) is None


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "str", "class", "x-y", "_p"]), inner, max_size=4)
    ),
    max_leaves=30,
)


@given(st.lists(_JSON, min_size=1, max_size=4))
def test_any_results_give_stubs_that_parse(values):
    ast.parse(after(*values))


def test_scripts_fill_it_and_are_not_checked_against_it():
    servers, seen = Servers(), ObservedTypes()
    view = new_session().view()

    async def main():
        async with CodeRunner() as runner:
            session = new_session()
            code = "await issues.create(title='t')\nawait issues.list_()"
            assert (await runner.run(session, code, servers.call, observed=seen)).ok
            text = runner.stubs(view, [ENGINE.catalog.get("issues/list")], observed=seen)
            plain = runner.stubs(view, [ENGINE.catalog.get("issues/list")])
            other = "(await issues.list_())[0].get('never_seen', 7)"
            return text, plain, await runner.run(session, other, servers.call, observed=seen)

    text, plain, result = asyncio.run(main())
    assert "->list[ListResultItem]:" in text
    assert "->" not in plain
    assert result.value == 7
