"""What a model reads: the answer of a search, the servers' names, and servers that do not run."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import anyio
import pytest
from mcp import Client

from shortlist import Engine, Tool, demo
from shortlist.gateway.connections.server_spec import ServerSpec
from shortlist.gateway.meta_tools.meta_tool_answers import server_names
from shortlist.gateway.meta_tools.search_answer import (
    find_parts,
    search_content,
    search_text,
    short_signature,
)
from shortlist.gateway.observe.definition_tokens import answer_tokens
from shortlist.gateway.profiles.profile import Profile
from shortlist.gateway.server import Gateway
from shortlist.gateway.upstream.fleet import Fleet
from shortlist.gateway.upstream.server_connection import ServerState
from shortlist.gateway.upstream.start_cache import ListingCache
from shortlist.loaders.counting import bundled_counter

from .fake_servers import FakeServer, gateway_of, text_of, tool

SERVER = str(Path(__file__).parent / "everything_server.py")
#: Starts the server after some seconds.
LATE = "import runpy, sys, time; time.sleep(2); sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"  # noqa: E501


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
def view():
    return Engine.from_tools(demo.load_catalog()).view()


def answer_of(view, **arguments) -> dict:
    return search_content(view, find_parts(view, arguments, {}), arguments.get("detail"))


class TestHits:
    def test_they_are_numbered_and_a_near_one_can_be_called_from_its_line(self, view):
        content = answer_of(view, query="open an issue about a bug")
        first, *others = search_text(content).splitlines()
        assert first.startswith("1. github/create_issue(owner: str, repo: str, title: str")
        assert first.count("create_issue") == 1
        assert others[0].startswith("2. ")

    def test_a_far_hit_is_one_short_line(self, view):
        content = answer_of(view, query="open an issue about a bug", k=8)
        lines = search_text(content).splitlines()[4 : len(content["tools"])]
        assert lines
        assert all(len(row["description"]) <= 53 for row in content["tools"][4:])
        assert all(len(row.get("signature", "")) <= 80 for row in content["tools"][4:])
        assert all(len(line) <= 180 for line in lines)

    @pytest.mark.parametrize("name", ["query", "queries"])
    def test_hits_far_below_the_best_are_left_out_unless_asked_for(self, view, name):
        queries = ["open an issue about a bug", "send a message to a channel"]
        given = {"query": queries[0]} if name == "query" else {"queries": queries}
        for part in find_parts(view, given, {}):
            assert all(hit.score >= 0.7 * part.hits[0].score for hit in part.hits[2:])
        all_parts = find_parts(view, {**given, "k": 8}, {})
        assert all(len(part.hits) == 8 for part in all_parts)

    def test_a_tool_without_a_signature_has_its_arguments_if_they_are_short(self):
        """Seen in use: definitions were asked for, only to see two arguments."""
        text = {"type": "string"}
        few = {"properties": {"path": text, "lines": {"type": "integer"}}, "required": ["path"]}
        many = {"properties": {f"argument_number_{number}": text for number in range(9)}}
        steps = [Tool(f"step_{name}", "plan", "Do a step.", few) for name in "abcdefgh"]
        long_step = Tool("long_step", "plan", "Do a step, then another one.", many)
        view = Engine.from_tools([*steps, long_step], tiers=["lexical"]).view()
        for given in ({"query": "do a step", "k": 5}, {"queries": ["do a step", "another one"]}):
            content = answer_of(view, **given)
            signatures = [row.get("signature") for row in content["tools"]]
            assert "(path: str, lines?: int)" in signatures
            assert "(path; lines)" in signatures

    def test_a_long_signature_is_cut(self):
        names = [f"argument_number_{number}" for number in range(40)]
        optional = {name: {"type": "integer"} for name in names}
        schema = {"type": "object", "properties": optional, "required": names[:1]}
        text = short_signature(Tool("long", "one", "", schema))
        assert text.startswith("(argument_number_0: int; argument_number_1 ")
        assert text.endswith(" ...)")
        assert len(text) <= 300

    def test_text_and_object_carry_the_same_and_no_scores(self, view):
        content = answer_of(view, query="open an issue about a bug")
        text = search_text(content)
        for row in content["tools"]:
            assert set(row) <= {"name", "signature", "description"}
            assert row["name"] in text
            assert row["description"] in text
        assert "score" not in json.dumps(content)


class TestParts:
    QUERY = "open an issue about the login bug and then send a message to the team channel"

    def test_a_request_with_two_steps_has_the_tools_of_both(self, view):
        content = answer_of(view, query=self.QUERY)
        assert len(content["parts"]) == 2
        first = {row["part"]: row["name"] for row in reversed(content["tools"])}
        assert first[1] == "github/create_issue"
        assert first[2].startswith("slack/")
        text = search_text(content)
        assert text.startswith(f"For: {content['parts'][0]}\n1. github/create_issue")
        assert f"For: {content['parts'][1]}\n1. slack/" in text
        assert len({row["name"] for row in content["tools"]}) == len(content["tools"]) <= 10

    def test_queries_are_answered_each(self, view):
        queries = ["create an issue", "xylophone zebra quartet"]
        content = answer_of(view, queries=queries)
        assert content["parts"] == queries
        assert {row["part"] for row in content["tools"]} == {1}
        head, *nearest, last = content["notes"][0].splitlines()
        assert head == "No tool seems to fit for 'xylophone zebra quartet'. Nearest:"
        permitted = [tool.id for tool in view.tools()]
        assert len(nearest) == 3
        assert all(line.split(": ")[0] in permitted for line in nearest)
        assert last.startswith("To use one, search for its name.")

    def test_each_of_many_queries_has_three_tools_or_as_many_as_asked_for(self, view):
        """Seen in use: of eight queries with `k` 4 each had one tool, often not the right one."""
        queries = ["create an issue", "send a message", "read a file", "run a query"]
        for k, count in ((None, 3), (4, 4), (1, 1)):
            rows = answer_of(view, queries=queries, **({} if k is None else {"k": k}))["tools"]
            parts = [row["part"] for row in rows]
            assert max(parts.count(number) for number in range(1, 5)) == count
            assert set(parts) == {1, 2, 3, 4}
        many = answer_of(view, queries=[f"{query} {n}" for query in queries for n in (1, 2)], k=50)
        assert len(many["tools"]) <= 50

    def test_a_tool_belongs_to_the_part_it_fits_best_and_is_named_in_others(self):
        """Seen in use: the second step "append a paragraph" had tools for footnotes only."""
        word = [
            Tool("create_document", "word", "Create a document."),
            Tool("add_paragraph", "word", "Append a paragraph to a document."),
            Tool("add_footnote", "word", "Add a footnote to a paragraph."),
        ]
        view = Engine.from_tools(word, tiers=["lexical"]).view()
        queries = ["create a document with a paragraph", "append a paragraph to a document"]
        content = answer_of(view, queries=queries)
        text = search_text(content)
        first, second = text.split("For: ")[1:]
        assert "word/add_paragraph (below)" in first
        assert second.splitlines()[1].startswith("1. word/add_paragraph(): Append a paragraph")
        assert "word/create_document (above)" in second
        row = next(row for row in content["tools"] if row.get("shown_in_part") == 2)
        assert row == {"name": "word/add_paragraph", "part": 1, "shown_in_part": 2}

    @pytest.mark.parametrize("given", [{"k": 1}, {"k": 2}, {"queries": ["send a letter"] * 2}])
    def test_words_in_the_instructions_of_another_server_displace_no_hit(self, given):
        """Seen in use: `word create document add heading` found a database's columns alone."""
        post = [
            Tool("send_letter", "post", "Send a letter."),
            Tool("send_parcel", "post", "Send a parcel at a counter."),
        ]
        other = [Tool(name, "data", f"{name} of a table.") for name in ("columns", "rows")]
        view = Engine.from_tools([*post, *other], tiers=["lexical"]).view()
        query = "send a letter at a counter with stamps"
        arguments = {"query": query, **given} if "k" in given else {"queries": [query, "rows"]}
        parts = find_parts(view, arguments, {"data": "With stamps."})
        assert parts[0].hits[0].id == "post/send_letter"

    @pytest.mark.anyio
    async def test_one_search_takes_a_plan_of_sixteen_steps(self, tmp_path):
        """Seen in use: every plan of fourteen steps needed two searches."""
        steps = [tool(f"step_{number}", f"Do step {number}.") for number in range(16)]
        async with gateway_of(tmp_path, FakeServer("one", steps)) as (client, _):
            queries = [f"do step {number}" for number in range(16)]
            answer = await client.call_tool("search_tools", {"queries": queries})
            assert not answer.is_error
            found = {row["name"] for row in answer.structured_content["tools"]}
            assert found == {f"one/step_{number}" for number in range(16)}

    @pytest.mark.anyio
    async def test_a_repeated_search_answers_as_much_as_the_first(self, tmp_path):
        steps = [tool(f"step_{number}", f"Do step {number}.") for number in range(4)]
        async with gateway_of(tmp_path, FakeServer("one", steps)) as (client, _):
            answers = [
                await client.call_tool("search_tools", {"query": "do step 2"}) for _ in range(3)
            ]
            assert len({text_of(answer) for answer in answers}) == 1

    @pytest.mark.anyio
    async def test_a_query_or_queries_must_be_given(self, tmp_path):
        async with gateway_of(tmp_path, FakeServer("one", [tool("read")])) as (client, _):
            missing = await client.call_tool("search_tools", {"queries": None})
            assert missing.is_error
            assert "query: missing or empty" in text_of(missing)
            blank = await client.call_tool("search_tools", {"query": " "})
            assert blank.is_error
            assert "query: missing or empty" in text_of(blank)
            for query in (None, ""):
                given = {"queries": ["read", "read a page"], "query": query}
                assert not (await client.call_tool("search_tools", given)).is_error


