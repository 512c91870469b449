from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.catalog import Tool
from shortlist.loaders.summary import SUMMARY_TOKENS, adds_nothing, bounded, summarize


def schema(*optional: str, required: tuple[str, ...] = ()) -> dict:
    names = {name: {"type": "string"} for name in (*required, *optional)}
    return {"type": "object", "properties": names, "required": list(required)}


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        (
            Tool("search_issues", "github", "Search GitHub issues.",
                 schema("label", "assignee", "page", "per_page")),
            "Search GitHub issues by assignee and label",
        ),
        (
            Tool("t", "s", "This tool allows you to retrieve the weather. Call it first."),
            "Retrieve the weather",
        ),
        (
            Tool("t", "s", "Use this tool when you need to convert a file\n\nArgs:\n  path: where"),
            "Convert a file",
        ),
        (Tool("t", "s", "A tool for searching the docs"), "Search the docs"),
        (Tool("t", "s", "**Retrieves** and lists [pages](http://x.y/z) (slow)."),
         "Retrieve and list pages"),
        (Tool("get_categories", "s", "LinkedIn categories of a report"),
         "LinkedIn categories of a report"),
        (Tool("get_weather", "s", "The weather of a city"), "Get the weather of a city"),
        (Tool("t", "s", "```\ncode\n```\nCreates a page, e.g. a blog post. More."),
         "Create a page, e.g. a blog post"),
        (Tool("t", "s", "Always call this first. Deletes one record for good."),
         "Delete one record for good"),
        (Tool("get_weather", "s", ""), "Get weather"),
        (Tool("get_weather", "s", "", schema(required=("latitude", "longitude"))),
         "Get weather by latitude and longitude"),
        (Tool("x", "s", "获取当前时间信息。更多文字"), "获取当前时间信息"),
        (Tool("git_branch", "git", "List Git branches", schema("contains", "not_contains")),
         "List Git branches"),
        (Tool("handle_dialog", "web", "Handle a dialog", schema("accept")), "Handle a dialog"),
        (Tool("find", "s", "Gathers, analyzes, and synthesizes information"),
         "Gather, analyze, and synthesize information"),
        (Tool("tabs", "s", "Creates, closes or selects a tab"), "Create, close or select a tab"),
        (Tool("fetch", "s", "Fetches a page and optionally extracts its text"),
         "Fetch a page and optionally extract its text"),
        (Tool("list_changes", "s", "Lists issues and updates of a board"),
         "List issues and updates of a board"),
        (Tool("read_file", "s", "Read a file and return its contents", schema("encoding")),
         "Read a file and return its contents"),
        (Tool("search_code", "s", "Search for code", schema("q", "element")), "Search for code"),
    ],
)  # fmt: skip
def test_summaries_are_shaped_like_requests(tool, said):
    assert summarize(tool) == said


def test_a_long_sentence_is_cut_at_a_clause():
    description = (
        "Lists the runs of the workflows of a repository with their status and conclusion, which "
        "takes a while for large ones because all pages are fetched one after the other"
    )
    said = summarize(Tool("list_runs", "ci", description))
    assert said == (
        "List the runs of the workflows of a repository with their status and conclusion"
    )


def test_of_the_demo_they_are_short_and_different(demo, counter):
    lines = [summarize(tool) for tool in demo]
    counts = counter.count_many(lines)
    assert sum(counts) / len(counts) < 20
    assert max(counts) <= 40
    assert len({(tool.server, line) for tool, line in zip(demo, lines, strict=True)}) == 120


@pytest.mark.parametrize(
    ("summary", "name", "nothing"),
    [
        ("Create a pull request", "create_pull_request", True),
        ("Create pull requests", "createPullRequest", True),
        ("Create a draft pull request", "create_pull_request", False),
    ],
)
def test_what_repeats_the_name_adds_nothing(summary, name, nothing):
    assert adds_nothing(summary, name) is nothing


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_whatever_the_tool_its_summary_is_one_bounded_line(tools, counter, data):
    line = summarize(data.draw(tools))
    assert line
    assert "\n" not in line
    assert line == line.strip()
    assert counter.count(line) <= SUMMARY_TOKENS


@settings(max_examples=150, deadline=None)
@given(text=st.text(max_size=2_000) | st.text(alphabet="a界\u200b \n😀", max_size=2_000))
def test_any_text_is_bounded_and_bounding_twice_changes_nothing(counter, text):
    line = bounded(text)
    assert counter.count(line) <= SUMMARY_TOKENS
    assert "\n" not in line
    assert bounded(line) == line
