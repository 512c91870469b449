"""A person approves a call and all later ones like it, until a day."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import mcp.types as types
import pytest
from mcp import Client
from typer.testing import CliRunner

from shortlist import Gate, Rule, Tool
from shortlist.cli.app import app
from shortlist.codemode import Grant
from shortlist.errors import PinsError
from shortlist.gateway.profiles import remembered_approvals
from shortlist.gateway.profiles.profile import Profile
from shortlist.gateway.profiles.remembered_approvals import RememberedApprovals
from shortlist.gateway.server import Gateway
from shortlist.gateway.upstream.first_use import approvals_file
from shortlist.gating import argument

from .fake_servers import FakeServer, fleet_of, relisted, text_of, tool

pytestmark = pytest.mark.anyio

ASKS = Rule(tools="bank/*", approval=True)
AMOUNT = {"type": "object", "properties": {"amount": {"type": "number"}}}
LARGE = Rule(tools="bank/*", when=argument("amount", above=100), approval=True)


class User:
    """Accepts each call, and wants it remembered if the question offers that."""

    def __init__(self, *, remember: bool = True) -> None:
        self.questions: list[str] = []
        self.offers: list[bool] = []
        self._remember = remember

    async def answer(self, context, params):
        self.questions.append(params.message)
        self.offers.append("remember" in params.requested_schema["properties"])
        return types.ElicitResult(action="accept", content={"remember": self._remember})


class Bank:
    """A gateway in front of one server, whose user is asked about calls."""

    def __init__(self, made: Gateway, server: FakeServer, mode: str) -> None:
        self.made = made
        self.server = server
        self._mode = mode

    async def asked(self, user: User, **arguments: object) -> bool:
        """Whether a call of a new client asks the user. It is made in any case."""
        before, calls = len(user.questions), len(self.server.calls)
        options = {"mode": self._mode, "elicitation_callback": user.answer}
        async with Client(self.made.server, **options) as client:
            call = {"name": "bank/pay", "arguments": arguments}
            answer = await client.call_tool("call_tool", call)
            if "promoted" in text_of(answer):  # the model reads the changed definition first
                answer = await client.call_tool("call_tool", call)
        assert not answer.is_error, text_of(answer)
        assert len(self.server.calls) == calls + 1
        return len(user.questions) > before

    async def script_asked(self, user: User) -> bool:
        """Whether a call in a script of a new client asks the user. It is made in any case."""
        before, calls = len(user.questions), len(self.server.calls)
        options = {"mode": self._mode, "elicitation_callback": user.answer}
        async with Client(self.made.server, **options) as client:
            answer = await client.call_tool("run_code", {"code": "await bank.pay(amount=1)"})
        assert answer.structured_content["error"] is None, answer
        assert len(self.server.calls) == calls + 1
        return len(user.questions) > before

    def use_profile(self, name: str, *rules: Rule, **more: Any) -> None:
        """Give all clients this profile."""
        profile = Profile(name, pass_through=0.0, rules=Gate(list(rules)), **more)
        self.made.sessions.replace_profiles(profile, {})


@pytest.fixture(params=["legacy", "auto"])
async def bank(request, tmp_path):
    server = FakeServer("bank", [tool("pay", input_schema=AMOUNT)])
    async with fleet_of(tmp_path, server) as fleet:
        remembered = RememberedApprovals(tmp_path / "approvals.json", days=30)
        bank = Bank(Gateway(fleet, remembered=remembered), server, request.param)
        bank.use_profile("a", ASKS)
        yield bank


async def test_nobody_is_asked_again_about_the_same_tool_until_the_end(bank, tmp_path, monkeypatch):
    assert await bank.asked(User(remember=False))
    user = User()
    assert await bank.asked(user, amount=1)
    assert user.offers == [True]
    assert not await bank.asked(user, amount=5_000)
    assert (tmp_path / "approvals.json").stat().st_mode & 0o077 == 0
    later = time.time() + 31 * 86_400
    monkeypatch.setattr(remembered_approvals.time, "time", lambda: later)
    assert await bank.asked(user)


async def test_another_definition_profile_or_rule_asks_again(bank):
    user = User()
    assert await bank.asked(user)
    bank.use_profile("b", ASKS)
    assert await bank.asked(user)
    bank.use_profile("a", Rule(tools="bank/pay", approval=True))
    assert await bank.asked(user)
    assert not await bank.asked(user)
    await relisted(bank.made, bank.server, tool("pay", "Pay twice.", input_schema=AMOUNT))
    assert await bank.asked(user)
    assert not await bank.asked(user)


async def test_a_rule_about_arguments_always_asks(bank):
    user = User()
    bank.use_profile("a", ASKS, LARGE)
    assert await bank.asked(user, amount=1)
    assert not await bank.asked(user, amount=2)
    assert await bank.asked(user, amount=120)
    assert await bank.asked(user, amount=120)
    assert user.offers == [True, False, False]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_script_asks_no_more_than_a_call_unless_a_grant_asks(bank):
    user = User()
    bank.use_profile("a", ASKS, has_run_code=True)
    assert await bank.script_asked(user)
    assert user.offers == [False]
    assert await bank.asked(user)
    assert not await bank.script_asked(user)
    for grant in (Grant("bank/*", "ask"), Grant("bank/*", count=5)):
        bank.use_profile("a", ASKS, has_run_code=True, grants=(grant,))
        assert await bank.script_asked(user)
    bank.use_profile("b", ASKS, has_run_code=True)
    assert await bank.script_asked(user)
    await bank.made.aclose()


async def test_a_file_that_cannot_be_read_approves_nothing(bank, tmp_path):
    path = tmp_path / "approvals.json"
    assert await bank.asked(User())
    for text in ("no JSON", "[]", '{"approvals": [{"tool": "bank/pay"}]}'):
        path.write_text(text)
        assert await bank.asked(User(remember=False))
        with pytest.raises(PinsError, match="no file of approvals"):
            RememberedApprovals(path).read()


def test_a_new_approval_stays_in_a_full_file(tmp_path, monkeypatch):
    monkeypatch.setattr(remembered_approvals, "_MAX_APPROVALS", 3)
    path, tools = tmp_path / "approvals.json", [Tool(f"pay{number}", "bank") for number in range(4)]
    for tool_ in tools[:3]:
        RememberedApprovals(path, days=30).remember("a", tool_, [ASKS])
    RememberedApprovals(path, days=1).remember("a", tools[3], [ASKS])
    kept = [row.tool for row in RememberedApprovals(path).read()]
    assert kept == ["bank/pay1", "bank/pay2", "bank/pay3"]


def test_trust_lists_and_revokes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    config = tmp_path / "mcp.json"
    config.write_text('{"mcpServers": {}}')
    approvals = RememberedApprovals(approvals_file(config), days=30)
    approvals.remember("support", Tool("pay", "bank"), [ASKS])

    def run(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["trust", *words, "--config", str(config)])
        return done.exit_code, done.output

    listed = run("approvals")
    assert listed[0] == 0
    assert listed[1].startswith("bank/pay: profile support, until 20")
    assert run("revoke", "bank/pay") == (0, "revoked bank/pay\n")
    assert run("approvals") == (0, "no approval is remembered\n")
    code, output = run("revoke", "bank/pay")
    assert code == 2
    assert "no approval is remembered for" in " ".join(output.split())
