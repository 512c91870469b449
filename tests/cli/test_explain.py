from __future__ import annotations

QUERY = "schedule a message for tomorrow"


def test_an_offered_tool(run, run_json, index):
    found = run_json("explain", QUERY, "slack/schedule_message", "--index", index)
    assert found["offered"] is True
    assert found["rank"] <= 10
    assert {"lexical", "dense", "fusion"} <= set(found["stages"])
    text = run("explain", QUERY, "slack/schedule_message", "--index", index).stdout
    assert text.startswith("slack/schedule_message in tier hybrid, 10 tools offered\n")
    assert found["reason"] in text
    assert f"{found['stages']['dense']['rank']} of 120" in text


def test_a_tool_that_is_not_offered_is_no_error(run, run_json, index):
    arguments = ("explain", QUERY, "jira/rank_issues", "--index", index, "-k", 1)
    found = run_json(*arguments)
    assert found["offered"] is False
    assert found["k"] == 1
    assert "1 tool offered" in run(*arguments).stdout


def test_a_tool_no_stage_matches(run, run_json, index):
    arguments = ("explain", "zzz", "jira/rank_issues", "--index", index, "--tier", "lexical")
    found = run_json(*arguments)
    assert found["rank"] is None
    assert found["stages"] == {"lexical": None}
    assert "no match" in run(*arguments).stdout


def test_a_tool_that_may_not_be_used(run, index):
    arguments = ("explain", QUERY, "slack/schedule_message", "--index", index)
    assert "denied: " in run(*arguments, "--allow", "slack/post_message").stdout


def test_a_bare_name_is_enough_where_one_tool_has_it(run_json, index):
    found = run_json("explain", QUERY, "schedule_message", "--index", index)
    assert found == run_json("explain", QUERY, "slack/schedule_message", "--index", index)
    assert found["tool"] == "slack/schedule_message"


def test_a_bare_name_does_not_tell_whose_denied_tool_it_is(run_json, index):
    allow = ("--allow", "github/*")
    found = run_json("explain", QUERY, "schedule_message", "--index", index, *allow)
    assert found["tool"] == found["refusal"]["tool"] == "schedule_message"
