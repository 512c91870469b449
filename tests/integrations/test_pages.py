"""The pages show code that runs."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import pytest
from langchain.agents import create_agent
from langchain_core.messages import ToolMessage

import shortlist
from shortlist import Engine
from shortlist.demo import load_catalog
from shortlist.gating.verdict import Status
from shortlist.session import read_events

from .conftest import ScriptedModel, call, say

_DOCS = Path(shortlist.__file__).parent / "docs"


def blocks_of(page: str) -> list[str]:
    """The blocks of Python of a page."""
    text = (_DOCS / page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def test_the_langchain_page_runs(tools, calls, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wanted = {"owner": "acme", "repo": "shop"}
    issue = {**wanted, "title": "Prices are wrong"}
    model = ScriptedModel(
        script=[
            call(("list_pull_requests", wanted), ("create_issue", issue)),
            say("Two are open."),
        ]
    )
    code, scripts, settings = blocks_of("langchain.md")
    names: dict[str, Any] = {"tools": tools, "model": model}
    exec(compile(code, "langchain.md", "exec"), names)
    assert calls == [("list_pull_requests", wanted)]
    assert "list_pull_requests" in model.offered[0]
    done, refused = (one for one in names["result"]["messages"] if isinstance(one, ToolMessage))
    assert done.status == "success"
    assert json.loads(refused.content)["status"] == "denied"
    assert names["result"]["messages"][-1].text == "Two are open."
    exec(compile(scripts, "langchain.md", "exec"), names)
    script = "[await github.list_pull_requests(owner='acme', repo='shop'), 1][0]"
    model.script = [call(("run_code", {"code": script})), say("One.")]
    messages = names["scripted"].invoke({"messages": [("user", "count")]})["messages"]
    assert "list_pull_requests is done" in messages[-2].content
    exec(compile(settings, "langchain.md", "exec"), names)
    model.script = [say("Hello.")]
    create_agent(model, middleware=[names["middleware"]]).invoke({"messages": [("user", "hi")]})
    assert "search_code" in model.offered[-1]
    assert [event["kind"] for event in read_events("decisions.jsonl")] == ["turn", "prompt"]


class Provider:
    """A model that follows a script, and keeps what it was sent."""

    def __init__(self, *script: dict[str, Any]) -> None:
        self.script = list(script)
        self.read: list[tuple[str, list[Any], list[Any]]] = []

    def __call__(self, system: Any, tools: Any, messages: list[Any]) -> dict[str, Any]:
        self.read.append((json.dumps(system), list(tools), list(messages)))
        return self.script.pop(0)

    @property
    def systems(self) -> set[str]:
        """The system prompts sent."""
        return {system for system, *_ in self.read}

    def offered(self, at: int) -> list[str]:
        """Names in the list of tools of one model call."""
        return [tool["function"]["name"] for tool in self.read[at][1]]


def says(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def calls_tools(*asked: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """A reply that calls tools, the id of each call made of its place and its name."""
    made = [
        {"id": f"{at}:{name}", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for at, (name, arguments) in enumerate(asked)
    ]
    return {"role": "assistant", "content": None, "tool_calls": made}


def carried(tool: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    """A call by way of `call_tool`."""
    return "call_tool", {"tool": tool, "arguments": arguments}


def loop(chat: Provider, ran: list[Any], change: tuple[str, str] = ("", "")) -> dict[str, Any]:
    """The names that the page's loop defines, over the demo's tools."""

    def run(tool_id: str, arguments: dict[str, Any]) -> str:
        ran.append((tool_id, arguments))
        return "done"

    code, _ = blocks_of("loop.md")
    names: dict[str, Any] = {"tools": load_catalog(), "chat": chat, "run": run}
    exec(compile(code.replace(*change), "loop.md", "exec"), names)
    return names


def results(messages: list[Any]) -> list[str]:
    return [one["content"] for one in messages if one.get("role") == "tool"]


def test_the_loop_without_a_framework():
    read_feed = {"url": "https://example.org/feed"}
    chat = Provider(
        calls_tools(("slack__post_message", {"channel": "general"}), carried("web/read_feed")),
        calls_tools(carried("web/read_feed", **read_feed), ("jira__get_backlog", {"board_id": 1})),
        says("Nothing new."),
        says("You are welcome."),
    )
    ran: list[Any] = []
    names = loop(chat, ran)
    assert names["answer"]("what is new in the feed of our status page?") == "Nothing new."
    assert names["answer"]("thanks!") == "You are welcome."
    assert ran == [("web/read_feed", read_feed), ("jira/get_backlog", {"board_id": 1})]
    assert names["session"].state.called == ("web/read_feed", "jira/get_backlog")
    # The first round: one tool that only had a line, one whose definition was there.
    told = [json.loads(result) for result in results(names["messages"])[:2]]
    assert [one["status"] for one in told] == ["promoted", "invalid"]
    assert results(names["messages"])[2:] == ["done", "done"]
    # The list of tools follows the session: what was promoted is at its end.
    assert chat.offered(1) == [*chat.offered(0), "slack__post_message"]
    for (_, _, before), (_, _, now) in pairwise(chat.read):
        assert now[: len(before)] == before
    assert len(chat.systems) == 1


def test_the_loop_adds_messages_about_tools_behind_the_answers_of_a_round():
    chat = Provider(
        calls_tools(carried("jira/get_backlog"), carried("slack/post_message")),
        says("Done."),
    )
    names = loop(chat, [], ('format="openai"', 'format="openai_call_tool"'))
    assert names["answer"]("tell everyone on slack that the release is out") == "Done."
    roles = [message["role"] for message in names["messages"]]
    assert roles[:5] == ["user", "system", "assistant", "tool", "tool"]
    assert set(roles[5:-1]) == {"system"}
    # One was promoted, so that its definition follows; of the other it was there already.
    told = [json.loads(result) for result in results(names["messages"])]
    assert [one["status"] for one in told] == ["promoted", "invalid"]
    assert "slack/post_message" in names["messages"][1]["content"]
    assert "jira/get_backlog" not in names["messages"][1]["content"]
    assert "jira/get_backlog" in names["messages"][5]["content"]
    assert chat.offered(0) == chat.offered(1) == ["call_tool"]


def test_lines_of_a_turn_are_sent_last_and_not_kept():
    chat = Provider(says("Hello."))
    # So few tokens that not every tool of the demo has a line of its own.
    names = loop(chat, [], ('format="openai"', 'format="openai", pool_tokens=2_000'))
    names["answer"]("what is new in the feed of our status page?")
    *kept, last = chat.read[0][2]
    assert [message["role"] for message in kept] == ["user"]
    assert "\n search_web(" in last["content"]
    assert [message["role"] for message in names["messages"]] == ["user", "assistant"]


def test_a_small_catalog_needs_no_other_loop():
    chat = Provider(calls_tools(("web__read_feed", {"url": "https://a.example"})), says("Read."))
    ran: list[Any] = []
    web = 'from_tools([tool for tool in tools if tool.server == "web"])'
    names = loop(chat, ran, ("from_tools(tools)", web))
    assert names["answer"]("what is new?") == "Read."
    assert names["session"].passes_through
    assert len(chat.offered(0)) == len(names["engine"].catalog)
    assert [tool_id for tool_id, _ in ran] == ["web/read_feed"]


@pytest.mark.parametrize("works", [True, False])
def test_a_failed_call_is_reported_as_one(works: bool):
    def run(tool_id: str, arguments: dict[str, Any]) -> str:
        if not works:
            raise TimeoutError("no answer")
        return "two entries"

    _, code = blocks_of("loop.md")
    session = Engine.from_tools(load_catalog(), tiers=["lexical"]).session(must_offer=False)
    names: dict[str, Any] = {"session": session, "run": run}
    exec(compile(code, "loop.md", "exec"), names)
    verdict = session.check("web/read_feed", {"url": "https://example.org/feed"})
    content, turn = names["outcome"](verdict)
    assert content == ("two entries" if works else "The call failed: no answer")
    assert turn.ok is works
    assert session.state.called == (("web/read_feed",) if works else ())


def test_every_status_is_on_the_page():
    text = (_DOCS / "loop.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == list(get_args(Status))
