from __future__ import annotations

import pytest

QUERY = "schedule a message for tomorrow"
TOOL = "slack/schedule_message"


@pytest.mark.parametrize("tier", ["lexical", "fast", "embed", "hybrid"])
def test_json_names_the_tier_the_times_and_every_stage(run_json, index, tier):
    found = run_json("search", QUERY, "--index", index, "--tier", tier, "-k", 3)
    assert set(found) >= {"query", "tier", "tier_asked", "tier_reason", "timings", "total_ms"}
    assert found["tier_asked"] == tier
    assert (found["tier"] == tier) == (found["tier_reason"] is None)
    assert [hit["rank"] for hit in found["hits"]] == [1, 2, 3]
    assert TOOL in [hit["id"] for hit in found["hits"]]
    for hit in found["hits"]:
        assert hit["stages"]
        assert all(place["rank"] >= 1 for place in hit["stages"].values())
    assert found["total_ms"] >= sum(found["timings"].values()) > 0


def test_the_table_shows_ranks_scores_stages_and_times(run, run_json, index):
    text = run("search", QUERY, "--index", index, "-k", 2).stdout
    hits = run_json("search", QUERY, "--index", index, "-k", 2)["hits"]
    lines = text.splitlines()
    head = lines[0].split()
    assert head[:3] == ["#", "tool", "score"]
    assert {"lexical", "dense", "fusion"} <= set(head)
    for line, hit in zip(lines[2:4], hits, strict=True):
        cells = dict(zip(head, line.split(), strict=True))
        assert cells["#"] == str(hit["rank"])
        assert cells["tool"] == hit["id"]
        assert float(cells["score"]) == pytest.approx(hit["score"], rel=1e-3)
        for stage in head[3:]:
            place = hit["stages"].get(stage)
            assert cells[stage] == ("–" if place is None else str(place["rank"]))
    assert lines[4].startswith("hybrid over 120 tools in ")
    assert "encode" in lines[4]


def test_files_are_searched_like_an_index_of_them(run_json, index, servers):
    arguments = ("search", QUERY, "--tier", "lexical")
    from_index = run_json(*arguments, "--index", index)
    files = (argument for path in sorted(servers.glob("*.json")) for argument in ("--tools", path))
    from_files = run_json(*arguments, *files)
    for found in (from_index, from_files):
        del found["timings"], found["total_ms"]
    assert from_files == from_index
    assert run_json(*arguments, "--tools", servers)["hits"] == from_index["hits"]


def test_one_tier_over_files_builds_no_more_than_it_needs(run_json, servers, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("an encoder was loaded")

    monkeypatch.setattr("shortlist.indexing.stage_models.load_encoder", refuse)
    assert run_json("search", QUERY, "--tools", servers, "--tier", "lexical")["hits"]
    with pytest.raises(AssertionError, match="an encoder was loaded"):
        run_json("search", QUERY, "--tools", servers, "--tier", "embed")


def test_an_empty_query_is_refused(run, index):
    for command in (("search", " "), ("explain", " ", TOOL)):
        refused = run(*command, "--index", index, code=1)
        assert "query: is empty; pass what the user asked for" in refused.output


def test_only_allowed_tools_are_returned_and_unknown_ones_are_told(run, run_json, index):
    found = run_json(
        "search", QUERY, "--index", index, "--allow", "slack/post_message", "--allow", "slack/nope"
    )
    assert [hit["id"] for hit in found["hits"]] == ["slack/post_message"]
    result = run("search", QUERY, "--index", index, "--allow", "slack/nope")
    assert result.stdout.startswith("no tool found")
    assert result.stderr == "note: --allow: not in the catalog: slack/nope\n"


def test_a_tier_that_does_not_fit_the_time_is_replaced_and_said_so(run, run_json, index, servers):
    for source in (("--index", index), ("--tools", servers / "slack.json")):
        arguments = ("search", QUERY, *source, "--tier", "hybrid", "--budget-ms", "0.001")
        found = run_json(*arguments)
        assert found["tier"] == "lexical"
        assert found["tier_asked"] == "hybrid"
        assert found["hits"]
        text = run(*arguments).stdout
        assert "asked for hybrid, ran lexical: " in text
        assert found["tier_reason"].partition(":")[0] in text


def test_without_a_reranker_the_tier_rerank_says_what_line_to_add(
    run, run_json, index, servers, reranking
):
    for source in (("--index", index), ("--tools", servers / "slack.json")):
        arguments = ("search", QUERY, *source, "--tier", "rerank")
        refused = " ".join(run(*arguments, code=2).stderr.split())
        assert 'reranker = "mixedbread-ai/mxbai-rerank-xsmall-v1"' in refused
        assert "pip install '.[hub]'" in refused
        found = run_json(*arguments, "--engine-settings", reranking)
        assert (found["tier"], found["tier_reason"]) == ("rerank", None)
        assert all("rerank" in hit["stages"] for hit in found["hits"])


def test_a_config_changes_the_answer(run_json, index, tmp_path):
    config = tmp_path / "config.toml"
    config.write_text('k = 2\ndefault_tier = "lexical"\n', encoding="utf-8")
    found = run_json("search", QUERY, "--index", index, "--engine-settings", config)
    assert found["tier"] == "lexical"
    assert len(found["hits"]) == 2


@pytest.mark.parametrize("query", ["\x1b[31m[red]{}%s", "x" * 100_000, "🦆 AND (("])
def test_any_request_is_answered(run, index, query):
    assert "\x1b[31m" not in run("search", query, "--index", index).stdout


def test_the_exact_name_wins(run_json, index):
    for tier in ("lexical", "fast", "embed", "hybrid"):
        hits = run_json("search", "jira/rank_issues", "--index", index, "--tier", tier)["hits"]
        assert hits[0]["id"] == "jira/rank_issues"
        assert hits[0]["stages"]["exact"]["rank"] == 1