class TestWords:
    def test_a_server_that_the_query_names_in_vain_is_named_and_no_other_word_is(self, view):
        """Seen in use: "No tool above has these words: put, 1", in 16 of 80 answers."""
        content = answer_of(view, query="open an issue about margherita pizza 1", k=3)
        assert not any("margherita" in note for note in content["notes"])
        jira = [Tool("create", "tickets", "Create an issue, also for jira.")]
        notes = [Tool("append_page", "notion", "Append to a page.")]
        named = Engine.from_tools([*jira, *notes], tiers=["lexical"]).view()
        content = answer_of(named, query="create an issue for notion", k=1)
        assert content["notes"] == ["No tool above is of notion: search with server=notion."]
        content = answer_of(named, query="create an issue for notion", k=2)
        assert [row["name"] for row in content["tools"]] == ["tickets/create", "notion/append_page"]
        assert content["notes"] == []

    def test_a_query_that_begins_with_a_server_is_for_this_server(self):
        """Seen in use: "notes: rename a tag" gave no tool of notes, and models asked once more."""
        tools = [Tool("rename_sheet", "sheets", "Rename a tag of a sheet.")]
        tools += [Tool(name, "notes", "Text of a note.") for name in ("read", "write", "append")]
        view = Engine.from_tools(tools, tiers=["lexical"]).view()
        names = [row["name"] for row in answer_of(view, query="notes: rename a tag", k=3)["tools"]]
        assert names[2] == "sheets/rename_sheet"
        assert {name.partition("/")[0] for name in names[:2]} == {"notes"}
        other = answer_of(view, query="rename a tag: notes", k=3)["tools"]
        assert other[0]["name"] == "sheets/rename_sheet"

    @pytest.mark.anyio
    async def test_an_answer_without_a_tool_is_one_sentence(self, tmp_path):
        async with gateway_of(tmp_path, FakeServer("one", [tool("read", "Read.")])) as (client, _):
            answer = await client.call_tool("search_tools", {"query": "xylophone zebra"})
            sentence = "No tool fits. Search in other words, or answer without a tool."
            assert text_of(answer) == sentence


