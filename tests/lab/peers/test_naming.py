"""Ids become names that peers accept, and come back."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from shortlist.catalog import Tool
from shortlist.lab.peers.naming import LONGEST_NAME, PeerNames
from shortlist.lab.peers.words import split_words, tool_text


@given(
    st.lists(
        st.text(st.characters(categories=("L", "N", "P", "S")), min_size=1, max_size=200),
        unique=True,
        max_size=30,
    )
)
def test_names_are_accepted_distinct_and_reversible(ids: list[str]) -> None:
    tools = [Tool("t", id=tool_id) for tool_id in ids]
    names = PeerNames(tools)
    given = [names.name(tool.id) for tool in tools]
    assert len(set(given)) == len(tools)
    assert [names.tool_id(name) for name in given] == [tool.id for tool in tools]
    for name in given:
        assert re.fullmatch(rf"[A-Za-z0-9_-]{{1,{LONGEST_NAME}}}", name)


def test_server_and_name_stay_readable() -> None:
    tools = [Tool("list_issues", "@acme/git hub"), Tool("list_issues", "acme/git-hub")]
    names = PeerNames(tools)
    assert [names.name(tool.id) for tool in tools] == [
        "acme-git-hub-list_issues",
        "acme-git-hub-list_issues-2",
    ]


def test_a_long_id_keeps_the_name_of_the_tool() -> None:
    names = PeerNames([tool := Tool("get_user", "s" * 200)])
    assert names.name(tool.id).endswith("s-get_user")
    assert len(names.name(tool.id)) == LONGEST_NAME


def test_identifiers_are_split_into_words() -> None:
    assert split_words("getHTTPResponse_by-ID v2") == "get http response by id v2"
    assert split_words("  ...  ") == ""


def test_the_text_of_a_tool_holds_id_description_and_parameter_names() -> None:
    schema = {"type": "object", "properties": {"repoName": {"type": "string"}}}
    tool = Tool("createIssue", "git_hub", "Open it.", schema)
    assert tool_text(tool) == "git hub create issue open it repo name"
