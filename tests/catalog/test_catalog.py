"""Catalog: order, collisions and versions, against a plain dict."""

from __future__ import annotations

import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.catalog import Catalog, Collision, Tool
from shortlist.errors import CatalogError, UnknownToolError

TOOLS = st.builds(
    Tool,
    st.sampled_from(["read", "write", "list"]),
    st.sampled_from([None, "a", "b"]),
    st.sampled_from(["", "one", "two", "three"]),
)


def small() -> Catalog:
    return Catalog([Tool("read", "fs"), Tool("write", "fs"), Tool("read", "db"), Tool("now")])


def test_a_server_without_tools_may_get_tools_again() -> None:
    catalog = Catalog([Tool("read", "fs"), Tool("now")])
    empty = catalog.replace_server("fs", [])
    assert empty.servers == ()
    for later in (empty, empty.add([Tool("get", "web")]), empty.remove(["now"])):
        assert "fs/write" in later.replace_server("fs", [Tool("write", "fs")])
    assert "fs/read" in catalog.remove(["fs/read"]).replace_server("fs", [Tool("read", "fs")])
    with pytest.raises(CatalogError, match="server: no 'web' in the catalog, which has: none"):
        empty.remove_server("web")
    for wrong in (None, 7, ""):
        with pytest.raises(CatalogError, match="server: the name of a server, not"):
            catalog.replace_server(wrong, [])  # type: ignore[arg-type]


def test_tools_are_found_by_position_id_and_name() -> None:
    catalog = small()
    assert len(catalog) == 4
    assert [tool.id for tool in catalog] == ["fs/read", "fs/write", "db/read", "now"]
    assert catalog[2].id == "db/read"
    assert catalog[-1].id == "now"
    assert [tool.id for tool in catalog[:2]] == ["fs/read", "fs/write"]
    assert catalog.get("db/read") is catalog[2]
    assert "db/read" in catalog
    assert "read" not in catalog
    assert catalog.named("read") == (0, 2)
    assert catalog.named("nothing") == ()
    assert catalog.servers == ("fs", "db")
    with pytest.raises(IndexError):
        catalog[4]


@pytest.mark.parametrize("tools", [4, 3000])
def test_an_unknown_id_names_the_nearest(tools: int) -> None:
    catalog = small().add(Tool(f"tool{i}", "many") for i in range(tools))
    with pytest.raises(UnknownToolError) as caught:
        catalog.get("web/read")
    assert caught.value.nearest == ("fs/read", "db/read")
    with pytest.raises(UnknownToolError) as caught:
        catalog.remove(["now", "fs/writ"])
    assert caught.value.nearest[0] == "fs/write"
    with pytest.raises(UnknownToolError, match=r"\['now'\]"):
        catalog.get(["now"])  # type: ignore[arg-type]
    with pytest.raises(UnknownToolError) as caught:
        catalog.get("x" * 100_000)
    assert len(str(caught.value)) < 2000


def test_repetitions_are_dropped_and_differences_renamed() -> None:
    catalog = Catalog(
        [
            Tool("a", "s"),
            Tool("a", "s", "x"),
            Tool("a", "s"),
            Tool("a", "s", "y"),
            Tool("a", "s", "x"),
        ]
    )
    assert [(tool.id, tool.description) for tool in catalog] == [
        ("s/a", ""),
        ("s/a~2", "x"),
        ("s/a~3", "y"),
    ]
    assert catalog.collisions == (
        Collision("s/a", "s/a~2", identical=False),
        Collision("s/a", "s/a", identical=True),
        Collision("s/a", "s/a~3", identical=False),
        Collision("s/a", "s/a~2", identical=True),
    )
    assert catalog.named("a") == (0, 1, 2)
    assert small().collisions == ()


def test_a_suffix_that_is_taken_is_passed_over() -> None:
    catalog = Catalog([Tool("a"), Tool("z", id="a~2"), Tool("a", description="x")])
    assert [tool.id for tool in catalog] == ["a", "a~2", "a~3"]
    again = catalog.add([Tool("a", description="x")])
    assert again == catalog
    assert again.collisions == (Collision("a", "a~3", identical=True),)


def test_thousands_of_namesakes_take_linear_time() -> None:
    start = time.process_time()
    catalog = Catalog(Tool("a", description=str(i % 5_000)) for i in range(10_000))
    assert time.process_time() - start < 5
    assert len(catalog) == 5_000
    assert catalog[-1].id == "a~5000"
    assert len(catalog.collisions) == 9_999


