"""What code mode costs beyond the type check, measured in one run.

`python -m shortlist.tests.codemode.overhead` prints milliseconds and the load of the machine.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from time import perf_counter

from mcp import Client

from shortlist.codemode import CodeRunner, Limits
from shortlist.codemode.monty import MontySandbox
from shortlist.gateway.profiles.profile import Profile
from shortlist.gateway.server import Gateway
from shortlist.tests.codemode.servers import Servers, new_session
from shortlist.tests.gateway.fake_servers import READ, FakeServer, fleet_of, tool

SCRIPTS, CALLS, WAIT = 8, 200, 0.5
_COMPUTE = "n = 0\nfor i in range(500_000):\n    n += i\nn"


class WithoutTypeCheck(MontySandbox):
    """The sandbox without the type check, whose time depends on the stubs."""

    type_check = False


async def _timed(times: int, make: Callable[[], Awaitable[object]]) -> float:
    """Median milliseconds."""
    took = []
    for _ in range(times):
        start = perf_counter()
        await make()
        took.append((perf_counter() - start) * 1e3)
    return median(took)


async def _direct(session, servers) -> None:
    verdict = session.check("logs/count-lines", {})
    await servers.call(verdict.tool, verdict.arguments)
    await asyncio.to_thread(session.result, verdict.tool.id, "", ok=True)


async def of_scripts() -> dict[str, float]:
    """Milliseconds: an empty script, a direct call, a call of a script, one and eight waits."""
    servers, session = Servers(), new_session(must_offer=False)
    async with CodeRunner(WithoutTypeCheck(), limits=Limits(calls=2_000)) as runner:

        async def run(code):
            result = await runner.run(session, code, servers.call)
            assert result.ok, result.error

        wait = f"await issues.wait(seconds={WAIT})"
        loop = f"for _ in range({CALLS}):\n    await logs.count_lines()"
        await asyncio.gather(*[run(wait) for _ in range(SCRIPTS)])
        await run(loop)
        empty = await _timed(50, lambda: run("1"))
        direct = await _timed(300, lambda: _direct(session, servers))
        script = await _timed(5, lambda: run(loop))
        one = await _timed(3, lambda: run(wait))
        eight = await _timed(3, lambda: asyncio.gather(*[run(wait) for _ in range(SCRIPTS)]))
        checked = CodeRunner()
        async with checked:
            code = "(await logs.count_lines())[0]"
            await checked.run(session, code, servers.call)
            whole = await _timed(20, lambda: checked.run(session, code, servers.call))
            bare = await _timed(20, lambda: run(code))
    return {
        "empty script": empty,
        "direct call": direct,
        "call of a script": (script - empty) / CALLS,
        "call beyond a direct one": (script - empty) / CALLS - direct,
        "type check": whole - bare,
        "one script that waits": one,
        "eight scripts that wait": eight,
    }


async def of_gateway(folder: Path) -> dict[str, float]:
    """Milliseconds of a search and of a call, alone and while eight scripts compute."""
    rows = [tool(f"read-{name}", f"Reads {name}.", hints=READ) for name in ("logs", "mails")]
    async with fleet_of(folder, FakeServer("shop", rows)) as fleet:
        made = Gateway(fleet, Profile(pass_through=0.0, has_run_code=True))
        async with Client(made.server) as client:

            async def scripts() -> None:
                given = {"code": _COMPUTE}
                many = [client.call_tool("run_code", given) for _ in range(SCRIPTS)]
                for one in await asyncio.gather(*many):
                    assert one.structured_content["error"] is None

            async def search() -> None:
                await client.call_tool("search_tools", {"query": "read the logs"})

            async def call() -> None:
                await client.call_tool("call_tool", {"name": "shop/read-logs"})

            await scripts()
            found = {"search": await _timed(30, search), "gateway call": await _timed(30, call)}
            running = asyncio.ensure_future(_repeated(scripts, 4))
            searches, calls = [], []
            while not running.done():
                searches.append(await _timed(1, search))
                calls.append(await _timed(1, call))
                await asyncio.sleep(0.005)
            await running
        await made.aclose()
    found["search while eight scripts compute"] = median(searches)
    found["gateway call while eight scripts compute"] = median(calls)
    return found


async def _repeated(make: Callable[[], Awaitable[None]], times: int) -> None:
    for _ in range(times):
        await make()


def measured() -> dict[str, float]:
    """All of it, one after the other."""
    with tempfile.TemporaryDirectory() as name:
        return asyncio.run(of_scripts()) | asyncio.run(of_gateway(Path(name)))


if __name__ == "__main__":
    before = os.getloadavg()[0]
    held = {name: round(value, 2) for name, value in measured().items()}
    held |= {"load before": round(before, 1), "cores": os.cpu_count()}
    sys.stdout.write(f"{json.dumps(held, indent=1)}\n")
