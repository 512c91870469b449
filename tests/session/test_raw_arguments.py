"""Arguments as providers send them: objects, texts, empty texts, and JSON that was cut off."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist import Engine

WHOLE = json.dumps({"id": "7", "count": 2})


@pytest.fixture
def tool_id() -> str:
    return "mail/list_message"


@pytest.mark.parametrize("arguments", [{"id": "7", "count": 2}, WHOLE, f" {WHOLE}\n"])
def test_an_object_and_its_text_pass(engine: Engine, tool_id: str, arguments: object) -> None:
    assert engine.view().check(tool_id, arguments).arguments == {"id": "7", "count": 2}
    session = engine.session("openai")
    session.turn("list mail messages")
    verdict = session.check(tool_id, arguments)
    assert verdict.passed
    assert verdict.arguments == {"id": "7", "count": 2}


@pytest.mark.parametrize("arguments", [None, "", "  ", "null", "{}", {}])
def test_no_arguments_in_any_form_are_an_empty_object(
    engine: Engine, tool_id: str, arguments: object
) -> None:
    verdict = engine.view().check(tool_id, arguments)
    assert [str(problem) for problem in verdict.problems] == [
        "/id: expected string (required), got nothing"
    ]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ('{"id": "7', 'a complete JSON object, closed with }, got text cut off after "{'),
        ('{"id": "7", ', "a complete JSON object, closed with }, got text cut off after"),
        ("{id: 7}", "a JSON object, got text that is not JSON at character 2"),
        ("list all", "a JSON object, got text that is not JSON at character 1"),
        ('{"count": NaN}', "a JSON object, got text that cannot be read as JSON: NaN"),
        ("[" * 100_000, "a JSON object, got text that cannot be read as JSON"),
        ('{"count": ' + "9" * 5_000 + "}", "a JSON object, got text that cannot be read as JSON"),
        ('["7"]', 'an object, got ["7"]'),
        ('"7"', 'an object, got "7"'),
        (7, "an object, got 7"),
        (b"{}", "an object, got "),
    ],
)
def test_what_is_no_object_is_invalid_and_says_what_mends_it(
    engine: Engine, tool_id: str, arguments: object, problem: str
) -> None:
    session = engine.session("openai")
    session.turn("list mail messages")
    assert session.check(tool_id, {"id": "7"}).passed
    verdict = session.check(tool_id, arguments)
    assert verdict.status == "invalid"
    assert str(verdict.problems[0]).startswith(f"arguments: expected {problem}")
    assert json.loads(verdict.text)["error"] == "invalid_arguments"


def test_line_breaks_inside_a_text_are_read(engine: Engine, tool_id: str) -> None:
    assert engine.view().check(tool_id, '{"id": "two\nlines"}').arguments == {"id": "two\nlines"}


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": "mail/list_message", "arguments": {"id": "7"}},
        '{"name": "mail/list_message", "arguments": {"id": "7"}}',
        {"name": "mail/list_message", "arguments": '{"id": "7"}'},
    ],
)
def test_the_inner_call_of_call_tool_in_any_form(engine: Engine, arguments: object) -> None:
    session = engine.session("openai", must_offer=False)
    session.turn("list mail messages")
    verdict = session.check("call_tool", arguments)
    assert verdict.passed
    assert (verdict.tool.id, verdict.arguments) == ("mail/list_message", {"id": "7"})


@pytest.mark.parametrize(
    ("arguments", "path"),
    [('{"name": "mail/list_mess', ""), ("", "/name"), ({"name": 7}, "/name"), ([], "")],
)
def test_a_call_of_call_tool_without_a_tool_is_invalid(
    engine: Engine, arguments: object, path: str
) -> None:
    session = engine.session("openai")
    session.turn("list mail messages")
    verdict = session.check("call_tool", arguments)
    assert (verdict.status, verdict.problems[0].path) == ("invalid", path)
    assert json.loads(verdict.text)["tool"] == "call_tool"


@given(st.one_of(st.text(), st.integers(0, len(WHOLE)).map(lambda end: WHOLE[:end])))
def test_no_text_raises(text: str) -> None:
    verdict = _ENGINE.view().check("mail/list_message", text)
    assert verdict.status in ("passed", "invalid")


def _engine() -> Engine:
    from .conftest import make_engine

    return make_engine()


_ENGINE = _engine()
