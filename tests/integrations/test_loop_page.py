"""docs/loop.md, run with the providers' own libraries against servers on this machine."""

from __future__ import annotations

import http.client
import json
import re
from pathlib import Path
from threading import Barrier, Thread
from typing import Any, get_args

import pytest
import uvicorn

import shortlist
from shortlist import Gate, Rule, State, Tool
from shortlist.demo import load_catalog
from shortlist.gating import Provides, after, milestone, not_, requires_scope
from shortlist.gating.verdict import Status
from shortlist.loaders.render import renderer_for

from .provider_servers import SEARCH, Chat, Messages, Provider, Responses, serving

_PAGE = Path(shortlist.__file__).parent / "docs" / "loop.md"
_NUMBER = {
    "type": "object",
    "properties": {"number": {"type": "string"}},
    "required": ["number"],
    "additionalProperties": False,
}
_BILLING = ("list_invoices", "get_invoice", "approve", "pay", "delete_invoice", "remind")
TOOLS = [
    *load_catalog(),
    *(Tool(name, "billing", f"{name} of a customer's invoice", _NUMBER) for name in _BILLING),
]
GATE = Gate(
    [
        Rule(milestone("approved"), tools="billing/pay"),
        Rule(not_(after("billing/pay")), tools="billing/pay"),
        Rule(tools="billing/approve", provides=Provides(milestones=("approved",))),
        Rule(requires_scope("delete"), tools="billing/delete_*"),
    ]
)
FORMATS: list[tuple[type[Provider], int, str]] = [
    (Chat, 0, "openai"),
    (Responses, 1, "openai_responses"),
    (Messages, 2, "anthropic_call_tool"),
    (Messages, 2, "anthropic_search"),
    (Messages, 2, "anthropic"),
    (Chat, 0, "openai_call_tool"),
    (Responses, 1, "openai_responses_call_tool"),
    (Responses, 1, "openai_responses_search"),
]


def blocks() -> list[str]:
    text = _PAGE.read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def lines_of_code(block: str) -> int:
    return sum(bool(line.strip()) for line in block.splitlines())


def test_the_loops_and_the_web_service_have_at_most_15_lines_of_a_users_code() -> None:
    *loops, _search, _resume, service, _check, _test = blocks()
    assert [lines_of_code(loop) for loop in loops] == [15, 15, 15]
    assert lines_of_code(service) == 15


def seven(tool_id: str, number: Any = "7") -> tuple[str, Any]:
    return tool_id, number if isinstance(number, dict) else {"number": number}