class TestNames:
    def test_all_names_that_fit_are_given(self):
        names = [f"server-number-{number}" for number in range(500)]
        line = server_names(names, {}, 100)
        assert line.startswith("Servers: server-number-0, server-number-1, ")
        assert line.endswith(" more: see list_servers")
        assert bundled_counter().count(line) <= 100
        assert server_names(["a", "b"], {"b": "failed"}) == "Servers: a, b (failed)"

    @pytest.mark.anyio
    async def test_every_permitted_server_is_named_first(self, tmp_path):
        servers = [
            FakeServer(f"number{number}", [tool(f"list_{word}_{number}") for word in ("a", "b")])
            for number in range(30)
        ]
        profile = Profile(pass_through=0.0, servers=("number*[!3]",))
        async with gateway_of(tmp_path, *servers, profile=profile) as (client, _):
            permitted = {one.name for one in servers if not one.name.endswith("3")}
            description = (await client.list_tools()).tools[0].description
            for text in (client.instructions, description):
                line = next(line for line in text.splitlines() if line.startswith("Servers: "))
                assert set(line.removeprefix("Servers: ").split(", ")) == permitted


def spec(name: str, *args: str) -> ServerSpec:
    return ServerSpec(name=name, transport="stdio", command=sys.executable, args=args)


