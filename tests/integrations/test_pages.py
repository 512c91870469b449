"""The pages show code that runs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import ToolMessage

import shortlist
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
    assert [event.kind for event in read_events("decisions.jsonl")] == ["turn"]
