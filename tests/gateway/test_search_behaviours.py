"""What users of search transforms rely on, held for the gateway's meta-tools.

Where the gateway differs on purpose, the test says so, and `docs/clients.md` says why.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest

from shortlist.gateway.meta_tools.meta_tool_definitions import META_TOOL_NAMES
from shortlist.gateway.profiles.gateway_settings import GatewaySettings
from shortlist.gateway.profiles.profile import Profile

from .fake_servers import (
    DESTROY,
    READ,
    WRITE,
    FakeServer,
    found_by,
    gateway_of,
    relisted,
    text_of,
    tool,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


def schema(**described: str) -> dict:
    properties = {name: {"type": "string", "description": text} for name, text in described.items()}
    return {"type": "object", "properties": properties}


def office() -> FakeServer:
    return FakeServer(
        "office",
        [
            tool("search_database", "Look something up.", hints=READ),
            tool("delete_record", "Delete records from the database.", hints=DESTROY),
            tool(
                "send_letter", "Post it.", input_schema=schema(recipient="Name of the addressee.")
            ),
            tool("convert_currency", "Exchange rates.", input_schema=schema(amount="Money.")),
            tool("list_files", "List files in a folder.", hints=READ),
        ],
    )


def pinned(*globs: str) -> Profile:
    return Profile(pass_through=0.0, pinned=globs)


async def details(client, *names: str, **options) -> list[dict]:
    given = {"names": list(names), **options}
    return (await client.call_tool("get_tool_details", given)).structured_content["tools"]


async def call(client, name: str, /, **arguments):
    return await client.call_tool("call_tool", {"name": name, "arguments": arguments})


async def annotations_of_call(tmp_path, *hints, profile=None) -> tuple[bool | None, bool | None]:
    tools = [tool(f"tool_{at}", hints=one) for at, one in enumerate(hints)]
    async with gateway_of(tmp_path, FakeServer("one", tools), profile=profile) as (client, _):
        listed = {one.name: one for one in (await client.list_tools()).tools}
        shown = listed["call_tool"].annotations
        return shown.read_only_hint, shown.destructive_hint


class TestList:
    async def test_only_the_meta_tools_are_listed(self, tmp_path):
        async with gateway_of(tmp_path, office()) as (client, _):
            assert tuple(one.name for one in (await client.list_tools()).tools) == META_TOOL_NAMES

    async def test_pinned_tools_are_listed_beside_them_and_no_others(self, tmp_path):
        async with gateway_of(tmp_path, office(), profile=pinned("office/list_*")) as (client, _):
            names = [one.name for one in (await client.list_tools()).tools]
            assert names == [*META_TOOL_NAMES, "office__list_files"]

    async def test_each_meta_tool_can_be_looked_up_and_has_a_title(self, tmp_path):
        async with gateway_of(tmp_path, office()) as (client, _):
            listed = {one.name: one for one in (await client.list_tools()).tools}
            for name in META_TOOL_NAMES:
                assert listed[name].title
                assert listed[name].description

    async def test_a_hidden_tool_is_callable_by_name_and_through_call_tool(self, tmp_path):
        async with gateway_of(tmp_path, office()) as (client, _):
            for name in ("office__send_letter", "office/send_letter", "send_letter"):
                assert text_of(await client.call_tool(name, {})) == "send_letter ran"
                assert text_of(await call(client, name)) == "send_letter ran"

    async def test_the_names_of_the_meta_tools_are_no_setting(self, tmp_path):
        """On purpose: prompts, clients' settings and our own texts name them."""
        assert not any("name" in field for field in GatewaySettings.model_fields)


