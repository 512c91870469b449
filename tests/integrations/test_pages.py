"""The pages show code that runs."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

from langchain_core.messages import ToolMessage

import shortlist
from shortlist.demo import load_catalog

from .conftest import ScriptedModel, call, say

_DOCS = Path(shortlist.__file__).parent / "docs"


def code_of(page: str) -> str:
    """The Python of a page."""
    text = (_DOCS / page).read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return block


def lines_of(code: str) -> int:
    return sum(bool(line.strip()) for line in code.splitlines())


def test_langchain_in_twenty_lines(tools, calls):
    wanted = {"owner": "acme", "repo": "shop"}
    issue = {**wanted, "title": "Prices are wrong"}
    model = ScriptedModel(
        script=[
            call(("list_pull_requests", wanted), ("create_issue", issue)),
            say("Two are open."),
        ]
    )
    code = code_of("langchain.md")
    assert lines_of(code) <= 20
    names: dict[str, Any] = {"tools": tools, "model": model}
    exec(compile(code, "langchain.md", "exec"), names)
    assert calls == [("list_pull_requests", wanted)]
    assert "list_pull_requests" in model.offered[0]
    done, refused = (one for one in names["result"]["messages"] if isinstance(one, ToolMessage))
    assert done.status == "success"
    assert json.loads(refused.content)["status"] == "denied"
    assert names["result"]["messages"][-1].text == "Two are open."


def test_the_loop_without_a_framework():
    read: list[tuple[Any, Any, list[Any]]] = []
    ran: list[tuple[str, dict[str, Any]]] = []

    def calling(number: int, tool: str, **arguments: Any) -> dict[str, Any]:
        wanted = json.dumps({"tool": tool, "arguments": arguments})
        asked = {"id": f"call_{number}", "function": {"name": "call_tool", "arguments": wanted}}
        return {"role": "assistant", "content": None, "tool_calls": [asked]}

    script = [
        calling(1, "slack/post_message", channel="general"),
        calling(2, "jira/get_backlog", board_id=1),
        calling(3, "jira/get_backlog", board_id=1),
        {"role": "assistant", "content": "Posted."},
        {"role": "assistant", "content": "You are welcome."},
    ]

    def chat(system: Any, tools: Any, messages: list[Any]) -> dict[str, Any]:
        read.append((system, tools, list(messages)))
        return script.pop(0)

    def run(tool_id: str, arguments: dict[str, Any]) -> str:
        ran.append((tool_id, arguments))
        return "done"

    code = code_of("loop.md")
    assert lines_of(code.partition("def ")[2]) <= 20
    names: dict[str, Any] = {"tools": load_catalog(), "chat": chat, "run": run}
    exec(compile(code, "loop.md", "exec"), names)
    assert names["answer"]("tell everyone on slack that the release is out") == "Posted."
    assert names["answer"]("thanks!") == "You are welcome."
    results = [one["content"] for one in names["messages"] if one.get("role") == "tool"]
    told = [json.loads(result) for result in results[:2]]
    assert [one["status"] for one in told] == ["invalid", "promoted"]
    assert [tool_id for tool_id, _ in ran] == ["jira/get_backlog"]
    systems = {json.dumps([system, tools]) for system, tools, _ in read}
    assert len(systems) == 1
    for (_, _, before), (_, _, now) in pairwise(read):
        assert now[: len(before)] == before
    assert "slack/post_message" in json.dumps(read[0][2])
    assert names["session"].state.called == ("jira/get_backlog",)
