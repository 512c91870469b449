"""Whatever a script tries, it reaches no tool that its client may not use, and no forbidden server.

What is permitted is computed here a second time, by rules so simple that they can be read.
"""

from __future__ import annotations

import asyncio
import json
import os
from fnmatch import fnmatchcase

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shortlist import Engine, Tool
from shortlist.codemode import CodeRunner, Flow, MontySandbox, ToolNames
from shortlist.errors import ToolCallError
from shortlist.gateway.profiles.gateway_settings import GatewaySettings
from shortlist.gateway.profiles.profile import Profile, ProfileViews
from shortlist.session import Session
from shortlist.tests.codemode.servers import ENGINE, TOOLS, Servers

EXAMPLES = int(os.environ.get("SHORTLIST_EXAMPLES", "60"))
NAMES = ToolNames(ENGINE.catalog)
ARGUMENTS = {"create": "title='t'", "delete": "number=1", "wait": "seconds=0", "post": "text='x'"}
WAYS = (
    *("plain", "eval", "exec", "alias", "gather", "value", "getattr", "passed", "parts", "main"),
    *("attribute", "named"),
)


def _call(name: str, way: str) -> str:
    """Lines that try a call, and go on whatever comes of it."""
    space, _, function = name.partition(".")
    inner = ARGUMENTS.get(function, "")
    quoted = inner.replace("'", '"')
    half = len(function) // 2
    tried = {
        "plain": f"await {name}({inner})",
        "eval": f"await eval('{space}.' + '{function}({quoted})')",
        "exec": f"made = []\n    exec('made.append({space}.{function}({quoted}))')\n"
        "    await made[0]",
        "alias": f"s = {space}\n    await s.{function}({inner})",
        "gather": f"await asyncio.gather({name}({inner}))",
        "value": f"await eval('{space}').{function}({inner})",
        "getattr": f"await getattr({space}, '{function}')({inner})",
        "passed": f"f = {name}\n    await f({inner})",
        "parts": f"await eval('{space}.{function[:half]}' + '{function[half:]}({quoted})')",
        "main": f"async def main():\n        return await {name}({inner})\n    await main()",
        "attribute": f"await {space}.__class__.{function}({inner})",
        "named": f"await eval('{space}__{function}')({inner})",
    }[way]
    return f"try:\n    {tried}\nexcept Exception as error:\n    print(error)\n"


_CALLS = st.tuples(
    st.sampled_from([".".join(NAMES.function_of(tool.id)) for tool in TOOLS]), st.sampled_from(WAYS)
)
_IDS = [tool.id for tool in TOOLS]
_GLOBS = st.sampled_from([*_IDS, "logs/*", "issues/*", "vault/*", "*/create", "*"])
_SOME = st.lists(_GLOBS, max_size=3)
_PROFILES = st.fixed_dictionaries(
    {
        "tools": _SOME,
        "servers": st.lists(st.sampled_from(["logs", "issues", "vault", "*"]), max_size=3),
        "scopes": st.lists(st.sampled_from(["admin", "user"]), max_size=2),
        "rules": st.lists(
            st.fixed_dictionaries(
                {
                    "tools": st.lists(_GLOBS, min_size=1, max_size=2),
                    "needs": st.just({"scope": "user"}),
                }
            ),
            max_size=2,
        ),
        "code": st.fixed_dictionaries({"allow": _SOME, "deny": _SOME, "ask": _SOME}),
    }
)


def _any(globs, text) -> bool:
    return any(fnmatchcase(text, glob) for glob in globs)


def admitted(profile: dict, consents: bool) -> set[str]:
    """Ids of the tools that scripts of a profile may reach."""
    found, code, scopes = set(), profile["code"], profile["scopes"]
    for tool in TOOLS:
        rules = [rule for rule in profile["rules"] if _any(rule["tools"], tool.id)]
        destroys = tool.name == "delete"
        asked = _any(code["ask"], tool.id) or (destroys and tool.id not in code["allow"])
        if (
            _any(profile["tools"], tool.id)
            and _any(profile["servers"], tool.server)
            and (tool.id != "issues/secret" or "admin" in scopes)
            and (not rules or "user" in scopes)
            and not _any(code["deny"], tool.id)
            and (consents or not asked)
        ):
            found.add(tool.id)
    return found


class Unchecked(MontySandbox):
    """Without the type check, which refuses a script as a whole: then every line is tried."""

    type_check = False


