from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.catalog import Tool
from shortlist.errors import SummaryError
from shortlist.loaders.summaries import (
    SUMMARY_TOKENS,
    Summaries,
    SummaryRow,
    bounded_summary,
    read_rows,
    repeats_name,
    summarize,
)

ISSUE = Tool("create_issue", "github", "Open an issue.")


@pytest.mark.parametrize(
    ("description", "said"),
    [
        ("Search GitHub issues. Slow.", "Search GitHub issues"),
        ("Always call this first. Deletes one record for good.", "Deletes one record for good"),
        ("# Search Tool\n\nSearches issues.", "Searches issues"),
        ("## Search all issues", "Search all issues"),
        ("Overview\n\nSearches issues.", "Searches issues"),
        ("**Retrieves** and lists [pages](http://x.y/z) (slow).", "Retrieves and lists pages"),
        ("```\ncode\n```\nCreates a page, e.g. a blog post.", "Creates a page, e.g. a blog post"),
        ("Convert a file\n\nArgs:\n  path: where", "Convert a file"),
        ("获取当前时间信息。更多文字", "获取当前时间信息"),
        ("", "get weather"),
        ("Weather", "get weather"),
        ("When the user asks for it, use this tool.", "get weather"),
    ],
)
def test_a_summary_is_the_first_useful_sentence(description, said):
    assert summarize(Tool("get_weather", "s", description)) == said


def test_a_long_sentence_is_cut_at_a_clause():
    description = (
        "Lists the runs of the workflows of a repository with their status and conclusion, which "
        "takes a while for large ones because all pages are fetched one after the other"
    )
    said = summarize(Tool("list_runs", "ci", description))
    assert said == (
        "Lists the runs of the workflows of a repository with their status and conclusion"
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
    assert repeats_name(summary, name) is nothing


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
    line = bounded_summary(text)
    assert counter.count(line) <= SUMMARY_TOKENS
    assert "\n" not in line
    assert bounded_summary(line) == line


def test_a_row_with_a_fingerprint_is_used_for_its_definition_alone():
    kept = Summaries([SummaryRow(ISSUE.id, ISSUE.fingerprint, "File a bug report")])
    changed = Tool("create_issue", "github", "Open an issue, or close one.")
    assert kept.of(ISSUE) == "File a bug report"
    assert kept.of(changed) == summarize(changed)


def test_a_row_without_a_fingerprint_is_used_for_its_id_whatever_the_definition():
    rows = [
        SummaryRow(ISSUE.id, None, "By hand\nand\u200b cleaned"),
        SummaryRow(ISSUE.id, ISSUE.fingerprint, "Of this definition"),
    ]
    assert Summaries(rows).of(ISSUE) == "By hand and cleaned"


def test_files_of_both_kinds_are_read(tmp_path):
    rows, by_id = tmp_path / "rows.jsonl", tmp_path / "hand.json"
    row = SummaryRow(ISSUE.id, ISSUE.fingerprint, "File a bug report")
    rows.write_text(json.dumps(row._asdict()) + "\n\n", encoding="utf-8")
    by_id.write_text(json.dumps({"other/tool": "By hand"}), encoding="utf-8")
    assert list(read_rows(rows)) == [row]
    read = Summaries.read(rows, by_id)
    assert read.of(ISSUE) == "File a bug report"
    assert read.of(Tool("tool", "other")) == "By hand"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"id": 3, "summary": "x"}\n', ":1: must be an object.* both text"),
        ('{"id": "a", "summary": "x"}\n{"id": "a"}\n', ":2: must be an object"),
        ('{"id": "a", "summary": "x"}\n{"id": "cut o', ":2: must be an object"),
        ("nonsense\n", ":1: must be an object"),
        ('{"a": 1}', ": 'a': must be an object"),
        ('{"id": "a", "summary": "x", "fingerprint": 3}\n', "fingerprint"),
    ],
)
def test_a_bad_file_says_where(tmp_path, text, said):
    path = tmp_path / "bad.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SummaryError, match=said):
        Summaries.read(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(SummaryError, match="cannot be read"):
        Summaries.read(tmp_path / "none.jsonl")