def test_only_tools_make_a_catalog() -> None:
    with pytest.raises(CatalogError, match="got int"):
        Catalog([1])  # type: ignore[list-item]


def test_a_server_is_replaced_where_it_stood() -> None:
    catalog = small()
    new = catalog.replace_server("fs", [Tool("copy", "fs"), Tool("read", "fs")])
    assert [tool.id for tool in new] == ["fs/copy", "fs/read", "db/read", "now"]
    assert [tool.id for tool in catalog.replace_server("fs", [])] == ["db/read", "now"]
    assert [tool.id for tool in catalog.replace_server("web", [Tool("get", "web")])][
        -1
    ] == "web/get"
    assert len(catalog) == 4
    with pytest.raises(CatalogError, match=r"no 'web' in the catalog, which has: fs, db"):
        catalog.remove_server("web")
    with pytest.raises(CatalogError, match="belongs to server 'db', not 'fs'"):
        catalog.replace_server("fs", [Tool("read", "db")])


def test_removal_of_something_unknown_is_refused() -> None:
    with pytest.raises(UnknownToolError, match="fs/red"):
        small().remove(["fs/read", "fs/red"])


@given(st.lists(TOOLS, max_size=12), st.lists(TOOLS, max_size=8))
def test_building_and_adding_agree_with_a_plain_dict(first: list[Tool], second: list[Tool]) -> None:
    model: dict[str, Tool] = {}
    dropped = renamed = 0
    for tool in first + second:
        candidate, n = tool.id, 1
        while candidate in model and model[candidate].fingerprint != tool.fingerprint:
            n += 1
            candidate = f"{tool.id}~{n}"
        dropped += candidate in model
        renamed += candidate not in model and candidate != tool.id
        model[candidate] = tool
    catalog = Catalog(first + second)
    assert {tool.id: tool.fingerprint for tool in catalog} == {
        k: t.fingerprint for k, t in model.items()
    }
    assert [tool.id for tool in catalog] == list(model)
    assert sum(c.identical for c in catalog.collisions) == dropped
    assert sum(not c.identical for c in catalog.collisions) == renamed
    stepwise = Catalog(first).add(second)
    assert stepwise == catalog
    assert hash(stepwise) == hash(catalog)
    for name in ("read", "write", "list"):
        assert [catalog[i].name for i in catalog.named(name)] == [
            t.name for t in catalog if t.name == name
        ]


@given(st.lists(TOOLS, max_size=12), st.data())
def test_removal_keeps_the_rest_in_order(tools: list[Tool], data: st.DataObject) -> None:
    catalog = Catalog(tools)
    ids = [tool.id for tool in catalog]
    gone = data.draw(st.lists(st.sampled_from(ids), unique=True)) if ids else []
    rest = catalog.remove(gone)
    assert [tool.id for tool in rest] == [tool_id for tool_id in ids if tool_id not in gone]
    assert (rest.fingerprint == catalog.fingerprint) == (not gone)


@given(st.lists(TOOLS, min_size=2, max_size=6, unique_by=lambda t: t.id), st.randoms())
def test_the_fingerprint_covers_order_and_content(tools: list[Tool], random: object) -> None:
    catalog = Catalog(tools)
    assert catalog.fingerprint == Catalog(list(tools)).fingerprint
    assert catalog.fingerprint != Catalog(tools[::-1]).fingerprint
    assert catalog.fingerprint != Catalog(tools[1:]).fingerprint
    assert catalog.fingerprint != Catalog([tools[0].with_id("other"), *tools[1:]]).fingerprint


@pytest.mark.no_cover
def test_fifty_thousand_tools_stay_quick_and_small() -> None:
    schema = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(5)}}
    tracemalloc.start()
    tools = [Tool(f"tool_{i}", f"server{i % 500}", "d" * 200, schema) for i in range(5_000)]
    catalog = Catalog(tools)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    text = sum(len(tool.description) + len(str(tool.input_schema)) for tool in tools)
    assert (size - text) / len(catalog) < 2_000
    many = [tool.with_id(f"{tool.id}-{n}") for n in range(10) for tool in tools]
    start = time.process_time()
    assert len(Catalog(many)) == 50_000
    assert time.process_time() - start < 2