@pytest.fixture(scope="module")
def loop():
    with asyncio.Runner() as runner:
        made = CodeRunner(), CodeRunner(Unchecked())

        def run(*args, checked=True, **options):
            return runner.run(made[not checked].run(*args, **options))

        yield run
        for one in made:
            runner.run(one.aclose())


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(_CALLS, min_size=1, max_size=5), _PROFILES, st.booleans(), st.booleans())
def test_tools_reached_are_a_subset_of_what_the_profile_admits(
    loop, script, given_, consents, checked
):
    async def approve(request):
        return consents

    servers = Servers()
    read = GatewaySettings.make({"code": True, "profiles": {"one": given_}})
    profile = Profile.of(read, "one", read.profile("one"))
    views = ProfileViews(ENGINE, profile)
    session = Session(views, views.config.session.changed({"must_offer": False}))
    code = "import asyncio\n" + "".join(_call(name, way) for name, way in script)
    options = {"grants": profile.grants, "approve": approve, "checked": checked}
    result = loop(session, code, servers.call, **options)
    reached = {name for name, _ in servers.calls}
    assert reached <= admitted(given_, consents)
    assert reached <= {tool.id for tool in session.view().tools()}
    assert {one.tool_id for one in result.calls if one.ok} <= reached
    assert checked or result.error is None
    if result.error is None:
        # Nothing that is permitted is refused.
        plain = {NAMES.tool_called(*name.split(".")).id for name, way in script if way == "plain"}
        assert plain & admitted(given_, consents) <= reached


@pytest.mark.parametrize("way", WAYS[:-2])
def test_permitted_tools_are_reached_in_every_way(loop, way):
    servers = Servers()
    code = "import asyncio\n" + _call("issues.create", way)
    result = loop(ENGINE.session(allowed=["issues/*"]), code, servers.call)
    assert [name for name, _ in servers.calls] == ["issues/create"], result


PLACES = "abcd"
_TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
#: Every server has a tool that answers and one that fails; both give its mark away.
_MARKED = Engine.from_tools(
    [Tool(name, place, input_schema=_TEXT) for place in PLACES for name in ("say", "fail")],
    tiers=["lexical"],
)
CARRIED = {
    "variable": "held[-1]",
    "container": "str({'x': [held]})",
    "joined": "''.join([held[-1][:3], held[-1][3:]])",
    "letters": "''.join(chr(ord(c)) for c in held[-1])",
    "format": "f'{held[-1]:>40}'",
    "json": "json.dumps(held)",
    "exception": "text_of(held[-1])",
}
_STEPS = st.tuples(
    st.sampled_from(PLACES), st.sampled_from(["say", "fail"]), st.sampled_from(sorted(CARRIED))
)
_ENDS = st.sampled_from([*PLACES, "[ab]", "*"])
_FLOWS = st.lists(st.tuples(_ENDS, _ENDS), max_size=3)
_BEGIN = (
    "import json\nheld = ['nothing']\n"
    "def text_of(text):\n    try:\n        raise ValueError(text)\n"
    "    except ValueError as error:\n        return str(error)\n"
)


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(_STEPS, min_size=2, max_size=7), _FLOWS)
def test_what_was_read_from_one_server_is_never_sent_where_a_rule_forbids_it(loop, steps, flows):
    calls = []

    async def call(tool, arguments):
        calls.append((tool.server, tool.name, json.dumps(arguments)))
        if tool.name == "fail":
            raise ToolCallError(f"mark-{tool.server}")
        return f"mark-{tool.server}"

    code = _BEGIN + "".join(
        f"try:\n    held.append(await {place}.{name}(text={CARRIED[way]}))\n"
        "except PermissionError:\n    pass\nexcept RuntimeError as error:\n"
        "    held.append(str(error))\n"
        for place, name, way in steps
    )
    result = loop(_MARKED.session(), code, call, flows=[Flow(*one) for one in flows])
    assert result.error is None, result.error

    def forbidden(source: str, target: str) -> bool:
        return source != target and any(
            fnmatchcase(source, one) and fnmatchcase(target, other) for one, other in flows
        )

    reached: list[tuple[str, str]] = []
    for place, name, _ in steps:
        if not any(forbidden(before, place) for before, _ in reached):
            reached.append((place, name))
    assert [(server, name) for server, name, _ in calls] == reached
    for server, _, sent in calls:
        assert not any(f"mark-{one}" in sent and forbidden(one, server) for one in PLACES)
