from __future__ import annotations

from itertools import combinations
from time import process_time

from hypothesis import given
from hypothesis import strategies as st

from shortlist import Tool
from shortlist.retrieval.search.twins import TWIN_JACCARD, near_twins

WORDS = st.lists(st.sampled_from("abcdefghijkl"), min_size=1, max_size=12)


def tools(*descriptions: str) -> list[Tool]:
    return [Tool(f"t{n}", None, text) for n, text in enumerate(descriptions)]


def groups_by_comparing_all(catalog: list[Tool]) -> set[frozenset[str]]:
    words = {
        tool.id: {*(tool.name[:1], tool.name[1:]), *tool.description.split()} for tool in catalog
    }
    told = {tool: text for tool, text in words.items() if len(text) >= 5}
    group = {tool: {tool} for tool in told}
    for one, other in combinations(told, 2):
        if len(told[one] & told[other]) >= TWIN_JACCARD * len(told[one] | told[other]):
            joined = group[one] | group[other]
            for tool in joined:
                group[tool] = joined
    return {frozenset(tools) for tools in group.values() if len(tools) > 1}


@given(st.lists(WORDS, max_size=12))
def test_prefix_filtering_misses_no_pair(texts):
    catalog = tools(*(" ".join(words) for words in texts))
    found = near_twins(catalog)
    assert {frozenset(ids) for ids in found} == groups_by_comparing_all(catalog)
    assert [len(ids) for ids in found] == sorted((len(ids) for ids in found), reverse=True)


def test_short_texts_are_passed_over():
    assert near_twins(tools("List", "List", "")) == []


def test_a_changed_word_in_a_text_of_ten_is_a_twin():
    text = "list all the open pull requests of one repository"
    texts = text, text.replace("open", "closed"), "delete one file of the repository at once"
    catalog = [Tool("list", server, said) for server, said in zip("abc", texts, strict=True)]
    assert near_twins(catalog) == [("a/list", "b/list")]


def test_thousands_of_equal_texts_are_one_group_at_once():
    text = "list all the open pull requests of one repository"
    catalog = [Tool("t", None, text, id=f"x{n}") for n in range(5_000)]
    start = process_time()
    assert [len(ids) for ids in near_twins(catalog)] == [5_000]
    assert process_time() - start < 20
