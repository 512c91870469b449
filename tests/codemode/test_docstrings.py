"""What docstrings of stubs say, and what they leave out because the signature says it."""

from __future__ import annotations

import pytest

from shortlist import Catalog, Tool
from shortlist.codemode.script_names import ToolNames
from shortlist.codemode.stubs import STUB_IMPORTS, Stubs


def shown(*tools: Tool) -> str:
    return Stubs(tools, ToolNames(Catalog(tools))).text().removeprefix(STUB_IMPORTS).strip()


def made(name: str = "get_issue", **arguments: str | dict) -> Tool:
    fields = {
        key: {"type": "string"} | (one if isinstance(one, dict) else {"description": one})
        for key, one in arguments.items()
    }
    return Tool(name, "srv", "Does it.", {"type": "object", "properties": fields})


@pytest.mark.parametrize(
    ("argument", "line"),
    [
        ({"title": "The title of the issue"}, None),
        ({"issueTitle": "Title of the issues to get"}, None),
        ({"title": "A string: the title that it does"}, None),
        ({"title": "Title in Markdown"}, "title: Title in Markdown"),
        ({"title": "(Optional) Text in Markdown. Not more."}, "title: Text in Markdown"),
        ({"title": "A word, e.g. 'bug'. Nothing else"}, "title: A word, e.g. 'bug'"),
        (
            {"page": {"description": "Page of results, from 1 (default: 1)", "default": "1"}},
            "page: Page of results, from 1",
        ),
        ({"page": {"description": "Pages; defaults to all", "default": "1"}}, "page: Pages; def"),
        ({"title": "Words " * 40 + "(more"}, "title: Words Words"),
        ({"issue-title": "A heading"}, "issue-title: A heading"),
        ({"from": "A day"}, "from: A day"),
        ({"issue\ntitle": "A heading"}, "issue_title: sent as 'issue title'. A heading"),
        ({"issue-title": ""}, "issue_title: sent as 'issue-title'."),
    ],
)
def test_an_argument_is_described_where_its_name_does_not_say_enough(argument, line):
    lines = [one.strip(' "') for one in shown(made(**argument)).splitlines()[2:-2]]
    assert [one for one in lines if ": " in one and "async def" not in one] == (
        [] if line is None else [one for one in lines if one.startswith(line)]
    )
    assert line is None or any(one.startswith(line) for one in lines)


def test_what_two_functions_say_is_said_once_and_exceptions_stay():
    owner = {"owner": "User or organization"}
    tools = [made(f"do{at}", **owner) for at in range(3)]
    text = shown(*tools, made("other", owner="An address of mail"), made("more", owner=""))
    assert text.count("User or organization") == 1
    assert '"""Arguments, unless a function says otherwise:\n    owner: User or' in text
    assert text.count("owner: An address of mail") == 1
    assert "Arguments, unless" in shown(*tools[:2])
    assert "Arguments, unless" not in shown(tools[0])


def test_what_few_of_many_functions_say_is_not_said_for_all():
    named = [made(f"do{at}", key="A bucket") for at in range(3)]
    others = [made(f"other{at}", key="") for at in range(4)]
    assert shown(*named, *others).count("A bucket") == 3


def test_hyphens_are_said_once_where_all_names_have_them():
    text = shown(made("get-issue"), made("list-issues"), made("search"))
    assert '"""Tools have - in place of _ in their names."""' in text
    assert "(tool:" not in text
    for others in ((made("get-issue"),), (made("get-issue"), made("a-b"), made("get_all"))):
        text = shown(*others)
        assert "(tool: get-issue)" in text
        assert "in place of" not in text


def test_a_text_is_cut_between_words():
    said = shown(made(title="Some 10 words " * 20))
    assert " words Some 10..." in said or " Some 10 words..." in said or " 10 words Some..." in said


def test_what_a_description_says_about_how_to_call_stays():
    """Seen in use: paths must be absolute, said the description, and the stub did not."""
    about = "Reads a sheet and gives its rows as lists of values, with formulas and styles. "
    description = (
        f"{about * 2}The path must be absolute. Rows are numbered from the top. "
        "Give sheet_name as it is written on the tab.\n\nArgs:\n"
        "    file (str): Absolute path of the workbook, with its ending\n"
    )
    properties = {"file": {"type": "string"}, "sheet_name": {"type": "string"}}
    tool = Tool("read", "excel", description, {"type": "object", "properties": properties})
    text = shown(tool)
    assert "The path must be absolute. Give sheet_name as it is written on the tab." in text
    assert "Rows are numbered" not in text
    assert "file: Absolute path of the workbook, with its ending" in text