@pytest.mark.anyio
class TestServersThatDoNotRun:
    async def answers(self, tmp_path, *specs, requests, ready):
        fleet = Fleet(
            specs,
            engine_settings={"tiers": ["lexical"]},
            listing_cache=ListingCache(tmp_path / "m"),
        )
        async with anyio.create_task_group() as group:
            await group.start(fleet.run)
            with anyio.fail_after(60):
                while not ready(fleet):
                    await anyio.sleep(0.05)
            async with Client(Gateway(fleet, Profile(pass_through=0.0)).server) as client:
                answers = [await client.call_tool(name, given) for name, given in requests]
            group.cancel_scope.cancel()
        return answers

    async def test_a_failed_one_is_named_by_every_answer_that_needs_it(self, tmp_path):
        broken = spec("powerpoint", "-c", "raise SystemExit('SECRET of the server')")
        answers = await self.answers(
            tmp_path,
            broken,
            spec("sums", SERVER, "sums"),
            requests=[
                ("search_tools", {"query": "make a presentation"}),
                ("search_tools", {"query": "make slides", "server": "powerpoint"}),
                ("search_tools", {"query": "make slides in powerpoint"}),
                ("call_tool", {"name": "powerpoint/create_presentation", "arguments": {}}),
                ("get_tool_details", {"names": ["powerpoint__create_presentation"]}),
                ("list_servers", {}),
            ],
            ready=lambda fleet: (
                fleet.upstreams["powerpoint"].problem and not fleet.unlisted_servers
            ),
        )
        for answer in answers:
            assert "powerpoint" in text_of(answer)
            assert "failed" in text_of(answer)
            assert "There is no tool" not in text_of(answer)
            assert "SECRET" not in answer.model_dump_json()
        assert "Not available now: powerpoint (failed)." in text_of(answers[0])
        reason = "powerpoint (failed: it did not start, or its connection ended; the operator"
        for answer in answers[1:3]:
            assert text_of(answer).startswith(f"Not available now: {reason}")
            assert text_of(answer).count("powerpoint") == 1
        assert answers[3].is_error

    async def test_tools_of_one_that_is_down_come_after_equally_good_ones_and_are_marked(
        self, tmp_path
    ):
        """Seen in use: seven of seven hits were of a server that had failed, without a word."""
        send, other = tool("send_letter", "Send a letter."), tool("send_letters", "Send a letter.")
        lists = tool("list_stamps", "List the stamps.")
        servers = FakeServer("a_post", [send, lists]), FakeServer("b_post", [other])
        async with gateway_of(tmp_path, *servers) as (client, made):
            search = {"query": "send a letter"}
            assert text_of(await client.call_tool("search_tools", search)).startswith("1. a_post/")
            down = made.fleet.upstreams["a_post"]
            for state, mark in ((ServerState.FAILED, "failed"), (ServerState.STARTED, "hangs")):
                down.state, down.last_start_ms = state, None
                down.problem, down.problem_code = "SECRET", "start_timeout"
                down._timeouts = int(state is ServerState.STARTED)
                answer = await client.call_tool("search_tools", search)
                first, second, *_ = text_of(answer).splitlines()
                assert first.startswith("1. b_post/send_letters")
                assert first.endswith("Send a letter")
                assert second.startswith("2. a_post/send_letter(")
                assert second.endswith(f"[server: {mark}]")
                # No other server has anything as good.
                alone = await client.call_tool("search_tools", {"query": "list stamps"})
                first = text_of(alone).splitlines()[0]
                assert first.startswith("1. a_post/list_stamps(")
                assert first.endswith(f"[server: {mark}]")
                assert alone.structured_content["tools"][0]["server_state"] == mark

    async def test_one_whose_entry_cannot_be_used_is_named_with_the_reason(self, tmp_path):
        """Seen in use: a server with an unset variable was nowhere, and nothing said so."""
        letters = FakeServer("post", [tool("send_letter", "Send a letter.")])
        unusable = {"time": "env.ZONE: the variable NOPE_VAR is not set; set it"}
        async with gateway_of(tmp_path, letters, unusable_servers=unusable) as (client, made):
            line = "Servers: post, time (not usable)"
            assert line in client.instructions.splitlines()
            assert line in (await client.list_tools()).tools[0].description.splitlines()
            requests = [
                ("list_servers", {}),
                ("search_tools", {"query": "what time is it"}),
                ("search_tools", {"query": "noon in Berlin", "server": "time"}),
                ("get_tool_details", {"names": ["time/now"]}),
                ("call_tool", {"name": "time/now", "arguments": {}}),
            ]
            for name, given in requests:
                text = text_of(await client.call_tool(name, given))
                assert "the variable NOPE_VAR is not set" in text, name
            other = await client.call_tool("search_tools", {"query": "send a letter"})
            assert "time" not in text_of(other)
            await made.fleet.reload([one.spec for one in made.fleet.upstreams.values()])
            assert "time" not in text_of(await client.call_tool("list_servers", {}))

    async def test_a_call_of_a_starting_one_waits(self, tmp_path):
        late = spec("sums", "-c", LATE, SERVER, "sums")
        call = {"name": "sums/add_numbers", "arguments": {"first": 20, "second": 22}}
        searched, found, called = await self.answers(
            tmp_path,
            late,
            requests=[
                ("search_tools", {"query": "add two numbers"}),
                ("search_tools", {"query": "add two numbers", "server": "sums"}),
                ("call_tool", call),
            ],
            ready=lambda fleet: fleet.unlisted_servers,
        )
        assert "Not available now: sums (starting)." in text_of(searched)
        assert text_of(found).startswith("1. sums/add_numbers(first: int, second: int)")
        assert called.structured_content == {"result": 42}

    async def test_a_call_of_a_starting_one_waits_without_a_search(self, tmp_path):
        call = {"name": "sums/add_numbers", "arguments": {"first": 20, "second": 22}}
        (called,) = await self.answers(
            tmp_path,
            spec("sums", "-c", LATE, SERVER, "sums"),
            requests=[("call_tool", call)],
            ready=lambda fleet: fleet.unlisted_servers,
        )
        assert called.structured_content == {"result": 42}


