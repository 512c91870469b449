"""Every peer keeps the protocol; a peer whose library is not installed is skipped."""

from __future__ import annotations

import sys

import pytest

from shortlist.catalog import Tool
from shortlist.errors import ConfigError, MissingExtraError
from shortlist.lab.peers import NOT_OFFLINE, PEERS, Peer, load_peer

# Foreign libraries may warn while they import; only what shortlist raises is held to be an error.
pytestmark = pytest.mark.filterwarnings("default")

OBVIOUS = {
    "weather forecast for Lisbon, will it rain": "weather/forecast",
    "convert an amount of currency": "bank/convert_currency",
    "merge the pull request into the base branch": "@acme/github/merge_pull_request",
    "play a song by this artist": "music/play_song",
}

LIBRARIES = {
    "bm25s": "bm25s",
    "fastmcp-bm25": "fastmcp",
    "haystack": "haystack",
    "minilm-cosine": "sentence_transformers",
    "pydantic-ai": "pydantic_ai",
    "rank-bm25": "rank_bm25",
    "ratel-bm25": "ratel_ai",
    "ratel-hybrid": "ratel_ai",
    "ratel-semantic": "ratel_ai",
}


@pytest.fixture(scope="module", params=sorted(PEERS))
def peer(request: pytest.FixtureRequest, tools: list[Tool]) -> Peer:
    try:
        peer = load_peer(request.param)
    except MissingExtraError as error:
        pytest.skip(str(error))
    peer.index(tools)
    return peer


def test_it_reports_the_name_it_is_registered_under(peer: Peer) -> None:
    assert load_peer(peer.name).name == peer.name


@pytest.mark.parametrize(("query", "tool_id"), OBVIOUS.items())
def test_an_obvious_query_finds_the_obvious_tool(peer: Peer, query: str, tool_id: str) -> None:
    assert peer.search(query, 3)[0] == tool_id


def test_answers_are_distinct_ids_of_indexed_tools(peer: Peer, tools: list[Tool]) -> None:
    known = {tool.id for tool in tools}
    for query in [*OBVIOUS, "file", "start"]:
        found = peer.search(query, len(tools))
        assert len(found) == len(set(found))
        assert set(found) <= known


def test_at_most_k_ids_are_returned(peer: Peer) -> None:
    for k in (1, 2, 5):
        assert all(len(peer.search(query, k)) <= k for query in OBVIOUS)


def test_a_depth_free_order_does_not_depend_on_k(peer: Peer, tools: list[Tool]) -> None:
    if not peer.depth_free:
        pytest.skip("its order depends on how many ids are asked for")
    many = [
        Tool(f"{t.name}_{n}", t.server, f"{t.description}, {n}") for t in tools for n in range(2)
    ]
    peer.index(many)
    try:
        for query in OBVIOUS:
            whole = peer.search(query, len(many))
            assert all(peer.search(query, k) == whole[:k] for k in (1, 10))
    finally:
        peer.index(tools)


@pytest.mark.parametrize("query", ["你好，请帮我", "!?", "   ", "zzqx", "a" * 5000])
def test_a_query_without_a_known_word_is_answered(
    peer: Peer, tools: list[Tool], query: str
) -> None:
    assert set(peer.search(query, 5)) <= {tool.id for tool in tools}


def test_the_same_query_gives_the_same_answer(peer: Peer) -> None:
    query = next(iter(OBVIOUS))
    assert peer.search(query, 10) == peer.search(query, 10)


def test_indexing_again_replaces_the_tools(peer: Peer, tools: list[Tool]) -> None:
    kept = [tool for tool in tools if tool.server != "weather"]
    peer.index(kept)
    try:
        assert "weather/forecast" not in peer.search("weather forecast", len(tools))
    finally:
        peer.index(tools)


def test_tools_without_description_or_parameters_are_indexed(peer: Peer, tools: list[Tool]) -> None:
    bare = [Tool("reboot_machine"), Tool("weather_report"), Tool("长亭", "server")]
    peer.index(bare)
    try:
        assert peer.search("reboot_machine", 1) == ["reboot_machine"]
    finally:
        peer.index(tools)


def test_a_schema_that_is_not_valid_is_no_hindrance(peer: Peer, tools: list[Tool]) -> None:
    odd = Tool("odd_thing", "x", "Paint a fence", {"properties": {"n": {"exclusiveMinimum": True}}})
    peer.index([*tools, odd])
    try:
        assert peer.search("paint a fence", 1) == ["x/odd_thing"]
    finally:
        peer.index(tools)


@pytest.mark.parametrize("name", sorted(PEERS))
def test_a_missing_library_names_its_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    root = LIBRARIES[name]
    for module in [one for one in sys.modules if one.split(".")[0] == root]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, root, None)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[lab\]'") as caught:
        load_peer(name)
    assert repr(name) in str(caught.value)


def test_an_unknown_peer_is_refused_with_what_it_may_have_meant() -> None:
    with pytest.raises(ConfigError, match="no peer 'ratel-bm52'; did you mean ratel-bm25"):
        load_peer("ratel-bm52")
    with pytest.raises(ConfigError, match=f"known: {', '.join(PEERS)}"):
        load_peer("?")


@pytest.mark.parametrize("name", sorted(NOT_OFFLINE))
def test_a_peer_that_needs_a_network_is_refused_with_the_reason(name: str) -> None:
    assert name not in PEERS
    with pytest.raises(ConfigError) as caught:
        load_peer(name)
    assert NOT_OFFLINE[name] in str(caught.value)
