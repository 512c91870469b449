"""Whatever a script tries, it reaches no tool that the view does not admit."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shortlist import State
from shortlist.codemode import CodeRunner, ToolNames
from shortlist.tests.codemode.servers import ENGINE, TOOLS, Servers

NAMES = ToolNames(ENGINE.catalog)
CALLS = [".".join(NAMES.of(tool.id)) for tool in TOOLS]
ARGUMENTS = {"create": "title='t'", "delete": "number=1", "wait": "seconds=0", "post": "text='x'"}


def _call(name: str, way: str) -> str:
    """Lines that try a call, and go on whatever comes of it."""
    inner = ARGUMENTS.get(name.partition(".")[2], "")
    space, _, function = name.partition(".")
    tried = {
        "plain": f"await {name}({inner})",
        "eval": f"await eval('{space}.' + '{function}({inner.replace(chr(39), chr(34))})')",
        "alias": f"s = {space}\n    await s.{function}({inner})",
        "gather": f"await asyncio.gather({name}({inner}))",
        "value": f"await eval('{space}').{function}({inner})",
    }[way]
    return f"try:\n    {tried}\nexcept Exception as error:\n    print(error)\n"


_WAYS = st.sampled_from(["plain", "eval", "alias", "gather", "value"])
_SCRIPTS = st.lists(st.tuples(st.sampled_from(CALLS), _WAYS), min_size=1, max_size=4)
_IDS = [tool.id for tool in TOOLS]
_ALLOWED = st.lists(st.sampled_from([*_IDS, "logs/*", "issues/*", "vault/*"]), max_size=5)


@pytest.fixture(scope="module")
def loop():
    with asyncio.Runner() as runner:
        made = CodeRunner()
        yield lambda *args: runner.run(made.run(*args))
        runner.run(made.aclose())


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(_SCRIPTS, _ALLOWED, st.sets(st.sampled_from(["admin", "user"])))
def test_tools_reached_are_a_subset_of_what_the_view_admits(loop, script, allowed, scopes):
    servers = Servers()
    session = ENGINE.session(state=State(scopes=scopes), allowed=allowed)
    admitted = {tool.id for tool in session.view().tools()}
    code = "import asyncio\n" + "".join(_call(name, way) for name, way in script)
    result = loop(session, code, servers.call)
    reached = {name for name, _ in servers.calls}
    assert reached <= admitted - {"issues/delete"}
    assert {one.tool for one in result.calls if one.ok} <= reached


def test_permitted_tools_are_reached_in_every_way(loop):
    for way in ("plain", "eval", "alias", "gather", "value"):
        servers = Servers()
        code = "import asyncio\n" + _call("issues.create", way)
        loop(ENGINE.session(allowed=["issues/*"]), code, servers.call)
        assert [name for name, _ in servers.calls] == ["issues/create"], way