@pytest.mark.parametrize(("kind", "place", "style"), FORMATS, ids=[f[2] for f in FORMATS])
def test_an_agent_over_eight_turns(
    kind: type[Provider],
    place: int,
    style: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Gates, parallel calls, wrong and cut arguments, a failing tool, and a resumed session."""
    ran: list[tuple[str, Any]] = []
    together = Barrier(2, timeout=60)

    def run(tool: Tool, arguments: dict[str, Any]) -> str:
        if tool.name == "get_invoice":
            together.wait()
        ran.append((tool.name, arguments.get("number")))
        if tool.name == "remind":
            raise ConnectionError("smtp://user:secret@mail is down")
        return f"{tool.name} is done"

    provider = kind()
    with serving(provider) as address:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", address)
        monkeypatch.setenv("OPENAI_BASE_URL", address)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        code = re.sub(r'format="\w+"', f'format="{style}"', blocks()[place])
        state = State(scopes={"delete"})
        names: dict[str, Any] = {"tools": TOOLS, "gate": GATE, "state": state, "run": run}
        exec(compile(code, "loop.md", "exec"), names)

        def ask(request: str, *script: Any) -> list[Any]:
            """The statuses, or texts, of the answers to the calls of one turn."""
            provider.script = [*script, f"{request}: done."]
            before = len(provider.requests)
            text = names["answer"](names["session"], names["messages"], request)
            assert text == f"{request}: done."
            assert not provider.script
            calls = [
                f"call_{number}_{call}"
                for number, step in enumerate(script, before + 1)
                for call in range(len(step))
            ]
            answers = provider.answers()
            found = []
            for call in calls:
                try:
                    answer = json.loads(answers[call])
                    is_object = isinstance(answer, dict)
                    found.append(
                        answer.get("status") or answer["error"] if is_object else answers[call]
                    )
                except (TypeError, ValueError):
                    found.append(answers[call])
            return found

        ask_pay = [seven("billing/approve"), seven("billing/pay")]
        assert ask("1 list the invoices of acme", [seven("billing/list_invoices")]) == [
            "list_invoices is done"
        ]
        assert (
            ask(
                "2 show the invoices 7 and 8",
                [seven("billing/get_invoice"), seven("billing/get_invoice", "8")],
            )
            == ["get_invoice is done"] * 2
        )
        assert ask("3 pay invoice 7", [seven("billing/pay")], ask_pay) == [
            "denied",
            "approve is done",
            "pay is done",
        ]
        assert ask("4 pay invoice 7 again", [seven("billing/pay"), seven("billing/pay")]) == [
            "denied",
            "denied",
        ]
        assert ask("5 remind the customer of invoice 7", [seven("billing/remind")]) == [
            "tool_failed"
        ]
        wrong = [("billing/list_invoices", '{"number": "7'), seven("billing/list_invoices", {})]
        assert ask("6 list the invoices", wrong, [seven("billing/list_invoices")]) == [
            "invalid",
            "invalid",
            "list_invoices is done",
        ]
        # Another process, in which the user may not delete any more.
        stored = json.loads(json.dumps([names["session"].save(), names["messages"]]))
        resumed = names["engine"].resume(stored[0], state=State())
        names |= {"session": resumed, "messages": stored[1]}
        assert ask("7 delete invoice 8", [seven("billing/delete_invoice", "8")]) == ["denied"]
        assert ask("8 thanks") == []
        if (searches := renderer_for(style).search_kind) is not None:
            # The model asks for a tool, twice, and calls what was found; a search may be wrong.
            twice = [(SEARCH, "post a message in slack"), (SEARCH, {"query": ""})]
            post = ("slack/post_message", {"channel_id": "C0123456789", "text": "paid"})
            assert ask("9 say that it is paid", twice)[1:] == (
                ["invalid"] if searches == "function" else ["[]"]
            )
            assert ask("10 now post it", [post]) == ["post_message is done"]
            ran.pop()
        names["client"].close()
    assert [name for name, _ in ran] == [
        "list_invoices",
        "get_invoice",
        "get_invoice",
        "approve",
        "pay",
        "remind",
        "list_invoices",
    ]
    assert "secret" in caplog.text
    assert "secret" not in json.dumps(provider.requests)
    roles = [message.get("role") for message in names["messages"]]
    assert roles.count("user") >= 8
    if renderer_for(style).search_kind is not None:
        # What the cache covers before the conversation stays until the scope is revoked.
        covered = [
            json.dumps([tool for tool in sent["tools"] if not tool.get("defer_loading")])
            for sent in provider.requests[:-2]
        ]
        assert len(set(covered)) == 1


def test_a_web_service_keeps_a_session_for_each_user(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, *_, service, _check, _test = blocks()
    provider = Chat()
    scopes = {"ann": {"delete"}, "bob": set[str]()}
    with serving(provider) as address:
        monkeypatch.setenv("OPENAI_BASE_URL", address)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        names: dict[str, Any] = {
            "tools": TOOLS,
            "gate": GATE,
            "state": State(),
            "run": lambda tool, _: f"{tool.name} is done",
            "store": {},
            "scopes_of": scopes.__getitem__,
        }
        exec(compile(f"{loop}\n{service}", "loop.md", "exec"), names)
        config = uvicorn.Config(names["app"], port=0, log_level="error", lifespan="off")
        server = uvicorn.Server(config)
        thread = Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            thread.join(0.01)
            assert thread.is_alive()
        port = server.servers[0].sockets[0].getsockname()[1]

        def ask(user: str, text: str, *script: Any) -> str:
            provider.script = [*script, "Done."]
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("POST", f"/{user}", json.dumps({"text": text}))
            answer = json.loads(connection.getresponse().read())
            connection.close()
            assert answer == {"text": "Done."}
            # What is stored is JSON.
            names["store"] = json.loads(json.dumps(names["store"]))
            return next(reversed(provider.answers().values()))

        delete = [seven("billing/delete_invoice", "8")]
        assert ask("ann", "delete invoice 8", delete) == "delete_invoice is done"
        assert json.loads(ask("bob", "delete invoice 8", delete))["status"] == "denied"
        scopes["ann"] = set()
        assert json.loads(ask("ann", "delete invoice 8", delete))["status"] == "denied"
        first = [m["content"] for m in provider.requests[-1]["messages"] if m["role"] == "user"]
        assert first == ["delete invoice 8", "delete invoice 8"]
        server.should_exit = True
        thread.join(60)
        names["client"].close()


def test_the_steps_without_handle() -> None:
    check = blocks()[-2]
    session = shortlist.Engine.from_tools(TOOLS, tiers=["lexical"]).session(must_offer=False)
    names: dict[str, Any] = {"session": session, "run": lambda tool, arguments: "two entries"}
    exec(compile(check, "loop.md", "exec"), names)
    assert names["content"] == "two entries"
    assert session.state.called == ("web/read_feed",)


def test_the_test_without_a_model() -> None:
    engine = shortlist.Engine.from_tools(TOOLS, tiers=["lexical"])
    names: dict[str, Any] = {"engine": engine, "run": lambda *_: "two entries", "Any": Any}
    exec(compile(blocks()[-1], "loop.md", "exec"), names)
    names["test_the_feed_is_read"]()
    # The form that the page names for Anthropic.
    session = engine.session(format="anthropic_call_tool")
    session.turn("what is new in the feed?")
    given = {"tool": "web/read_feed", "arguments": {"url": "https://example.org"}}
    call = {"type": "tool_use", "id": "call_1", "name": "call_tool", "input": given}
    session.handle({"role": "assistant", "content": [call]}, names["run"])
    assert session.state.called == ("web/read_feed",)


def test_every_status_is_on_the_page() -> None:
    text = _PAGE.read_text(encoding="utf-8")
    statuses = text[text.index("\n## Verdicts") :]
    assert re.findall(r"^\| `(\w+)` \|", statuses, re.MULTILINE) == list(get_args(Status))


def test_the_answer_to_a_search_without_handle() -> None:
    session = shortlist.Engine.from_tools(TOOLS, tiers=["lexical"]).session(
        format="openai_responses_search", pass_through=0
    )
    session.turn("pay invoice 7")
    names: dict[str, Any] = {"session": session, "messages": []}
    exec(compile(blocks()[3], "loop.md", "exec"), names)
    assert names["messages"][0]["call_id"] == "call_1"
    assert "slack__" in json.dumps(names["messages"])
