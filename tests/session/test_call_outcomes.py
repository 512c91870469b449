"""A call ends: with a result, with an error, or with an outcome that nobody knows."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

from shortlist import Engine, Session, State, Tool
from shortlist.gating import Gate, Provides, Rule, after, milestone, not_

TOOLS = [
    Tool("transfer", "bank", "Transfer money to an account"),
    Tool("receipt", "bank", "Print the receipt of a transfer"),
    Tool("balance", "bank", "Show the balance of an account"),
]
ONCE = Gate(
    [
        Rule(not_(after("bank/transfer")), tools="bank/transfer"),
        Rule(after("bank/transfer"), tools="bank/receipt"),
    ]
)
ONCE_BY_MILESTONE = Gate(
    [Rule(not_(milestone("paid")), tools="bank/transfer", provides=Provides(milestones=["paid"]))]
)
UNKNOWN = "the outcome of an earlier call of bank/transfer is not known"


def reply(*names: str) -> dict[str, Any]:
    calls = [
        {"id": f"call_{at}", "type": "function", "function": {"name": name, "arguments": "{}"}}
        for at, name in enumerate(names)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def make_session(gate: Gate = ONCE) -> Session:
    session = Engine.from_tools(TOOLS, gate=gate, tiers=["lexical"]).session("openai")
    session.turn("transfer money")
    return session


def assert_spent(session: Session) -> None:
    verdict = session.check("bank/transfer", {})
    assert verdict.status == "denied"
    assert UNKNOWN in verdict.message
    assert session.state.called == ()


@pytest.mark.parametrize("gate", [ONCE, ONCE_BY_MILESTONE], ids=["after", "milestone"])
def test_a_cancelled_call_spends_the_limit_and_unlocks_nothing(gate: Gate) -> None:
    session = make_session(gate)

    async def main() -> None:
        started = asyncio.Event()

        async def transfer() -> str:
            started.set()
            await asyncio.sleep(60)
            return "done"

        handling = asyncio.ensure_future(
            session.ahandle(reply("bank__transfer"), {"transfer": transfer})
        )
        await started.wait()
        handling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await handling

    asyncio.run(main())
    assert_spent(session)
    if gate is ONCE:
        receipt = session.check("bank/receipt", {})
        assert receipt.status == "denied"
        assert UNKNOWN in receipt.message


def test_a_call_in_a_thread_that_is_left_behind_is_unknown() -> None:
    session, leave = make_session(), threading.Event()

    async def main() -> None:
        started = asyncio.Event()
        loop = asyncio.get_running_loop()

        def transfer() -> str:
            loop.call_soon_threadsafe(started.set)
            leave.wait(20)
            return "done"

        handling = session.ahandle(reply("bank__transfer"), {"transfer": transfer})
        task = asyncio.ensure_future(handling)
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        leave.set()

    asyncio.run(main())
    assert_spent(session)


def test_calls_that_ended_before_a_cancellation_keep_their_outcome() -> None:
    session = make_session()
    session.turn("show the balance")

    async def main() -> None:
        balance_is_done = asyncio.Event()

        async def balance() -> str:
            balance_is_done.set()
            return "100"

        async def transfer() -> str:
            await asyncio.sleep(60)
            return "done"

        functions = {"balance": balance, "transfer": transfer}
        task = asyncio.ensure_future(
            session.ahandle(reply("bank__balance", "bank__transfer"), functions)
        )
        await balance_is_done.wait()
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert session.state.called == ("bank/balance",)
    assert session.state.unknown == ("bank/transfer",)


def test_a_call_without_an_outcome_at_save_is_unknown_after_resume() -> None:
    engine = Engine.from_tools(TOOLS, gate=ONCE, tiers=["lexical"])
    session = engine.session("openai")
    session.turn("transfer money")
    assert session.check("bank/transfer", {}).passed
    waiting = session.check("bank/transfer", {})
    assert waiting.status == "denied"
    assert "an earlier call has no outcome yet" in waiting.message
    saved = json.loads(json.dumps(session.save()))
    assert_spent(engine.resume(saved, state=State()))


def test_a_reported_unknown_outcome() -> None:
    session = make_session()
    verdict = session.check("bank/transfer", {})
    session.result(verdict, "", ok=None)
    assert_spent(session)
    again = Engine.from_tools(TOOLS, gate=ONCE, tiers=["lexical"])
    assert_spent(again.resume(session.save(), state=State()))


def test_an_interrupted_handle_records_every_call() -> None:
    session = make_session()

    def interrupt() -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        session.handle(reply("bank__transfer"), {"transfer": interrupt})
    assert_spent(session)
