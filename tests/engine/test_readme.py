"""The README's Python runs."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import shortlist
from shortlist import Tool
from shortlist.lab.publishing.record import read_record

_README = Path(shortlist.__file__).parent / "README.md"
_STATUS = {"type": "object", "properties": {"status": {"type": "string"}}}
_TOOLS = (
    Tool("list_invoices", "billing", "List invoices, such as those that are overdue", _STATUS),
    Tool("list_customers", "billing", "List the customers that get invoices"),
    Tool("delete_draft", "billing", "Delete the draft of an invoice"),
    Tool("get_forecast", "weather", "The weather forecast for a city"),
)


class ScriptedOpenAI:
    """A client whose model calls a tool once, and answers with its result."""

    def __init__(self) -> None:
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self._create))

    def _create(self, *, model: str, messages: list[Any], tools: list[Any]) -> SimpleNamespace:
        names = [tool["function"]["name"] for tool in tools]
        if messages[-1]["role"] == "tool":
            message = {"role": "assistant", "content": f"Overdue: {messages[-1]['content']}"}
        else:
            assert "billing__list_invoices" in names
            call = {"name": "billing__list_invoices", "arguments": '{"status": "overdue"}'}
            asked = {"id": "call_1", "type": "function", "function": call}
            message = {"role": "assistant", "content": None, "tool_calls": [asked]}
        dumped = {"choices": [{"message": message}]}
        choice = SimpleNamespace(message=SimpleNamespace(**message))
        return SimpleNamespace(choices=[choice], model_dump=lambda **_: dumped)


def test_the_readme_runs(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "openai", SimpleNamespace(OpenAI=ScriptedOpenAI))
    listed = json.dumps([tool.to_dict() for tool in _TOOLS])
    Path("tools.json").write_text(listed, encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", _README.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 3
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "github/list_pull_requests" in printed
    assert "Overdue: INV-7, INV-9" in printed
    assert names["session"].state.called == ("billing/list_invoices",)


def test_the_figures_of_the_gateway_are_those_measured() -> None:
    result = read_record("gateway").result
    text = " ".join(_README.read_text(encoding="utf-8").split())
    found = result["definitions"]
    added = [one["added_p50_ms"] for one in result["call"].values()]
    assert f"on {found['servers']} servers" in text
    assert f"{found['tools']} tools cost {found['tokens_behind']:,} tokens" in text
    assert f"and {found['tokens_shown']:,} behind the gateway" in text
    assert f"own five tools cost {found['tokens_own']}." in text
    assert found["shown_directly"] == ["mapbox__render_map_tool"]
    slower = f"{round(max(added))} ms longer, a search {round(result['search']['added_p50_ms'])} ms"
    assert slower in text
