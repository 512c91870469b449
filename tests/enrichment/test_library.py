"""The library of example queries: which tools it recognises, and what it does for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from shortlist import Config, Engine, Tool
from shortlist.catalog import Catalog
from shortlist.enrichment import ExampleQueryMatcher, ExampleQueryRow
from shortlist.enrichment import tool_examples as module
from shortlist.enrichment.library import (
    LIBRARY_FOLDER,
    MAX_WORDS,
    MIN_SIMILARITY,
    NUMBERS_FILE,
    ROWS_FILE,
    Library,
    _row_of_package,
    first_words,
    parameter_names,
    similarity,
)
from shortlist.indexing import stage_models
from shortlist.indexing.builder import Builder
from shortlist.lab.enrichment.library import (
    ALL_ROWS,
    LibraryRow,
    build,
    chosen,
    read_products,
    read_rows,
)
from shortlist.models import load_encoder
from shortlist.retrieval.example_queries import MOVED_LENGTH, ExampleQueries
from shortlist.trust import Pins, Trust


def tool(name: str, server: str, description: str, *parameters: str) -> Tool:
    schema = {"type": "object", "properties": {one: {"type": "string"} for one in parameters}}
    return Tool(name, server, description, schema)


ISSUE = tool(
    "create_issue",
    "github",
    "Create a new issue in a GitHub repository",
    "owner",
    "repo",
    "title",
    "body",
)
PAGE = tool(
    "read_page", "wiki", "Read the text of one page of the wiki in markdown", "page", "section"
)
REQUESTS = {
    "github/create_issue": ("file a bug: the login page is blank", "report defect octocat/hello"),
    "wiki/read_page": ("what does our handbook say about holidays?",),
}
OTHERS = [
    tool("forecast", "weather", "The weather of a city in the coming days", "city"),
    tool("list_files", "disk", "List the files of a folder, newest first", "folder"),
]


def _of(one: Tool, server: str | None) -> Tool:
    return Tool(one.name, server, one.description, one.input_schema)


def written(one: Tool, *, known: bool = True) -> LibraryRow:
    row = ExampleQueryRow(tool=one.id, queries=REQUESTS.get(one.id, ("ask this",)))
    return LibraryRow.of(row, one, parameter_names(one) if known else None)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Library:
    folder = tmp_path_factory.mktemp("library")
    return build([written(ISSUE), written(PAGE, known=False)], load_encoder(), folder)


@pytest.fixture
def engines(small: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines have the small library."""
    monkeypatch.setattr(module, "Library", lambda: small)


