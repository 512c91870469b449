"""Long results: what is stored, who may read it, and when it goes."""

from __future__ import annotations

import mcp.types as types
import pytest
from mcp import Client, MCPError

from shortlist.errors import RequestError
from shortlist.gateway.profiles.long_results import (
    STORED_SECONDS,
    ResultLimits,
    ResultMemory,
    ResultSource,
    SessionResults,
)
from shortlist.gateway.profiles.profile import Profile

from .fake_servers import FakeServer, gateway_of, text_of, tool
from .talking import made_gateway, running, scripted

LONG = "word and " * 5_000


def result(text="", structured=None, *others) -> types.CallToolResult:
    parts = [types.TextContent(type="text", text=text)] if text else []
    return types.CallToolResult(content=[*parts, *others], structured_content=structured)


def shown(results: SessionResults, given: types.CallToolResult, **limits) -> types.CallToolResult:
    limits = ResultLimits(**{"tokens": 1_000, "media_bytes": 1_000, **limits})
    return results.shorten(given, ResultSource(("one/tool",), "permission"), limits)


def id_of(answer: types.CallToolResult) -> str:
    return text_of(answer).split('{"id": "')[1].split('"')[0]


def read(
    results: SessionResults, name: str, *part: int, find=None, readable=lambda *_: True
) -> str:
    return results.read(name, *part, text_to_find=find, max_chars=2_000, may_read=readable)


def test_a_result_within_the_limit_is_the_same_object():
    given = result("short", {"a": 1})
    assert shown(SessionResults(ResultMemory()), given) is given


HUGE = "x" * 1_000_000
_RESOURCE = {"uri": "a:b", "text": "x"}


@pytest.mark.parametrize(
    "fields",
    [
        {"content": [], "resultType": HUGE},
        {"content": [{"type": "resource", "resource": {**_RESOURCE, "mimeType": HUGE}}]},
        {"content": [{"type": "resource", "resource": {**_RESOURCE, "uri": HUGE}}]},
        {
            "content": [
                {
                    "type": "resource",
                    "resource": {"uri": HUGE, "blob": "AAAA", "mimeType": "image/png"},
                }
            ]
        },
        {
            "content": [
                {"type": "resource", "resource": {"uri": "a:b", "blob": "A", "mimeType": HUGE}}
            ]
        },
        {"content": [{"type": "resource_link", "uri": HUGE, "name": HUGE, "mimeType": HUGE}]},
    ],
)
def test_no_field_of_a_result_is_longer_than_its_limit(fields):
    given = types.CallToolResult.model_validate(fields)
    answer = shown(SessionResults(ResultMemory()), given)
    assert len(answer.model_dump_json()) < 20_000


@pytest.mark.parametrize("part", [{"text": "x"}, {"blob": "AAAA"}])
def test_no_field_of_a_resource_is_longer_than_its_limit(part):
    fields = {"uri": HUGE, "mimeType": HUGE, **part}
    given = types.ReadResourceResult.model_validate({"contents": [fields], "resultType": HUGE})
    limits = ResultLimits(tokens=1_000, media_bytes=1_000)
    source = ResultSource(("one/tool",), "permission")
    answer = SessionResults(ResultMemory()).shorten_read(given, source, limits)
    assert len(answer.model_dump_json()) < 20_000


def test_a_long_result_is_read_in_parts():
    results = SessionResults(ResultMemory())
    answer = shown(results, result(LONG))
    assert text_of(answer).startswith(LONG[:2_000])
    assert not text_of(answer).startswith(LONG[:2_001])
    name = id_of(answer)
    whole = LONG[:2_000]
    while not (part := read(results, name)).endswith("[end of the result]"):
        whole += part.rpartition("\n[")[0]
    assert whole + part.rpartition("\n[")[0] == LONG
    assert read(results, name, 10, 20).startswith(LONG[10:20] + "\n[")


