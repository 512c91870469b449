"""Whose request a server's message belongs to, and which requests run side by side."""

from __future__ import annotations

from types import SimpleNamespace

import anyio
import anyio.lowlevel
import mcp.types as types
import pytest
from mcp import MCPError

from shortlist.gateway import turns as turns_module
from shortlist.gateway.patience import Patience
from shortlist.gateway.server_requests import Front, ServerRequests
from shortlist.gateway.turns import Turns

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


def caller(client=None):
    return SimpleNamespace(client=client if client is not None else object())


async def run_once(turns, who, key, spoken=False):
    async with turns.turn(who, key):
        if spoken:
            turns.note()


async def entered(turns, who, key):
    """Whether a request starts at once."""
    with anyio.move_on_after(0.05):
        async with turns.turn(who, key):
            return True
    return False


async def test_a_message_belongs_to_the_one_request_in_work():
    turns, ann = Turns(), caller()
    assert turns.is_idle
    assert turns.speaker() is None
    async with turns.turn(ann, "a"):
        assert turns.speaker() is ann
        async with turns.turn(caller(ann.client), "b"):
            assert turns.speaker() is ann
    assert turns.is_idle


async def test_quiet_requests_run_side_by_side_and_their_messages_belong_to_nobody():
    turns, ann, bob = Turns(), caller(), caller()
    await run_once(turns, ann, "a")
    async with turns.turn(ann, "a"), turns.turn(bob, "a"):
        assert turns.speaker() is None


async def test_a_first_request_and_one_that_spoke_run_beside_no_other_such():
    turns, ann, bob = Turns(), caller(), caller()
    await run_once(turns, ann, "quiet")
    await run_once(turns, ann, "speaks", spoken=True)
    for key in ("new", "speaks"):
        async with turns.turn(ann, key):
            assert not await entered(turns, bob, "speaks")
            assert not await entered(turns, bob, "other")
            assert await entered(turns, bob, "quiet")
            assert await entered(turns, caller(ann.client), "speaks")
    # A second run without a word does not make it quiet: it spoke in the one before.
    await run_once(turns, ann, "speaks")
    async with turns.turn(ann, "speaks"):
        assert not await entered(turns, bob, "speaks")


async def test_a_question_waits_until_it_is_certain_whose_it_is():
    turns, ann, bob = Turns(), caller(), caller()
    await run_once(turns, ann, "a")
    await run_once(turns, ann, "b")
    done = anyio.Event()

    async def other():
        async with turns.turn(bob, "b"):
            await done.wait()

    async with anyio.create_task_group() as group, turns.turn(ann, "a"):
        group.start_soon(other)
        await anyio.sleep(0.01)
        turns.note()
        group.start_soon(end_later, done)
        assert await turns.certain_speaker(5) is ann
    # It was not certain which of the two spoke, so each runs alone once more.
    async with turns.turn(ann, "a"):
        assert not await entered(turns, bob, "b")


async def end_later(done):
    await anyio.sleep(0.05)
    done.set()


async def test_new_requests_wait_while_it_is_uncertain_whose_a_question_is():
    turns, ann, bob = Turns(), caller(), caller()
    await run_once(turns, ann, "a")
    async with anyio.create_task_group() as group, turns.turn(ann, "a"), turns.turn(bob, "a"):
        group.start_soon(turns.certain_speaker, 0.3)
        await anyio.sleep(0.01)
        assert not await entered(turns, caller(), "a")
        with anyio.fail_after(5):
            assert await turns.certain_speaker(0.3) is None


async def test_a_cancelled_request_may_still_speak_for_a_while(monkeypatch):
    monkeypatch.setattr(turns_module, "_AFTERMATH", 0.2)
    turns, ann, bob = Turns(), caller(), caller()
    await run_once(turns, bob, "b")
    with anyio.move_on_after(0.01):
        async with turns.turn(ann, "a"):
            await anyio.sleep(5)
    async with turns.turn(bob, "b"):
        assert turns.speaker() is None
        with anyio.fail_after(5):
            assert await turns.certain_speaker(5) is bob


async def test_a_request_that_its_server_refused_is_over():
    turns, bob = Turns(), caller()
    with pytest.raises(MCPError):
        async with turns.turn(caller(), "a"):
            raise MCPError(-32602, "no")
    assert turns.is_idle
    async with turns.turn(bob, "b"):
        assert turns.speaker() is bob


async def test_waiting_for_a_turn_takes_no_time_of_the_request(monkeypatch):
    monkeypatch.setattr(turns_module, "_SHORT_WAIT", 0.4)

    async def answered(*args, **given):
        return "answer"

    client = SimpleNamespace(session=SimpleNamespace(send_request=answered))
    ann = SimpleNamespace(
        client=object(), wished_level=None, progress=None, settle=anyio.lowlevel.checkpoint
    )
    requests = ServerRequests("one", Front())
    send = requests.sending(types.PingRequest(), None, ann, key="new")
    async with requests.turns.turn(caller(), "takes long"):
        with Patience(0.1) as patience:
            assert await send(client, patience) == "answer"


async def test_waiting_has_an_end(monkeypatch):
    monkeypatch.setattr(turns_module, "_SHORT_WAIT", 0.05)
    turns, bob = Turns(), caller()
    async with turns.turn(caller(), "takes long"):
        with anyio.fail_after(5):
            async with turns.turn(bob, "new"):
                assert turns.speaker() is None
    await run_once(turns, bob, "speaks", spoken=True)
    async with turns.turn(caller(), "takes longer"):
        assert not await entered(turns, bob, "speaks")
