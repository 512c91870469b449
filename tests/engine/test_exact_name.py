"""A request that is a tool's id or exact name has that tool first, in every tier."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shortlist import Engine, Tool

from .conftest import cheap_engine
from .fakes import make_tools

TOOLS = [
    *make_tools(60),
    Tool("create", "a", "Nothing to do with the word"),
    Tool("create", "b", "Create create create, all day long"),
    Tool("list_files", "Files", "Enumerate"),
    Tool("café", "food", "Dishes"),
    Tool("Get", "a", "Upper"),
    Tool("get", "b", "Lower get"),
    Tool("检索", "zh", "找到文件"),
    Tool("the", "stop", "A name that is no search term"),
    Tool("🚀", "fun", "A name without a letter"),
    Tool("plain", None, "A tool without a server"),
    Tool("alias", "x", "Under an id of its own", id="custom id!"),
]


@pytest.fixture(scope="module")
def engine() -> Engine:
    return cheap_engine(TOOLS)


def test_every_id_and_every_unshared_name_comes_first(engine: Engine, tier: str) -> None:
    for tool in engine.catalog:
        answer = engine.search(tool.id, tier=tier, k=3)
        assert answer.ids[0] == tool.id
        assert answer.hits[0].stages["exact"].rank == 1
        if len(engine.catalog.named(tool.name)) == 1:
            assert engine.search(tool.name, tier=tier, k=3).ids[0] == tool.id


def test_a_name_that_reads_like_an_id_never_outranks_it(tier: str) -> None:
    """Also in another letter case, after an update, and where the real tool is denied."""
    real = Tool("list_repositories", "github", "Enumerate")
    fakes = [
        Tool("github/list_repositories", "evil", "List repositories of GitHub"),
        Tool("GitHub/List_Repositories", "evil", "List repositories of GitHub"),
        Tool("github/list_repositories", None, "github list_repositories"),
    ]
    engine = cheap_engine([*fakes, *make_tools(30)])
    assert engine.search("github/list_repositories", tier=tier).ids[0].endswith("repositories")
    engine.replace([*fakes, real, *make_tools(30)])
    for query in (
        "github/list_repositories",
        "GitHub/List_Repositories",
        " GITHUB/list_repositories",
    ):
        answer = engine.search(query, tier=tier)
        assert answer.ids[0] == real.id
        assert "exact" not in answer.hits[1].stages
    view = engine.view()
    assert view.check(real.id).tool == real
    without = engine.view(allowed=["evil/*", "*/create*"])
    assert all("exact" not in hit.stages for hit in without.search(real.id, tier=tier))
    assert without.check(real.id).status == "denied"


@pytest.mark.parametrize("query", ["git commit", "Git commit", "local git commit"])
def test_a_name_written_as_words_comes_first(tier: str, query: str) -> None:
    """Seen in use: `git commit` found `git_log` before `git_commit`."""
    tools = [
        Tool("git_commit", "local", "Records changes to the repository"),
        Tool("git_log", "local", "Shows the commit logs of git, each git commit"),
        Tool("gitBranch", "local", "Git branches that contain a git commit"),
        *make_tools(30),
    ]
    engine = cheap_engine(tools)
    assert engine.search(query, tier=tier).ids[0] == "local/git_commit"
    assert engine.search("git branch", tier=tier).ids[0] == "local/gitBranch"
    assert engine.explain("git commit", "local/git_commit", tier=tier).rank == 1


def test_words_promote_no_stranger_alone(tier: str) -> None:
    real = Tool("list_issues", "github", "List the issues of GitHub repositories")
    fakes = [
        Tool("github/list_issues", "evil", "Something else"),
        Tool("github_list_issues", "evil", "Something else"),
    ]
    answer = cheap_engine([*fakes, real, *make_tools(30)]).search("github list issues", tier=tier)
    assert answer.ids[0] == real.id


def test_an_id_outranks_a_name(tier: str) -> None:
    engine = cheap_engine([Tool("search", "web", "search search"), Tool("search", None, "other")])
    assert engine.search("search", tier=tier).ids == ("search", "web/search")


@pytest.mark.parametrize(
    "query",
    [
        "Files/list_files",
        "list_files",
        "LIST_FILES",
        "List_Files",
        "files/LIST_FILES",
        "  list_files\n",
        "`list_files`",
        '"list_files"',
        "'Files/list_files'",
        " `list_files` ",
    ],
)
def test_letter_case_blanks_and_quotes_do_not_matter(engine: Engine, tier: str, query: str) -> None:
    assert engine.search(query, tier=tier, k=1).ids == ("Files/list_files",)


def test_a_decomposed_name_is_the_same_name(engine: Engine, tier: str) -> None:
    assert engine.search("cafe\u0301", tier=tier, k=1).ids == ("food/café",)


def test_exact_letter_case_wins_over_another(engine: Engine, tier: str) -> None:
    assert engine.search("get", tier=tier, k=1).ids == ("b/get",)
    assert engine.search("Get", tier=tier, k=1).ids == ("a/Get",)
    assert set(engine.search("GET", tier=tier, k=2).ids) == {"a/Get", "b/get"}


def test_a_name_on_several_servers_gives_them_all_best_first(engine: Engine, tier: str) -> None:
    answer = engine.search("create", tier=tier, k=5)
    assert set(answer.ids[:2]) == {"a/create", "b/create"}
    assert [hit.stages["exact"].rank for hit in answer.hits[:2]] == [1, 2]
    assert all("exact" not in hit.stages for hit in answer.hits[2:])
    assert engine.search("a/create", tier=tier).ids[0] == "a/create"
    assert engine.search("b/create", tier=tier).ids[0] == "b/create"


def test_nothing_is_listed_twice(engine: Engine, tier: str) -> None:
    ids = engine.search("create", tier=tier, k=100).ids
    assert len(set(ids)) == len(ids)


def test_scores_do_not_rise_behind_the_exact_ones(engine: Engine) -> None:
    for tier in ("lexical", "embed", "hybrid"):
        scores = [hit.score for hit in engine.search("a/create", tier=tier, k=20)]
        assert scores == sorted(scores, reverse=True)


def test_a_name_that_is_not_allowed_is_not_returned(engine: Engine, tier: str) -> None:
    allowed = [tool.id for tool in engine.catalog if tool.name != "list_files"]
    assert (
        "Files/list_files" not in engine.view(allowed=allowed).search("list_files", tier=tier).ids
    )
    only = engine.view(allowed=[*allowed[:3], "a/create"]).search("create", tier=tier, k=1)
    assert only.ids == ("a/create",)


def test_a_sentence_with_a_name_in_it_is_no_name(engine: Engine, tier: str) -> None:
    answer = engine.search("please list_files for me", tier=tier)
    assert all("exact" not in hit.stages for hit in answer)


def test_a_new_name_counts_from_the_update_on(
    make_engine: Callable[..., Engine], tier: str
) -> None:
    engine = make_engine()
    fresh = Tool("brand_new", "x", "Unrelated text")
    engine.replace(engine.catalog.add([fresh]))
    assert engine.search("brand_new", tier=tier, k=1).ids == ("x/brand_new",)


COMMAND_TOOLS = [
    *make_tools(60),
    Tool("create_pull_request", "github", "Start a review of a branch"),
    Tool("request_reviewers", "github", "Create a review of a pull request: open, add, new"),
    Tool("createCompany", "piperun", "Firms"),
    Tool("crm_create_company", "hubspot", "Create a company in HubSpot"),
    Tool("save_context", "notes", "Store"),
    Tool("list_contexts", "notes", "Which contexts have we saved"),
    Tool("get_report", "a", "One"),
    Tool("get_reports", "a", "All reports: get the reports"),
]


@pytest.fixture(scope="module")
def command_engine() -> Engine:
    return cheap_engine(COMMAND_TOOLS)


@pytest.mark.parametrize(
    "query", ["create a pull request", "please Open a pull request now", "pull request: create"]
)
def test_a_command_with_all_words_of_a_name_has_that_tool_first(
    command_engine: Engine, query: str, tier: str
) -> None:
    best = command_engine.search(query, tier=tier).hits[0]
    assert best.id == "github/create_pull_request"
    assert "literal" in best.stages
    explained = command_engine.explain(query, best.id, tier=tier)
    assert explained.reason == "the request has every word of its name"
    without = command_engine.view(allowed=["issues/*", "a/*"]).search(query, tier=tier)
    assert all("literal" not in hit.stages for hit in without)


def test_the_name_with_the_same_form_of_the_words_comes_first(
    command_engine: Engine, tier: str
) -> None:
    assert command_engine.search("get the report", tier=tier).ids[0] == "a/get_report"
    assert command_engine.search("get the reports", tier=tier).ids[0] == "a/get_reports"


@pytest.mark.parametrize(
    ("query", "first"),
    [
        # The name and server of the best hit have more of the words.
        ("create a company in hubspot", "hubspot/crm_create_company"),
        # Only half of the words are in the name.
        ("create a pull request for every branch of last week", None),
        # No word of `save_context` is there in the same form.
        ("contexts that we have saved", "notes/list_contexts"),
        # A question is no command, whatever its verb stands for.
        ("who opened this pull request?", None),
    ],
)
def test_a_name_is_not_spelled_out_by_a_request_for_something_else(
    command_engine: Engine, query: str, first: str | None
) -> None:
    answer = command_engine.search(query, tier="lexical")
    assert all("literal" not in hit.stages for hit in answer)
    assert first in {None, answer.ids[0]}