def test_the_answer_says_how_many_requests_the_rest_takes_and_a_range_what_it_may_have():
    """Seen in use: a range of 40,000 silently gave 20,000 characters, a direct call 4,000."""
    results = SessionResults(ResultMemory())
    text = "".join(f"row {number}\n" for number in range(2_000))
    answer = shown(results, result(text))
    request_count = -(-(len(text) - 2_000) // 2_000)
    assert f"the rest takes {request_count} requests" in text_of(answer)
    assert "with a filter" in text_of(answer)
    part = read(results, id_of(answer), 0, 5_000)
    left = f"{len(text) - 2_000:,} characters left"
    assert part.endswith(f"[characters 0 to 2,000; an answer has at most 2,000; {left}]")


def test_a_text_is_found_in_a_long_result_with_the_lines_around_it():
    results = SessionResults(ResultMemory())
    text = "".join(f"row {number}\n" for number in range(2_000))
    name = id_of(shown(results, result(text)))
    place = text.index("row 1234")
    found = f"[at character {place:,}]\nrow 1232\nrow 1233\nrow 1234\nrow 1235\nrow 1236\n\n"
    assert read(results, name, find="ROW 1234") == f"{found}[1 place]"
    assert read(results, name, find="zebra").startswith("['zebra' is not in the ")
    many = read(results, name, find="row")
    assert many.endswith(" are above]")
    assert len(many) < 2_500
    # Where the reading goes on does not change.
    assert read(results, name).startswith(text[2_000:2_100])


def test_an_image_stays_beside_the_beginning():
    image = types.ImageContent(type="image", data="aGk=", mime_type="image/png")
    answer = shown(SessionResults(ResultMemory()), result(LONG, None, image))
    assert answer.content[-1] == image


@pytest.mark.parametrize("text", ["", "see the structured form"])
def test_a_long_structured_form_is_stored_too(text):
    results = SessionResults(ResultMemory())
    answer = shown(results, result(text, {"rows": ["word"] * 5_000}))
    assert answer.structured_content is None
    assert "keys: rows" in text_of(answer)
    assert '"rows"' in read(results, id_of(answer), 0, 60)


def test_a_tool_may_allow_its_results_more_characters_or_fewer():
    results = SessionResults(ResultMemory())
    given = result(LONG)
    assert shown(results, given, chars=len(LONG)) is given
    assert shown(results, given, chars=len(LONG) - 1) is not given


def test_results_go_after_an_hour_and_with_their_session():
    now = [0.0]
    store = ResultMemory(clock=lambda: now[0])
    first, second = SessionResults(store), SessionResults(store)
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
    store = ResultMemory(max_chars=100_000)
    names = []
    for _ in range(50):
        results = SessionResults(store)
        names.append((results, id_of(shown(results, result(LONG)))))
        assert store.chars <= 100_000
    with pytest.raises(RequestError):
        read(*names[0])
    assert read(*names[-1])
    huge = SessionResults(store)
    name = id_of(shown(huge, result("x " * 200_000)))
    assert store.chars <= 100_000
    assert read(huge, name)


MEGABYTES = {"repeat": "word and ", "times": 300_000}
SPACES = {"repeat": " ", "times": 3_000_000}
NOTE = {"type": "text", "text": "short"}
LINK = {"type": "resource_link", "name": "a", "uri": "memo://1"}
#: Results with more text than a result may have, in every place that holds text.
LONG_ANSWERS = {
    "error": {"error": {"code": -32603, "message": {"repeat": "word and ", "times": 2_200_000}}},
    "data": {"error": {"code": -32603, "message": "x", "data": {"text": MEGABYTES}}},
    "error_result": {"content": [{"type": "text", "text": MEGABYTES}], "isError": True},
    "spaces": {"content": [{"type": "text", "text": SPACES}]},
    "texts": {"content": [{"type": "text", "text": "a"}] * 20_000},
    "links": {"content": [LINK] * 20_000},
    "link": {"content": [LINK | {"description": MEGABYTES}]},
    "embedded": {
        "content": [{"type": "resource", "resource": {"uri": "memo://1", "text": MEGABYTES}}]
    },
    "blob": {"content": [{"type": "resource", "resource": {"uri": "memo://1", "blob": MEGABYTES}}]},
    "address": {"content": [{"type": "resource", "resource": {"uri": MEGABYTES, "text": ""}}]},
    "structured": {"content": [NOTE], "structuredContent": {"rows": MEGABYTES}},
    "meta": {"content": [NOTE], "_meta": {"a": MEGABYTES}},
    "part_meta": {"content": [NOTE | {"_meta": {"a": MEGABYTES}}]},
    "annotations": {"content": [NOTE | {"annotations": {"lastModified": MEGABYTES}}]},
    "image_type": {"content": [{"type": "image", "data": "aGk=", "mimeType": MEGABYTES}]},
    "image": {
        "content": [
            {"type": "image", "data": {"repeat": "a", "times": 16_000_000}, "mimeType": "image/png"}
        ]
    },
    "images": {
        "content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}] * 20_000,
    },
}
#: Most characters of an answer with a limit of 1,000 tokens. A stored text shows 4,000.
ANSWER_CHARS = 12_000


def as_answer(row: dict) -> dict:
    return row if "error" in row else {"result": row}


@pytest.fixture
async def long_answers(tmp_path):
    """A client of a gateway over a server whose answers are all too long."""
    reads = {
        "memo://text": {"contents": [{"uri": "memo://text", "text": MEGABYTES}]},
        "memo://texts": {"contents": [{"uri": "memo://texts", "text": "a"}] * 20_000},
        "memo://meta": {"contents": [{"uri": "memo://m", "text": "a", "_meta": {"a": MEGABYTES}}]},
        "memo://blob": {
            "contents": [{"uri": "memo://blob", "blob": {"repeat": "a", "times": 16_000_000}}]
        },
    }
    said = {"role": "user", "content": {"type": "text", "text": MEGABYTES}}
    prompts = {
        "prompt": {"messages": [said]},
        "described": {"messages": [], "description": MEGABYTES},
        "metas": {"messages": [], "_meta": {"a": MEGABYTES}},
    }
    picture = {
        "type": "image",
        "data": {"repeat": "a", "times": 6_700_000},
        "mimeType": "image/png",
    }
    others = {"screenshot": {"content": [NOTE, picture]}}
    others["memo://error"] = LONG_ANSWERS["error"]
    answers = {**LONG_ANSWERS, **reads, **prompts, **others}
    spec = scripted(
        tmp_path,
        "one",
        tools=[{"name": name, "inputSchema": {}} for name in (*LONG_ANSWERS, *others)],
        resources=[{"uri": uri, "name": "a"} for uri in reads],
        prompts=[{"name": name} for name in prompts],
        answers={name: as_answer(row) for name, row in answers.items()},
    )
    profile = Profile(pass_through=0.0, result_tokens=1_000)
    made = made_gateway(tmp_path, [spec], profile)
    async with running(made), Client(made.server) as client:
        yield client, made, reads, prompts


@pytest.mark.anyio
async def test_no_answer_has_more_text_than_the_limit(long_answers):
    client, _, reads, prompts = long_answers
    for name in LONG_ANSWERS:
        answer = await client.call_tool("call_tool", {"name": f"one/{name}"})
        assert len(answer.model_dump_json()) < ANSWER_CHARS, name
        assert answer.is_error == name.startswith(("error", "data"))
    for uri in reads:
        answer = await client.read_resource(f"shortlist://one/{uri}")
        assert len(answer.model_dump_json()) < ANSWER_CHARS, uri
    for name in prompts:
        answer = await client.get_prompt(f"one__{name}")
        assert len(answer.model_dump_json()) < ANSWER_CHARS, name
    with pytest.raises(MCPError) as caught:
        await client.read_resource("shortlist://one/memo://error")
    assert len(str(caught.value)) < ANSWER_CHARS


@pytest.mark.anyio
async def test_what_is_left_out_can_be_read_or_is_named(long_answers):
    client, made, _, _ = long_answers
    whole = "word and " * 300_000
    read = await client.read_resource("shortlist://one/memo://text")
    prompt = await client.get_prompt("one__prompt")
    texts = [read.contents[0].text, "".join(message.content.text for message in prompt.messages)]
    for text in texts:
        name = text.split('{"id": "')[1].split('"')[0]
        assert f"{len(whole):,} characters" in text
        part = await client.call_tool("read_result", {"id": name, "range": [10, 50]})
        assert text_of(part).startswith(whole[10:50])
    screenshot = await client.call_tool("call_tool", {"name": "one/screenshot"})
    assert len(screenshot.content[1].data) == 6_700_000
    image = await client.call_tool("call_tool", {"name": "one/image"})
    assert "1 image or sound is left out: the limit of the gateway is 10,000,000 bytes" in (
        text_of(image)
    )
    images = await client.call_tool("call_tool", {"name": "one/images"})
    assert "[19,001 more images or sounds are left out]" in text_of(images)
    assert "899 images or sounds are left out" in text_of(images)
    # What was stored of a server goes with the permission for the server.
    made.sessions.replace_profiles(Profile(pass_through=0.0, servers=("two",)), {})
    assert (await client.call_tool("read_result", {"id": name})).is_error


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
        made.sessions.replace_profiles(Profile(pass_through=0.0, rules=rules), {})
        assert (await client.call_tool("read_result", {"id": name})).is_error


@pytest.fixture
def anyio_backend():
    return "asyncio"