class TestRecognition:
    def test_the_server_may_have_any_name(self, small: Library) -> None:
        for server in ("github", "my-code", None):
            found = small.find(_of(ISSUE, server))
            assert found is not None
            assert (found.row.tool, found.is_same_definition) == ("github/create_issue", True)
            assert found.row.queries == REQUESTS["github/create_issue"]

    @pytest.mark.parametrize(
        ("description", "parameters"),
        [
            ("Creates a new issue in a GitHub repository.", ("owner", "repo", "title", "body")),
            (ISSUE.description, ("owner", "repo", "title", "body", "labels")),
            ("Create a new issue in a GitHub repository", ("owner", "repo", "title")),
        ],
    )
    def test_another_version_is_recognised_and_told_apart(
        self, small: Library, description: str, parameters: tuple[str, ...]
    ) -> None:
        found = small.find(tool("create_issue", "gh", description, *parameters))
        assert found is not None
        assert not found.is_same_definition or parameters == ("owner", "repo", "title", "body")

    @pytest.mark.parametrize(
        "other",
        [
            tool(
                "create_issue",
                "jira",
                "Create a new issue in a Jira project",
                "project",
                "summary",
                "kind",
            ),
            tool("create_issue", "linear", "File an issue for a team", "team", "title", "body"),
            tool("new_issue", "github", ISSUE.description, "owner", "repo", "title", "body"),
            tool("create_issue", "github", "", "owner", "repo", "title"),
            tool("create_issue", "github", ""),
        ],
    )
    def test_a_tool_of_another_product_is_not(self, small: Library, other: Tool) -> None:
        assert small.find(other) is None

    def test_without_known_parameters_the_description_has_to_be_closer(
        self, small: Library
    ) -> None:
        assert small.find(tool("read_page", "x", PAGE.description, "anything")) is not None
        near = "Read the text of one page of a wiki in markdown or plain form"
        words, other = first_words(PAGE.description), first_words(near)
        assert similarity(words, frozenset(), other, frozenset(), named=True) >= MIN_SIMILARITY
        assert small.find(tool("read_page", "x", near)) is None

    def test_a_tool_that_names_no_product_has_to_agree_in_more_words(self, tmp_path: Path) -> None:
        short = tool("step_over", "tracer", "Go to the next line of the program", "thread")
        words = "stop when a variable changes its value and show frames of all threads with locals"
        long = tool("watch_value", "tracer", words, "thread", "variable", "condition")
        made = build([written(short), written(long)], load_encoder(), tmp_path)
        for server, found in (("tracer", [short, long]), ("my-tracer", [short, long])):
            assert [one for one in found if made.find(_of(one, server))] == found
        assert [one for one in (short, long) if made.find(_of(one, "other"))] == [long]

    def test_a_very_short_definition_needs_a_server_with_the_name_of_the_product(
        self, tmp_path: Path
    ) -> None:
        go = tool("go", "web-browser", "Navigate to a URL", "url")
        made = build([written(go)], load_encoder(), tmp_path)
        for server in ("web-browser", "my_browser_of_the_web"):
            assert made.find(_of(go, server)) is not None
        for server in ("browser", "other", None):
            assert made.find(_of(go, server)) is None
        assert made.find(tool("go", "web-browser", "Go to a city", "url")) is None

    def test_tools_are_counted_by_server(self, small: Library) -> None:
        renamed = Tool(ISSUE.name, "code", ISSUE.description, ISSUE.input_schema)
        assert small.servers([renamed, *OTHERS]) == {"code": {"github": 1}}

    @given(st.text(max_size=200))
    def test_any_description_has_words(self, text: str) -> None:
        words = first_words(text)
        assert len(words) <= MAX_WORDS
        assert all(0 < word < 2**16 for word in words)


