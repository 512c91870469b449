"""Prompts and resources that a model finds with `search_tools`, and uses with `call_tool`."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import mcp.types as types
import pytest
from mcp import Client

from shortlist import Engine, Tool
from shortlist.gateway.meta_tools.kinds_answer import better_kinds_note, find_entries
from shortlist.gateway.profiles.profile import Profile
from shortlist.gateway.relay.other_kinds import Kind, entry_of
from shortlist.gateway.upstream.skills import Skill

from .talking import both, made_gateway, running, scripted, talking, text_of

pytestmark = pytest.mark.anyio
ECHO = {"name": "echo", "description": "Says it again", "inputSchema": {"type": "object"}}


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def found(client, query, *kinds, **arguments):
    """Kind to the names in the answer of a search."""
    result = await client.call_tool("search_tools", {"query": query, "kinds": kinds, **arguments})
    rows = result.structured_content["entries"]
    assert all(row["name"] in text_of(result) for row in rows)
    return {kind: [row["name"] for row in rows if row["kind"] == kind] for kind in kinds}


async def used(client, entry, **arguments):
    return await client.call_tool("call_tool", {"name": entry, "arguments": arguments})


async def test_what_a_search_finds_is_described_and_used(tmp_path):
    made = made_gateway(tmp_path, [talking("one"), talking("my two", "newer")])
    async with running(made), both(made) as clients:
        for client in clients:
            names = await found(client, "review of the user", "prompt", "resource", server="my two")
            assert names["prompt"][0] == "prompt://my%20two/review"
            template = "shortlist://my%20two/memo://user/{name}"
            assert template in names["resource"]
            details = await client.call_tool(
                "get_tool_details", {"names": [names["prompt"][0], template, "one/add_numbers"]}
            )
            prompt, resource, tool = details.structured_content["tools"]
            assert prompt["arguments"] == [{"name": "subject", "required": True}]
            assert (resource["kind"], resource["arguments"]) == ("resource", [{"name": "name"}])
            assert tool["name"] == "one/add_numbers"
            result = await used(client, "prompt://my%20two/review", subject="cats")
            assert text_of(result) == "my two review cats"
            assert text_of(await used(client, template, name="eve")) == "my two: memo://user/eve"
            filled = template.replace("{name}", "bob")
            assert text_of(await used(client, filled)) == "my two: memo://user/bob"
            picture = (await used(client, "shortlist://one/memo://picture")).content[0]
            assert isinstance(picture, types.ImageContent)


async def test_wrong_uses_are_refused_and_say_why(tmp_path):
    made = made_gateway(tmp_path, [talking("one")])
    async with running(made), Client(made.server) as client:
        for name, arguments, reason in [
            ("prompt://one/review", {}, "subject"),
            ("prompt://one/reviews", {"subject": "x"}, "prompt://one/review"),
            ("shortlist://one/memo://user/{name}", {}, "name"),
            # A model reads what is listed. Clients read this one, whose address is in a result.
            ("shortlist://one/memo://hidden/1", {}, "unknown"),
            ("ui://one/panel", {}, "unknown"),
        ]:
            result = await used(client, name, **arguments)
            assert result.is_error
            assert reason in text_of(result)


async def test_a_client_finds_only_what_it_may_use(tmp_path):
    made = made_gateway(
        tmp_path, [talking("one"), talking("two")], Profile(servers=("two",), pass_through=0.0)
    )
    async with running(made), Client(made.server) as client:
        names = await found(client, "review note one two", "prompt", "resource", k=50)
        assert {name.split("/")[2] for kind in names.values() for name in kind} == {"two"}
        hidden = ["prompt://one/review", "shortlist://one/memo://note/1"]
        details = await client.call_tool("get_tool_details", {"names": hidden})
        assert [row["error"] for row in details.structured_content["tools"]] == ["unknown"] * 2
        for name in hidden:
            assert '"unknown"' in text_of(await used(client, name, subject="x"))


async def test_messages_name_their_roles_and_long_content_is_read_in_parts(tmp_path):
    text = {"repeat": "word ", "times": 20_000}
    answers = {
        "hi": {"result": {"messages": [message("assistant", "Hello."), message("user", "?")]}},
        "memo://long": {"result": {"contents": [{"uri": "memo://long", "text": text}]}},
    }
    resources = [{"uri": "memo://long", "name": "long"}]
    spec = scripted(
        tmp_path,
        "one",
        tools=[ECHO],
        prompts=[{"name": "hi"}],
        resources=resources,
        answers=answers,
    )
    made = made_gateway(tmp_path, [spec])
    async with running(made), Client(made.server) as client:
        parts = [part.text for part in (await used(client, "prompt://one/hi")).content]
        assert parts == ["assistant:", "Hello.", "user:", "?"]
        beginning = text_of(await used(client, "shortlist://one/memo://long"))
        result_id = beginning.partition('read_result {"id": "')[2].partition('"')[0]
        rest = await client.call_tool("read_result", {"id": result_id})
        assert "word word" in text_of(rest)


def message(role, text):
    return {"role": role, "content": {"type": "text", "text": text}}


async def test_a_search_without_kinds_is_as_before(tmp_path):
    prompts = [{"name": "say", "description": "Says it again and again"}]
    texts = []
    for folder, lists in ((tmp_path / "a", {}), (tmp_path / "b", {"prompts": prompts})):
        folder.mkdir()
        made = made_gateway(folder, [scripted(folder, "one", tools=[ECHO], **lists)])
        async with running(made), Client(made.server) as client:
            result = await client.call_tool("search_tools", {"query": "say it again"})
            texts.append((text_of(result), result.structured_content))
    assert texts[0] == texts[1]


QUERIES = Path(__file__).parents[2] / "lab/queries"
DEFINITION_TYPES = {
    "prompt": types.Prompt,
    "resource": types.Resource,
    "resource_template": types.ResourceTemplate,
    "skill": Skill,
}


def searched_form(row):
    """The kind of a row of the definitions, and what is searched of it."""
    if row["kind"] == "skill":
        row = {
            **row,
            "uri": f"skill://{row['name']}/SKILL.md",
            "files": [],
            "text": row["front_matter"],
        }
    definition = DEFINITION_TYPES[row["kind"]].model_validate(row)
    entry = entry_of(row["server"], definition)
    return str(entry.kind), entry.tool


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "count", "at_least"),
    [
        ("kinds", 43, 36),  # 15 servers: 43 when it was written, 42 of them first
        # Ten other servers: 35, and 32 of them first, measured once. Nothing was chosen on it.
        ("kinds_stranger", 40, 34),
    ],
)
def test_requests_written_from_names_find_it_in_the_first_five(name, count, at_least):
    kind_and_name, tools = {}, {}
    for row in json.loads((QUERIES / f"{name}_definitions.json").read_text()):
        kind, tool = searched_form(row)
        kind_and_name[row["id"]] = (kind, tool.id)
        tools.setdefault(kind, {})[tool.id] = tool
    engine = Engine.from_tools([])
    views = {kind: engine._sibling(rows.values()) for kind, rows in tools.items()}
    for sibling in views.values():
        sibling.wait()
    views = {kind: sibling.view() for kind, sibling in views.items()}
    hits, requests = [], (QUERIES / f"{name}_requests.jsonl").read_text().splitlines()
    for request in map(json.loads, requests):
        wanted = [kind_and_name[row_id] for row_id in request.get("tools") or [request["tool"]]]
        found = find_entries(views, [request["query"]], None, None).hits_by_kind
        kind = wanted[0][0]
        ranks = [hit.rank for hit in found[kind] if (kind, hit.id) in wanted]
        hits.append(min(ranks, default=0))
    assert len(hits) == count
    assert sum(0 < rank <= 5 for rank in hits) >= at_least


@cache
def engines():
    tools = Engine.from_tools(
        [
            Tool("list_invoices", "billing", "Lists the invoices of a customer"),
            Tool("send_mail", "mail", "Sends a mail to an address"),
        ]
    )
    prompts = tools._sibling(
        [
            Tool(
                "review_code",
                "code",
                "Reviews the code of a pull request",
                id="prompt://code/review",
            )
        ]
    )
    prompts.wait()
    return tools, prompts


@pytest.mark.parametrize(
    ("query", "note"),
    [
        ("review the code of my pull request", 'also: 1 prompt (kinds=["prompt"])'),
        ("list the invoices of this customer", ""),
        ("how tall is the tower in Paris?", ""),
    ],
)
def test_a_line_names_what_fits_better_than_the_tools(query, note):
    tools, prompts = engines()
    before = tools.search(query)
    assert better_kinds_note({Kind.PROMPT: prompts.view()}, [before]) == note
    after = tools.search(query)
    assert [(hit.id, hit.score) for hit in after] == [(hit.id, hit.score) for hit in before]
