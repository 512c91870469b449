"""Long results: what is stored, who may read it, and when it goes."""

from __future__ import annotations

import mcp.types as types
import pytest

from shortlist.errors import RequestError
from shortlist.gateway.profiles.long_results import STORED_SECONDS, Results, ResultStore
from shortlist.gateway.profiles.profile import Profile

from .fake_servers import FakeServer, gateway_of, text_of, tool

LONG = "word and " * 5_000


def result(text="", structured=None, *others) -> types.CallToolResult:
    parts = [types.TextContent(type="text", text=text)] if text else []
    return types.CallToolResult(content=[*parts, *others], structured_content=structured)


def shown(results: Results, given: types.CallToolResult, **limits) -> types.CallToolResult:
    return results.shorten(given, "one/tool", "permission", **{"tokens": 1_000, **limits})


def id_of(answer: types.CallToolResult) -> str:
    return text_of(answer).split('{"id": "')[1].split('"')[0]


def read(results: Results, name: str, *part: int, readable=lambda *_: True) -> str:
    return results.read(name, *part, readable=readable)


def test_a_result_within_the_limit_is_the_same_object():
    given = result("short", {"a": 1})
    assert shown(Results(ResultStore()), given) is given


def test_a_long_result_is_read_in_parts():
    results = Results(ResultStore())
    answer = shown(results, result(LONG))
    assert text_of(answer).startswith(LONG[:4_000])
    name = id_of(answer)
    whole = LONG[:4_000]
    while not (part := read(results, name)).endswith("[end of the result]"):
        whole += part.rpartition("\n[")[0]
    assert whole + part.rpartition("\n[")[0] == LONG
    assert read(results, name, 10, 20).startswith(LONG[10:20] + "\n[")


def test_an_image_stays_beside_the_beginning():
    image = types.ImageContent(type="image", data="aGk=", mime_type="image/png")
    answer = shown(Results(ResultStore()), result(LONG, None, image))
    assert answer.content[-1] == image


@pytest.mark.parametrize("text", ["", "see the structured form"])
def test_a_long_structured_form_is_stored_too(text):
    results = Results(ResultStore())
    answer = shown(results, result(text, {"rows": ["word"] * 5_000}))
    assert answer.structured_content is None
    assert "keys: rows" in text_of(answer)
    assert '"rows"' in read(results, id_of(answer), 0, 60)


def test_a_tool_may_allow_its_results_more_characters_or_fewer():
    results = Results(ResultStore())
    given = result(LONG)
    assert shown(results, given, chars=len(LONG)) is given
    assert shown(results, given, chars=len(LONG) - 1) is not given


def test_results_go_after_an_hour_and_with_their_session():
    now = [0.0]
    store = ResultStore(clock=lambda: now[0])
    first, second = Results(store), Results(store)
    mine, other = id_of(shown(first, result(LONG))), id_of(shown(second, result(LONG)))
    with pytest.raises(RequestError, match="no result"):
        read(second, mine)
    with pytest.raises(RequestError, match="no result"):
        read(first, mine, readable=lambda *_: False)
    first.clear()
    with pytest.raises(RequestError):
        read(first, mine)
    assert read(second, other)
    now[0] = STORED_SECONDS + 1
    with pytest.raises(RequestError):
        read(second, other)
    assert store.chars == 0


def test_memory_is_bounded_over_all_sessions():
    store = ResultStore(most_chars=100_000)
    names = []
    for _ in range(50):
        results = Results(store)
        names.append((results, id_of(shown(results, result(LONG)))))
        assert store.chars <= 100_000
    with pytest.raises(RequestError):
        read(*names[0])
    assert read(*names[-1])
    huge = Results(store)
    name = id_of(shown(huge, result("x " * 200_000)))
    assert store.chars <= 100_000
    assert read(huge, name)


@pytest.mark.anyio
async def test_one_shot_tools_give_results_that_can_be_read(tmp_path):
    """A rule that a call itself breaks does not take its result away; another profile does."""
    from shortlist.gating import Gate, Rule, after, not_

    rules = Gate([Rule(not_(after("one/once")), tools="one/once")])
    profile = Profile(pass_through=0.0, result_tokens=100, rules=rules)
    server = FakeServer("one", [tool("once")], answer=lambda *_: LONG)
    async with gateway_of(tmp_path, server, profile=profile) as (client, made):
        name = id_of(await client.call_tool("call_tool", {"name": "one/once"}))
        assert (await client.call_tool("call_tool", {"name": "one/once"})).is_error
        assert not (await client.call_tool("read_result", {"id": name})).is_error
        made.sessions.change(Profile(pass_through=0.0, rules=rules), {})
        assert (await client.call_tool("read_result", {"id": name})).is_error


@pytest.fixture
def anyio_backend():
    return "asyncio"
