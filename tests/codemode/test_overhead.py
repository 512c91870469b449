"""What code mode costs beyond the type check: an empty script, and a call through the broker."""

from __future__ import annotations

import asyncio
from statistics import median
from time import perf_counter

from shortlist.codemode import CodeRunner, Limits
from shortlist.codemode.broker import Broker
from shortlist.codemode.monty import MontySandbox
from shortlist.codemode.names import ToolNames
from shortlist.tests.codemode.servers import ENGINE, Servers, new_session


class WithoutTypeCheck(MontySandbox):
    """The sandbox without the type check, whose time depends on the stubs."""

    type_check = False


async def _timed(times: int, make) -> float:
    """Median milliseconds."""
    took = []
    for _ in range(times):
        start = perf_counter()
        await make()
        took.append((perf_counter() - start) * 1e3)
    return median(took)


async def _direct(session, servers) -> None:
    verdict = await session.acheck("logs/count-lines", {})
    await servers.call(verdict.tool, verdict.arguments)
    await asyncio.to_thread(session.result, verdict.tool.id, "", ok=True)


def measured() -> dict[str, float]:
    """Milliseconds: an empty script, a direct call, and one more call of a script."""

    async def main():
        servers, session = Servers(), new_session()
        async with CodeRunner(WithoutTypeCheck(), limits=Limits(calls=2_000)) as runner:

            async def run(code):
                result = await runner.run(session, code, servers.call)
                assert result.ok, result.error

            await run("1")
            calls = 200
            loop = f"for _ in range({calls}):\n    await logs.count_lines()"
            await run(loop)
            empty = await _timed(50, lambda: run("1"))
            direct = await _timed(300, lambda: _direct(session, servers))
            script = await _timed(5, lambda: run(loop))
            return {"empty": empty, "direct": direct, "brokered": (script - empty) / calls}

    return asyncio.run(main())


def test_an_empty_script_and_a_call_cost_little():
    # The quickest of three: other programs on the machine only add to the time.
    found = [measured() for _ in range(3)]
    assert min(one["empty"] for one in found) < 5
    assert min(one["brokered"] - one["direct"] for one in found) < 1


def test_the_broker_counts_what_it_refuses():
    servers = Servers()
    names = ToolNames(ENGINE.catalog)
    broker = Broker(new_session(), names, servers.call, code="", most=3)

    async def main():
        for _ in range(3):
            await broker.call("logs", "count_lines", (), {})
        try:
            await broker.call("logs", "count_lines", (), {})
        except RuntimeError as error:
            return str(error)
        return ""

    assert "more than 3 calls" in asyncio.run(main())
    assert len(servers.calls) == 3


if __name__ == "__main__":
    print(measured())  # noqa: T201 - the figures of the page