@pytest.mark.anyio
async def test_the_servers_are_one_line_each_and_the_longer_form_is_counted(tmp_path):
    long = "Use this server for all that has to do with letters. " * 20
    office = FakeServer("office", [tool("send_letter"), tool("open_letter")], instructions=long)
    other = FakeServer("other", [tool("read_page")])
    async with gateway_of(tmp_path, office, other) as (client, _):
        answer = await client.call_tool("list_servers", {})
        assert text_of(answer).splitlines() == [
            "office: started; 2 tools; letter",
            "other: started; 1 tool; page",
        ]
        named = await client.call_tool("list_servers", {"server": "office"})
        assert "all that has to do with letters" in text_of(named)
        assert "send_letter, open_letter" in text_of(named)
        wrong = await client.call_tool("list_servers", {"server": "ofice"})
        assert "use one of: office, other" in text_of(wrong)
        found = await client.call_tool("search_tools", {"query": "send a letter"})
        structured = json.dumps(found.structured_content, ensure_ascii=False)
        count = bundled_counter().count
        assert answer_tokens(found) == max(count(text_of(found)), count(structured))
        details = await client.call_tool("get_tool_details", {"names": ["office/send_letter"]})
        assert json.loads(text_of(details)) == details.structured_content
        assert "\n" not in text_of(details)
