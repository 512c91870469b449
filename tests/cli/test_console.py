"""What is printed fits the terminal, and 120 columns in a pipe."""

from __future__ import annotations

import pytest

#: An id that takes most of a narrow terminal, and a description without an end.
LONG = {
    "name": "update_the_branch_protection_of_a_repository_by_its_name",
    "server": "github_enterprise_cloud",
    "description": "Updates the branch protection. " * 60,
}
OTHER = {"name": "list_branches", "server": "git", "description": "Lists the branches. " * 60}
QUERY = "update the branch protection"


def lines_of(text: str) -> list[str]:
    return text.splitlines()


@pytest.mark.parametrize("tier", ["hybrid", "rerank"])
@pytest.mark.parametrize("width", [80, 120])
def test_a_table_of_hits_fits_the_terminal_and_loses_nothing(
    run, tools_file, reranking, monkeypatch, tier, width
):
    monkeypatch.setenv("COLUMNS", str(width))
    text = run(
        "search",
        QUERY,
        "--tools",
        tools_file(LONG, OTHER),
        "--tier",
        tier,
        "--engine-settings",
        reranking,
    ).stdout
    assert max(map(len, lines_of(text))) <= width
    assert "…" not in text
    assert all(stage in text for stage in ("lexical", "dense", "fusion"))
    assert ("rerank" in lines_of(text)[0]) == (tier == "rerank")


def test_in_a_pipe_an_id_is_one_word_and_no_line_ends_in_spaces(run, tools_file):
    long = {**LONG, "name": "a" * 64, "server": "s" * 60}
    tools = tools_file(long, OTHER)
    for arguments in (("list",), ("search", QUERY, "--tier", "lexical")):
        text = run(*arguments, "--tools", tools).stdout
        assert all(line == line.rstrip() for line in lines_of(text))
    assert f"{'s' * 60}/{'a' * 64}" in run("search", "a" * 64, "--tools", tools).stdout


def test_the_changes_of_a_definition_are_wrapped(run, tools_file, tmp_path):
    pins = tmp_path / "pins.json"
    run("trust", "init", "--tools", tools_file(OTHER), "--pins", pins)
    endless = {**OTHER, "description": " and".join([" lists the branches"] * 80)}
    text = run("trust", "diff", "--tools", tools_file(endless), "--pins", pins, code=3).stdout
    assert max(map(len, lines_of(text))) <= 120
    assert " ".join(text.split()).count("and lists the branches") == 79


def test_in_a_pipe_lines_have_120_columns(run, tools_file):
    tools = tools_file(LONG, OTHER)
    text = run("list", "--tools", tools).stdout
    assert max(map(len, lines_of(text))) <= 120
    assert (
        "github_enterprise_cloud/update_the_branch_protection_of_a_repository_by_its_name" in text
    )
    allowed = ("--allow", "git/*", "--scope", "x")
    text = run("search", QUERY, "--tools", tools, *allowed).stdout
    assert max(map(len, lines_of(text))) <= 120