class TestVisibility:
    async def test_a_tool_switched_off_is_neither_listed_nor_found(self, tmp_path):
        profile = Profile(pass_through=0.0, tools=("office/[!d]*",), pinned=("office/*",))
        async with gateway_of(tmp_path, office(), profile=profile) as (client, _):
            listed = [one.name for one in (await client.list_tools()).tools]
            assert "office__delete_record" not in listed
            assert "office__send_letter" in listed
            assert "office/delete_record" not in await found_by(client, "delete a record", k=50)

    async def test_a_tool_that_a_scope_protects_is_not_found_without_it(self, tmp_path):
        rules = [{"tools": "*/delete_*", "needs": {"scope": "admin"}}]
        found = {}
        for scopes in ([], ["admin"]):
            settings = GatewaySettings.make(
                {"pass_through": 0, "profiles": {"a": {"rules": rules, "scopes": scopes}}}
            )
            profile = Profile.of(settings, "a", settings.profile("a"))
            async with gateway_of(tmp_path, office(), profile=profile) as (client, _):
                found[tuple(scopes)] = await found_by(client, "delete a record")
        assert "office/delete_record" not in found[()]
        assert "office/delete_record" in found["admin",]

    async def test_a_tool_switched_off_in_mid_session_leaves_the_search(self, tmp_path):
        async with gateway_of(tmp_path, office()) as (client, made):
            assert "office/delete_record" in await found_by(client, "delete a record")
            made.sessions.replace_profiles(Profile(pass_through=0.0, tools=("office/s*",)), {})
            assert "office/delete_record" not in await found_by(client, "delete a record")


class TestSearch:
    @pytest.mark.parametrize(
        ("query", "first"),
        [
            ("search_database", "office/search_database"),
            ("exchange rates", "office/convert_currency"),
            ("recipient", "office/send_letter"),
            ("addressee", "office/send_letter"),
            ("SEND a Letter", "office/send_letter"),
            ("delete records from database", "office/delete_record"),
        ],
        ids=["name", "description", "parameter", "its description", "case", "whole phrase"],
    )
    async def test_what_is_found_first(self, tmp_path, query, first):
        async with gateway_of(tmp_path, office()) as (client, _):
            assert (await found_by(client, query))[0] == first

    async def test_a_word_of_the_name_finds_it(self, tmp_path):
        async with gateway_of(tmp_path, office()) as (client, _):
            assert "office/search_database" in await found_by(client, "database")

    async def test_no_more_than_k(self, tmp_path):
        many = FakeServer("many", [tool(f"read_page_{at}", "Read a page.") for at in range(30)])
        async with gateway_of(tmp_path, many) as (client, _):
            assert len(await found_by(client, "read a page", k=3)) == 3
            assert len(await found_by(client, "read a page")) == 8

    async def test_what_fits_nothing_is_an_empty_list_that_says_so(self, tmp_path):
        async with gateway_of(tmp_path, office()) as (client, _):
            answer = await client.call_tool("search_tools", {"query": "xylophone zebra quartet"})
            assert not answer.is_error
            assert answer.structured_content["tools"] == []
            assert "No tool" in text_of(answer)

    @pytest.mark.parametrize("query", ["[", "(a|", "***", "send|delete"])
    async def test_a_query_is_words_and_never_an_error(self, tmp_path, query):
        """On purpose: a query is no regular expression, and `|` separates words."""
        async with gateway_of(tmp_path, office()) as (client, _):
            found = await found_by(client, query)
            expected = {"office/send_letter", "office/delete_record"} if "send" in query else set()
            assert expected <= set(found)
            assert found or not expected

    @pytest.mark.parametrize("query", ["", "   "])
    async def test_an_empty_query_is_refused_with_a_sentence(self, tmp_path, query):
        async with gateway_of(tmp_path, office()) as (client, _):
            answer = await client.call_tool("search_tools", {"query": query})
            assert answer.is_error
            assert text_of(answer).startswith("query: ")

    async def test_the_whole_schema_on_request(self, tmp_path):
        """On purpose: without `detail` a hit has a signature at most."""
        async with gateway_of(tmp_path, office()) as (client, _):
            given = {"query": "send a letter", "k": 1}
            short = (await client.call_tool("search_tools", given)).structured_content["tools"][0]
            assert "addressee" not in json.dumps(short)
            full = await client.call_tool("search_tools", {**given, "detail": "full"})
            definition = json.loads(full.structured_content["tools"][0]["definition"])
            assert definition["input_schema"]["properties"]["recipient"]["description"]

    async def test_the_answer_has_exactly_these_keys(self, tmp_path):
        async with gateway_of(tmp_path, office()) as (client, _):
            answer = await client.call_tool("search_tools", {"query": "delete a record"})
            assert set(answer.structured_content) == {"tools", "notes"}
            rows = answer.structured_content["tools"]
            assert set(rows[0]) == {"name", "signature", "description"}
            assert text_of(answer).startswith("1. office/delete_record(text?: str): Delete")
            given = {"query": "delete a record", "explain": True}
            explained = (await client.call_tool("search_tools", given)).structured_content
            assert set(explained) == {"tools", "notes", "tier", "tier_reason", "pending", "fits"}
            assert explained["tools"] == rows


