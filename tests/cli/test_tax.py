from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.catalog import Catalog
from shortlist.loaders.token_tax import COUNTED_SEARCH_TOOL, TokenTax, definition_text
from shortlist.models import TokenCounter


def test_the_figures_of_a_catalog_add_up(run_json, servers):
    found = run_json("tax", servers, "--top", 3)
    counter = TokenCounter()
    counts = {
        tool.id: counter.count(
            json.dumps(
                {
                    "name": tool.name,
                    "description": tool.description,
                    "input_schema": tool.input_schema,
                },
                ensure_ascii=False,
                separators=(",", ":"),
            )
        )
        for tool in Catalog.read(servers)
    }
    assert found["encoding"] == "cl100k_base"
    assert found["tools"] == 120
    assert found["tokens_now"] == sum(counts.values())
    assert sum(server["tokens"] for server in found["servers"].values()) == sum(counts.values())
    largest = sorted(counts.values(), reverse=True)
    assert [tool["tokens"] for tool in found["heaviest"]] == largest[:3]
    search_tool = counter.count(json.dumps(dict(COUNTED_SEARCH_TOOL), separators=(",", ":")))
    after = found["with_shortlist"]
    assert after["search_tool"] == search_tool
    assert after["tokens"] == search_tool + round(10 * sum(counts.values()) / 120)
    assert after["tokens_at_most"] == search_tool + sum(largest[:10])


def test_an_index_costs_what_its_files_cost(run_json, index, servers):
    assert run_json("tax", index) == run_json("tax", servers)


def test_the_text_names_servers_tools_and_how_it_was_counted(run, run_json, servers):
    text = run("tax", servers, "-k", 5).stdout
    found = run_json("tax", servers, "-k", 5)
    for server in found["servers"]:
        assert f"\n{server} " in text
    assert found["heaviest"][0]["id"] in text
    assert "all 120 definitions, as now" in text
    assert f"{found['tokens_now']:,}" in text
    assert f"{found['with_shortlist']['tokens']:,}" in text
    assert "search tool + 5 of mean size" in text
    assert "compact JSON with name, description and input_schema" in text
    assert "heaviest" not in run("tax", servers, "--top", 0).stdout


def test_a_catalog_smaller_than_the_selection(run, run_json, tools_file):
    path = tools_file({"name": "a", "description": "x"})
    found = run_json("tax", path)
    after = found["with_shortlist"]
    assert after["tokens"] == after["tokens_at_most"] == found["tokens_now"] + after["search_tool"]
    text = run("tax", path).stdout
    assert "(none)" in text
    assert "more" in text


def test_no_tools_cost_nothing(run, run_json, tools_file):
    assert run_json("tax", tools_file())["tokens_now"] == 0
    assert "all 0 definitions" in run("tax", tools_file()).stdout


def test_an_unknown_vocabulary_is_an_error(run, servers):
    assert "nonsense" in run("tax", servers, "--encoding", "nonsense", code=2).stderr


@given(
    tokens=st.lists(st.integers(1, 5_000), max_size=40),
    k=st.integers(1, 50),
    search_tool=st.integers(1, 200),
)
def test_a_selection_costs_the_mean_and_never_more_than_its_bound(tokens, k, search_tool):
    tax = TokenTax("e", k, {str(n): t for n, t in enumerate(tokens)}, {}, search_tool)
    assert tax.total_tokens == sum(tokens)
    assert search_tool <= tax.selection_tokens <= tax.max_selection_tokens + 1
    assert tax.max_selection_tokens <= tax.total_tokens + search_tool
    assert len(tax.heaviest(k)) == min(k, len(tokens))


def test_compact_json_is_what_is_counted():
    text = definition_text("ü", "d", {"type": "object"})
    assert text == '{"name":"ü","description":"d","input_schema":{"type":"object"}}'


@pytest.mark.parametrize(("tokens", "said"), [(10, "90.0% less"), (150, "50.0% more")])
def test_savings_in_words(tokens, said):
    assert TokenTax("e", 1, {"a": 100}, {}, 0).saving_text(tokens) == said