@pytest.mark.usefixtures("engines")
class TestSearch:
    def test_it_is_on_by_default_and_an_empty_list_switches_it_off(self) -> None:
        asked = "the login page is blank"
        on = Engine.from_tools([ISSUE, PAGE, *OTHERS])
        for tier in on.tiers:
            hit = on.search(asked, tier=tier).hits[0]
            assert (hit.id, hit.example_sources) == ("github/create_issue", ("library",))
        off = Engine.from_tools([ISSUE, PAGE, *OTHERS], index={"example_queries": []})
        assert all(hit.example_sources == () for hit in off.search(asked).hits)
        assert on.view().explain(asked, "wiki/read_page").example_queries is not None

    def test_a_catalog_that_it_does_not_know_is_indexed_as_without_it(self) -> None:
        on, off = (
            Engine.from_tools(OTHERS),
            Engine.from_tools(OTHERS, index={"example_queries": []}),
        )
        asked = "weather in the coming days"
        for tier in on.tiers:
            assert on.search(asked, tier=tier).hits == off.search(asked, tier=tier).hits

    def test_vectors_of_known_tools_are_shorter_in_the_static_stage_too(self) -> None:
        index = Engine.from_tools([ISSUE, *OTHERS]).view().admission.index
        assert index.static is not None
        lengths = np.linalg.norm(index.static.index.vectors, axis=1)
        row = index.rows["github/create_issue"]
        assert lengths[row] == pytest.approx(MOVED_LENGTH**2, abs=1e-4)
        np.testing.assert_allclose(np.delete(lengths, row), 1, atol=1e-4)

    def mean_of_issue(
        self, small: Library, spec: str, monkeypatch: pytest.MonkeyPatch
    ) -> tuple[ExampleQueries, NDArray[np.float32]]:
        """The example queries of a tool, and their mean vector in an index."""
        encoder = load_encoder(spec)
        asked = self.asked = list[str]()

        class Recorded:
            name, fingerprint, dim = encoder.name, encoder.fingerprint, encoder.dim

            def encode(self, texts: list[str], *, query: bool = False, **_: object) -> Any:
                asked.extend(texts if query else [])
                return encoder.encode(texts, query=query)

        monkeypatch.setattr(stage_models, "load_encoder", lambda *_, **__: Recorded())
        builder = Builder(Config(encoder=spec))
        builder.example_queries = ExampleQueryMatcher(library=small)
        index = Engine(builder, builder.begin(Catalog([ISSUE, PAGE])))._version.index
        queries = index.example_queries[ISSUE.id]
        assert index.vectors is not None
        return queries, index.vectors.values[index.vectors.rows[queries.key]]

    def test_requests_are_not_encoded_again(
        self, small: Library, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        encoder = load_encoder()
        queries, made = self.mean_of_issue(small, "bundled", monkeypatch)
        assert not set(queries.texts_to_encode) & set(self.asked)
        mean = encoder.encode(queries.texts_to_encode, query=True).mean(axis=0)
        np.testing.assert_allclose(made, mean, atol=0.005)

    def test_another_encoder_encodes_them(
        self, small: Library, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        queries, made = self.mean_of_issue(small, "static", monkeypatch)
        assert set(queries.texts_to_encode) <= set(self.asked)
        mean = load_encoder("static").encode(queries.texts_to_encode, query=True).mean(axis=0)
        np.testing.assert_allclose(made, mean)

    def test_own_rows_come_first_and_are_joined(self, small: Library) -> None:
        own = ExampleQueryRow(tool="github/create_issue", queries=("own words",))
        found = ExampleQueryMatcher([own], small).match(ISSUE)
        assert found is not None
        assert found.queries == ("own words", *REQUESTS["github/create_issue"])
        assert (found.sources, found.stale, found.mean) == (("hand", "library"), False, None)

    def test_a_row_of_another_version_is_stale_and_gives_way_to_a_fresh_one(
        self, small: Library
    ) -> None:
        changed = tool(
            "create_issue", "github", ISSUE.description, "owner", "repo", "title", "kind"
        )
        found = ExampleQueryMatcher(library=small).match(changed)
        assert found is not None
        assert found.stale
        own = ExampleQueryRow(tool="github/create_issue", queries=("own words",))
        assert ExampleQueryMatcher([own], small).match(changed).queries == ("own words",)  # type: ignore[union-attr]


class TestTheft:
    """Only the tool that was there first has the queries of the library."""

    COPY = tool("create_issue", "evil", f"{ISSUE.description}!", "owner", "repo", "title", "body")
    ACCOUNT = _of(ISSUE, "github-home")

    def engine(self, path: Path, *batches: list[Tool]) -> Engine:
        pins = Pins()
        for batch in batches:
            pins = pins.pin(batch)
        pins.save(path)
        tools = [self.COPY, self.ACCOUNT, ISSUE, *OTHERS]
        return Engine.from_tools(tools, tiers=["lexical"], trust={"pins": path})

    def with_queries(self, engine: Engine) -> set[str]:
        return {tool_id for tool_id in engine._version.index.example_queries if "issue" in tool_id}

    @pytest.mark.usefixtures("engines")
    def test_a_younger_copy_has_none_while_the_older_is_there(self, tmp_path: Path) -> None:
        path = tmp_path / "pins.json"
        everything = [self.COPY, self.ACCOUNT, ISSUE, *OTHERS]
        both_ages = self.engine(path, everything)
        assert self.with_queries(both_ages) == {ISSUE.id, self.COPY.id, self.ACCOUNT.id}
        query = REQUESTS[ISSUE.id][0]
        assert both_ages.search(query, k=1).ids == (self.COPY.id,)

        engine = self.engine(path, [ISSUE], everything)
        assert self.with_queries(engine) == {ISSUE.id}
        assert engine.search(query, k=1).ids == (ISSUE.id,)
        # Nobody asks for the words of the second account, and it is found by those of the first.
        assert engine.search(query, k=2).ids == (ISSUE.id, self.ACCOUNT.id)
        assert engine.view(allowed=["disk/*", "github/*"]).search(query, k=2).ids[0] == ISSUE.id
        engine.replace([self.COPY, *OTHERS])
        assert self.with_queries(engine) == {self.COPY.id}
        engine.replace(everything)
        assert self.with_queries(engine) == {ISSUE.id}

    @pytest.mark.usefixtures("engines")
    def test_a_saved_index_follows_the_ages(self, tmp_path: Path) -> None:
        path, folder = tmp_path / "pins.json", tmp_path / "index"
        everything = [self.COPY, self.ACCOUNT, ISSUE, *OTHERS]
        self.engine(path, everything).save(folder)
        settings: dict[str, Any] = {"tiers": ["lexical"], "trust": {"pins": path}}
        assert len(self.with_queries(Engine.open(folder, **settings))) == 3
        engine = self.engine(path, [ISSUE], everything)
        opened = Engine.open(folder, **settings)
        assert self.with_queries(opened) == {ISSUE.id}
        query = REQUESTS[ISSUE.id][0]
        assert opened.search(query).ids == engine.search(query).ids
        opened.save(folder)
        assert self.with_queries(Engine.open(folder, **settings)) == {ISSUE.id}


class TestBuilding:
    def test_the_same_rows_give_the_same_bytes(self, tmp_path: Path) -> None:
        rows = [written(ISSUE), written(PAGE, known=False)]
        for name in "ab":
            build(chosen(reversed(rows)), load_encoder(), tmp_path / name)
        for name in (ROWS_FILE, NUMBERS_FILE):
            assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()

    def test_repeated_definitions_and_those_too_short_are_left_out(self) -> None:
        again = Tool(ISSUE.name, "fork", ISSUE.description, ISSUE.input_schema)
        short = tool("ping", "x", "Ping")
        rows = [written(one) for one in (ISSUE, again, PAGE, short)]
        assert [one.row.tool for one in chosen(rows)] == [ISSUE.id, PAGE.id]

    def test_a_server_of_the_training_sets_has_one_product(self) -> None:
        assert read_products()["stripe-remote"] == "stripe"


def test_parameters_of_composed_schemas() -> None:
    inner = {"type": "object", "properties": {"city": {"type": "string"}}}
    deep = {"properties": {"at": inner}}
    for schema in (deep, {"allOf": [deep]}, {"$ref": "#/$defs/x", "$defs": {"x": deep}}):
        assert parameter_names(Tool("forecast", "weather", "", schema)) == {"at"}


class TestShipped:
    def test_it_holds_the_rows_of_the_checkout(self) -> None:
        rows = [one.row for one in read_rows(ALL_ROWS)]
        assert [_row_of_package(row) for row in Library().rows()] == rows
        ids = [row.tool for row in rows]
        assert ids == sorted(set(ids))
        assert {row.source for row in rows} == {"library"}

    def test_its_vectors_are_those_of_its_requests(self) -> None:
        with np.load(LIBRARY_FOLDER / NUMBERS_FILE) as numbers:
            vectors = numbers["vectors"] * numbers["scales"][:, None]
        rows = Library().rows()
        for place in range(0, len(rows), len(rows) // 20):
            mean = load_encoder().encode(rows[place]["requests"], query=True).mean(axis=0)
            assert vectors[place] @ mean / np.linalg.norm(mean) ** 2 == pytest.approx(1, abs=0.02)

    @pytest.mark.parametrize(
        ("known", "tool_id"),
        [
            (
                tool(
                    "create_issue",
                    "anything",
                    "Create a new issue in a GitHub repository",
                    *("owner", "repo", "title", "body", "assignees", "milestone", "labels"),
                ),
                "github/create_issue",
            ),
            (
                tool("browser_navigate", "playwright", "Navigate to a URL", "url"),
                "playwright/browser_navigate",
            ),
        ],
    )
    def test_a_server_of_it_is_recognised(self, known: Tool, tool_id: str) -> None:
        found = Library().find(known)
        assert found is not None
        assert found.row.tool == tool_id

    def test_nothing_in_it_would_be_quarantined(self) -> None:
        rows = Library().rows()
        said = [
            Tool(
                str(place),
                "library",
                "\n\n".join((row.get("when", ""), row.get("not", ""), *row["requests"])),
            )
            for place, row in enumerate(rows)
        ]
        flags = Trust().flags(Catalog(said))
        assert [
            rows[int(one[8:])]["tool"] for one in flags if flags[one].level == "quarantine"
        ] == []