class TestChanges:
    async def test_a_new_tool_is_found(self, tmp_path):
        server = office()
        async with gateway_of(tmp_path, server) as (client, made):
            assert await found_by(client, "water the plants") == []
            await relisted(made, server, *server.tools, tool("water_plants", "Water the plants."))
            assert (await found_by(client, "water the plants"))[0] == "office/water_plants"

    async def test_a_replaced_definition_is_shown_at_once(self, tmp_path):
        server = office()
        async with gateway_of(tmp_path, server) as (client, made):
            output = {"type": "object", "properties": {"stamp": {"type": "string"}}}
            new = tool("send_letter", input_schema=schema(post_code="Code."), output_schema=output)
            await relisted(made, server, *server.tools[:2], new)
            (shown,) = await details(client, "office/send_letter")
            assert list(shown["input_schema"]["properties"]) == ["post_code"]
            assert list(shown["output_schema"]["properties"]) == ["stamp"]
            assert "office/send_letter" in await found_by(client, "post code")

    async def test_reordering_does_not_index_anew(self, tmp_path):
        """The tools' order is no change of any definition: nothing is encoded again."""
        server = office()
        async with gateway_of(tmp_path, server) as (client, made):
            before = {one.id: one.fingerprint for one in made.fleet.engine.catalog}
            await relisted(made, server, *reversed(server.tools))
            after = {one.id: one.fingerprint for one in made.fleet.engine.catalog}
            assert before == after
            assert made.fleet.engine.build_progress.newly_encoded == 0
            assert (await found_by(client, "send a letter"))[0] == "office/send_letter"

    async def test_separators_in_a_description_make_no_second_tool(self, tmp_path):
        odd = FakeServer("odd", [tool("get", "user data|list orders"), tool("put", "user data")])
        async with gateway_of(tmp_path, odd) as (client, made):
            assert len(made.fleet.engine.catalog) == 2
            assert (await found_by(client, "list orders"))[0] == "odd/get"
            (shown,) = await details(client, "odd/get")
            assert shown["description"] == "user data|list orders"
            version = made.fleet.engine.catalog.fingerprint
            await relisted(
                made, odd, tool("get", "user data"), tool("put", "list orders|user data")
            )
            assert made.fleet.engine.catalog.fingerprint != version

    async def test_a_description_that_changed_changes_the_catalog(self, tmp_path):
        server = office()
        async with gateway_of(tmp_path, server) as (client, made):
            version = made.fleet.engine.catalog.fingerprint
            await relisted(made, server, tool("list_files", "Count marbles."), *server.tools[:4])
            assert made.fleet.engine.catalog.fingerprint != version
            assert (await found_by(client, "count marbles"))[0] == "office/list_files"


class TestLetters:
    @pytest.mark.parametrize(
        ("description", "query"),
        [
            ("Показать портфель", "портфель"),
            ("Show the portfolio", "ＰＯＲＴＦＯＬＩＯ"),
            ("Zeigt die Straße", "STRASSE"),
            ("Zeigt die STRASSE", "straße"),
            ("Finds a café", "cafe\u0301"),
            ("Finds a cafe\u0301", "café"),
        ],
    )
    async def test_one_word_in_another_form(self, tmp_path, description, query):
        server = FakeServer("one", [tool("a", description), tool("b", "Something else.")])
        async with gateway_of(tmp_path, server) as (client, _):
            assert (await found_by(client, query))[:1] == ["one/a"]


