"""Scripts over real servers: right ones give what they should, wrong ones get the right error.

Those that the three small servers are enough for run in `make test`; all run in `make test-long`.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import mcp.types as types
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

import shortlist

from .clients import Result, Sdk2, sdk2
from .gateway_process import Setup, over_http
from .right_scripts import RIGHT
from .script_material import LOG, ORDERS, SETTINGS, Right, Wrong, write_data
from .servers import SERVERS, SMALL, RealServer, entries, fill
from .wrong_scripts import WRONG

#: In the environment of the gateway and of each server, never in that of a script.
SECRET = "sk-never-in-a-script-1f9a"
ALL = tuple(
    one for one in SERVERS if one in SMALL or one.name in ("memory", "sqlite", "everything")
)


@dataclass
class Ran:
    """What scripts came to, through one gateway that still runs.

    Args:
        address: of the gateway.
        work: folder that the servers share.
    """

    address: str
    work: Path
    right: dict[str, Result] = field(default_factory=dict)
    wrong: dict[str, Result] = field(default_factory=dict)
    after: dict[str, Result] = field(default_factory=dict)


@contextmanager
def _gateway(root: Path, servers: Iterable[RealServer], *, install: bool) -> Iterator[Ran]:
    """A gateway that has run all scripts for these servers."""
    work = root / "work"
    work.mkdir(parents=True)
    fill(work)
    write_data(work)
    found, missing = entries(servers, work, install=install)
    if missing:
        pytest.skip("; ".join(missing))
    for entry in found.values():
        entry["env"]["SERVICE_TOKEN"] = SECRET
    setup = Setup.write(root / "home", found, SETTINGS)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("GATEWAY_TOKEN", SECRET)
        with over_http(setup) as served:
            served.settle(200)
            ran = Ran(served.address, work)
            anyio.run(_run_all, ran, set(found))
            yield ran


async def _run_all(ran: Ran, servers: set[str]) -> None:
    is_small = len(servers) == len(SMALL)
    async with sdk2(ran.address, {}) as client:
        for good in RIGHT:
            if good.is_small or not is_small:
                ran.right[good.name] = await _run(client, good.code, ran.work)
        for bad in WRONG:
            if bad.is_small or not is_small:
                ran.wrong[bad.name] = await _run(client, bad.code, ran.work)
                ran.after[bad.name] = await _run(client, "1 + 1", ran.work)
        ran.after["search"] = await client.call("search_tools", {"query": "read a file"})


async def _run(client: Sdk2, code: str, work: Path) -> Result:
    result = await client.call("run_code", {"code": code.replace("{work}", str(work))})
    return result["structuredContent"]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    with _gateway(tmp_path_factory.mktemp("small"), SMALL, install=False) as ran:
        yield ran


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    with _gateway(tmp_path_factory.mktemp("every"), ALL, install=True) as ran:
        yield ran


def cases(table: Iterable[Right | Wrong]) -> list[Any]:
    """A script and the gateway that it ran through."""
    table = list(table)
    return [pytest.param(one, "small", id=one.name) for one in table if one.is_small] + [
        pytest.param(one, "every", id=f"{one.name}, all servers", marks=pytest.mark.long)
        for one in table
    ]


GATEWAYS = [pytest.param("small"), pytest.param("every", marks=pytest.mark.long)]


def test_there_are_thirty_of_each_and_the_record_counts_them() -> None:
    assert len(RIGHT) >= 30
    assert len(WRONG) >= 30
    record = Path(shortlist.__file__).parent / "docs" / "adr" / "0021-code-mode.md"
    text = record.read_text(encoding="utf-8")
    assert f"| {len(RIGHT)} scripts over six real servers" in text
    assert f"| {len(WRONG)} wrong or hostile scripts" in text


@pytest.mark.parametrize(("script", "gateway"), cases(RIGHT))
def test_a_right_script(script: Right, gateway: str, request: pytest.FixtureRequest) -> None:
    held = request.getfixturevalue(gateway).right[script.name]
    assert held["error"] is None
    assert held["result"] == script.result
    assert script.output in held["output"]


@pytest.mark.parametrize(("script", "gateway"), cases(WRONG))
def test_a_wrong_script(script: Wrong, gateway: str, request: pytest.FixtureRequest) -> None:
    ran = request.getfixturevalue(gateway)
    held = ran.wrong[script.name]
    error = held["error"]
    assert error is not None
    said = " ".join([error["message"], *error.get("more", [])])
    assert [word for word in script.words if word not in said] == [], said
    assert (error["kind"], error.get("line")) == (script.kind, script.line), said
    assert held["result"] is None
    if script.kind in ("type", "syntax"):
        assert held["calls"] == []
    assert ran.after[script.name]["result"] == 2


@pytest.mark.parametrize("gateway", GATEWAYS)
def test_the_gateway_and_the_servers_are_unharmed(
    gateway: str, request: pytest.FixtureRequest
) -> None:
    ran = request.getfixturevalue(gateway)
    assert ran.after["search"]["structuredContent"]["tools"]
    repository = ["git", "-C", str(ran.work / "repo")]
    for words, said in (
        ("branch --list", "* main\n"),
        ("log --format=%s", "first\n"),
        ("diff --cached --name-only", ""),
    ):
        done = subprocess.run([*repository, *words.split()], capture_output=True, text=True)
        assert done.stdout == said
    assert not (ran.work / "made.txt").exists()


@pytest.mark.parametrize("gateway", GATEWAYS)
def test_no_credential_is_in_any_answer(gateway: str, request: pytest.FixtureRequest) -> None:
    ran = request.getfixturevalue(gateway)
    assert SECRET not in json.dumps([ran.right, ran.wrong, ran.after])


def _with(ran: Ran, use: Callable[[Sdk2], Any]) -> Any:
    async def run() -> Any:
        async with sdk2(ran.address, {}) as client:
            return await use(client)

    return anyio.run(run)


def test_a_result_is_whole_inside_and_what_leaves_it_is_cut_and_stored(small: Ran) -> None:
    code = (
        'text = (await filesystem.read_text_file(path="{work}/data/orders.json"))["content"]\n'
        "print(len(text))\ntext"
    )

    async def use(client: Sdk2) -> tuple[Result, str]:
        held = await _run(client, code, small.work)
        name = json.loads(held["whole"].removeprefix("read_result "))
        parts = []
        while not parts or not parts[-1].endswith("[end of the result]"):
            read = await client.call("read_result", name)
            parts.append(read["content"][0]["text"])
        return held, "".join(re.sub(r"\n\[[^\[]*\]$", "", part) for part in parts)

    held, whole = _with(small, use)
    text = json.dumps(ORDERS)
    assert held["output"] == f"{len(text)}\n"
    assert "more characters of the result are left out" in held["result"]
    assert len(held["result"]) < len(text) / 2
    assert whole == f"{len(text)}\n\n{json.dumps(text)}"


def test_effects_before_a_failure_are_reported(small: Ran) -> None:
    code = (
        'await filesystem.write_file(path="{work}/made/kept.txt", content="kept")\n'
        'await filesystem.read_text_file(path="{work}/made/none.txt")'
    )

    async def use(client: Sdk2) -> Result:
        await _run(client, 'await filesystem.create_directory(path="{work}/made")', small.work)
        return await _run(client, code, small.work)

    held = _with(small, use)
    assert (held["error"]["line"], held["result"]) == (2, None)
    [effect] = held["error"]["effects"]
    assert effect.startswith("filesystem/write_file ")
    assert "do not repeat those that succeeded" in held["error"]["note"]
    assert (small.work / "made" / "kept.txt").read_text() == "kept"


def test_a_cancelled_script_makes_no_more_calls(small: Ran) -> None:
    code = (
        'await filesystem.create_directory(path="{work}/made")\n'
        "n = 0\nwhile True:\n    n += 1\n"
        '    await filesystem.write_file(path="{work}/made/count.txt", content=str(n))'
    )
    count = small.work / "made" / "count.txt"

    async def use(client: Sdk2) -> tuple[str, str, Result]:
        async with anyio.create_task_group() as group:
            group.start_soon(_run, client, code, small.work)
            with anyio.fail_after(60):
                while not count.exists() or not count.read_text().strip():
                    await anyio.sleep(0.05)
            group.cancel_scope.cancel()
        after = await _run(client, "1 + 1", small.work)
        first = count.read_text()
        await anyio.sleep(0.5)
        return first, count.read_text(), after

    first, later, after = _with(small, use)
    assert first == later
    assert after["result"] == 2


@pytest.mark.parametrize("action", ["accept", "decline"])
def test_a_person_is_asked_for_what_destroys(small: Ran, action: str) -> None:
    code = (
        'await git.git_add(repo_path="{work}/repo", files=["more.py"])\n'
        'try:\n    await git.git_reset(repo_path="{work}/repo")\n    done = True\n'
        "except PermissionError as error:\n    done = str(error)\ndone"
    )
    questions: list[str] = []

    async def answer(_context: Any, params: Any) -> types.ElicitResult:
        questions.append(params.message)
        return types.ElicitResult(action=action)

    async def run() -> Mapping[str, Any]:
        transport = streamable_http_client(small.address)
        async with Client(transport, elicitation_callback=answer) as client:
            given = {"code": code.replace("{work}", str(small.work))}
            result = await client.call_tool("run_code", given)
            return result.structured_content or {}

    held = anyio.run(run)
    subprocess.run(["git", "-C", str(small.work / "repo"), "reset", "--quiet"], check=True)
    assert held["error"] is None
    assert held["result"] is True or "not approved" in held["result"]
    assert (held["result"] is True) is (action == "accept")
    [question] = questions
    assert "call git/git_reset" in question
    assert "except PermissionError" in question


def test_the_material_is_what_the_scripts_expect() -> None:
    assert sum("ERROR" in line for line in LOG) == 12
    assert len(ORDERS) == 200