class TestCall:
    async def test_a_null_means_absent(self, tmp_path):
        """Some clients send it for each argument that the model left out."""
        optional = {"text": {"type": "string"}, "count": {"type": ["integer", "null"]}}
        send = tool("send_letter", input_schema={"type": "object", "properties": optional})
        server = FakeServer("office", [send], answer=lambda _, given: json.dumps(given))
        async with gateway_of(tmp_path, server) as (client, _):
            nothing = {"k": None, "server": None, "tier": None, "detail": None}
            found = await client.call_tool("search_tools", {"query": "send a letter", **nothing})
            assert "office/send_letter" in text_of(found)
            shown = await client.call_tool(
                "get_tool_details", {"names": ["office/send_letter"], "detail": None}
            )
            assert "office/send_letter" in text_of(shown)
            answer = await call(client, "office/send_letter", text=None, count=None)
            assert json.loads(text_of(answer)) == {"count": None}
            given = {"name": "office/send_letter", "arguments": None}
            assert text_of(await client.call_tool("call_tool", given)) == "{}"

    @pytest.mark.parametrize("name", META_TOOL_NAMES)
    async def test_no_meta_tool_through_call_tool(self, tmp_path, name):
        async with gateway_of(tmp_path, office()) as (client, _):
            answer = await call(client, name, name="call_tool", query="x")
            assert answer.is_error
            assert "by its own name" in text_of(answer)

    async def test_a_tool_of_a_server_with_such_a_name_is_called_by_its_id(self, tmp_path):
        server = FakeServer("one", [tool("search_tools"), tool("call_tool")])
        async with gateway_of(tmp_path, server) as (client, _):
            assert text_of(await call(client, "one/search_tools")) == "search_tools ran"
            assert (await call(client, "search_tools")).is_error
            assert (
                "tools"
                in (await client.call_tool("search_tools", {"query": "x"})).structured_content
            )

    async def test_a_pinned_tool_is_forwarded(self, tmp_path):
        """On purpose: a model that found it by search should not have to call twice."""
        async with gateway_of(tmp_path, office(), profile=pinned("office/list_*")) as (client, _):
            assert text_of(await call(client, "office/list_files")) == "list_files ran"
            assert text_of(await call(client, "office__list_files")) == "list_files ran"

    async def test_a_pinned_tool_more_dangerous_than_call_tool_says_is_not(self, tmp_path):
        server = FakeServer("one", [tool("read", hints=READ), tool("wipe", hints=DESTROY)])
        async with gateway_of(tmp_path, server, profile=pinned("one/wipe")) as (client, _):
            await client.list_tools()
            refused = await call(client, "one/wipe")
            assert refused.is_error
            assert "by its own name" in text_of(refused)
            assert text_of(await client.call_tool("one__wipe", {})) == "wipe ran"

    @pytest.mark.parametrize(
        ("hints", "expected"),
        [
            ([READ, READ], (True, False)),
            ([READ, WRITE], (False, False)),
            ([READ, WRITE, DESTROY], (False, True)),
            ([READ, None], (False, True)),
            ([], (False, True)),
        ],
        ids=["all read", "one writes", "one destroys", "defaults of the spec", "no tools"],
    )
    async def test_it_is_annotated_as_the_least_permissive(self, tmp_path, hints, expected):
        assert await annotations_of_call(tmp_path, *hints) == expected

    async def test_pinned_tools_do_not_count(self, tmp_path):
        shown = await annotations_of_call(tmp_path, READ, DESTROY, profile=pinned("one/tool_1"))
        assert shown == (True, False)

    async def test_tools_for_interfaces_alone_do_not_count(self, tmp_path):
        app = {"ui": {"resourceUri": "ui://x", "visibility": ["app"]}}
        tools = [tool("a", hints=READ), tool("b", hints=DESTROY, meta=app)]
        async with gateway_of(tmp_path, FakeServer("one", tools)) as (client, _):
            listed: Iterable = (await client.list_tools()).tools
            (shown,) = [one.annotations for one in listed if one.name == "call_tool"]
            assert shown.read_only_hint is True


class TestDetails:
    async def test_an_unknown_name_is_answered_with_the_nearest_permitted(self, tmp_path):
        profile = Profile(pass_through=0.0, tools=("office/[!d]*",))
        async with gateway_of(tmp_path, office(), profile=profile) as (client, _):
            near, hidden = await details(client, "office/send_leter", "office/delete_recrd")
            assert (near["name"], near["error"]) == ("office/send_leter", "unknown")
            assert near["nearest"][0] == "office/send_letter"
            assert "office/delete_record" not in json.dumps([near, hidden])

    @pytest.mark.parametrize("name", ["office/list_files", "office__list_files", "list_files"])
    async def test_every_name_of_a_tool_is_understood(self, tmp_path, name):
        async with gateway_of(tmp_path, office()) as (client, _):
            (shown,) = await details(client, name)
            assert shown["name"] == "office/list_files"
            assert shown["annotations"] == {"readOnlyHint": True}
