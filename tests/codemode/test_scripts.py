"""Scripts as a model writes them: right ones give what they should, wrong ones the right error."""

from __future__ import annotations

import asyncio
import resource
import time
from dataclasses import replace

import pytest

from shortlist import Engine, Tool
from shortlist.codemode import CodeRunner, Limits
from shortlist.tests.codemode.servers import Servers, new_session

LIMITS = Limits(
    seconds=1.0, total_seconds=20.0, memory_bytes=50_000_000, calls=50, printed_chars=50_000
)
LOOP = "import asyncio\n"
RIGHT = {
    "a call": ("await logs.count_lines()", "500"),
    "an expression of a result": ("int(await logs.count_lines()) + 1", 501),
    "a loop": (
        "n = 0\noffset = 0\nwhile offset < 500:\n"
        "    page = await logs.read(offset=offset, limit=100)\n"
        "    n += len(page['entries'])\n    offset = page['next']\nn",
        500,
    ),
    "a filter": (
        "page = await logs.read(limit=20)\n"
        "sorted({e['message'] for e in page['entries'] if e['level'] == 'error'})",
        ["failure 0", "failure 1", "failure 2"],
    ),
    "gather": (
        LOOP + "pages = await asyncio.gather(*[logs.read(offset=i * 10, limit=10) "
        "for i in range(5)])\nsum(len(p['entries']) for p in pages)",
        50,
    ),
    "try and except": (
        "try:\n    await issues.fails()\nexcept RuntimeError as error:\n    x = str(error)\nx",
        "issues.fails: the disk is full",
    ),
    "a chain across servers": (
        "page = await logs.read(limit=6)\nmade = []\n"
        "for entry in page['entries']:\n    if entry['level'] == 'error':\n"
        "        issue = await issues.create(title=entry['message'], labels=['bug'])\n"
        "        made.append(issue['number'])\nmade",
        [1, 2],
    ),
    "a nested object": (
        "(await issues.create(title='t', reporter={'name': 'Ann', 'age': 7}))['title']",
        "t",
    ),
    "an object built in steps": (
        "who = {}\nwho['name'] = 'Ann'\n(await issues.create(title='t', reporter=who))['number']",
        1,
    ),
    "a renamed argument": ("(await issues.create(title='t', assigned_to='ann'))['number']", 1),
    "a function": (
        "async def first(level: str):\n    page = await logs.read()\n"
        "    return [e for e in page['entries'] if e['level'] == level][0]['at']\n"
        "[await first('error'), await first('info')]",
        [0, 1],
    ),
    "a main function": (
        LOOP + "async def main():\n    return await logs.count_lines()\nasyncio.run(main())",
        "500",
    ),
    "json and regular expressions": (
        "import json\nimport re\n"
        "[int(x) for x in re.findall(r'\\d+', json.dumps(await logs.read(limit=1)))]",
        [0, 0, 1],
    ),
    "a list of blocks": (
        "await issues.create(title='one')\n[b['text'] for b in await issues.list_()]",
        ["one"],
    ),
    "no call": ("sum(range(10))", 45),
    "values that JSON lacks": (
        "from datetime import date\n{'day': date(2026, 1, 2), 'pair': (1, 2)}",
        {"day": "2026-01-02", "pair": [1, 2]},
    ),
    "printing only": ("print('a', 1)", None),
    # What follows is right, though the type checker has a doubt.
    "arguments in a dict": ("args = {'limit': 3}\nlen((await logs.read(**args))['entries'])", 3),
    "a list of mixed dicts": (
        "rows = [{'n': 1, 's': 'a'}, {'n': 2, 's': 'b'}]\n"
        "rows.sort(key=lambda row: -row['n'])\nrows[0]['s']",
        "b",
    ),
    "keys added to a result": (
        "page = await logs.read(limit=2)\npage['count'] = 2\n"
        "for entry in page['entries']:\n    entry['seen'] = True\n    entry.update({'by': 'me'})\n"
        "page['entries'].append({'text': 'end'})\n"
        "[page['count'], page['entries'][0]['seen'], [page[key] for key in page][-1]]",
        [2, True, 2],
    ),
    "a list of a result made longer": (
        "entries = (await logs.read(limit=1))['entries']\nentries += [{'n': 1}]\nlen(entries)",
        2,
    ),
    "a match that may be nothing": ("import re\nre.match('a(b)', 'ab').group(1)", "b"),
    "a choice in a variable": (
        "for state in 'open closed'.split():\n    await issues.create(title='t', state=state)\n"
        "len(await issues.list_())",
        2,
    ),
    "return": ("n = int(await logs.count_lines())\nif n > 1:\n    return [n]\nn", [500]),
    "an annotation": ("page: dict = await logs.read(limit=1)\nlen(page['entries'])", 1),
    "builtins that the checker does not know": (
        "try:\n    raise PermissionError('no')\nexcept PermissionError as error:\n"
        "    x = list(map(str, filter(None, [error.args[0], ''])))\nx",
        ["no"],
    ),
    "a tool passed on": (
        "async def twice(tool, **given):\n"
        "    return [await tool(**given), await tool(**given)]\n"
        "await twice(logs.count_lines)",
        ["500", "500"],
    ),
    "objects of a class": (
        "class Point:\n    def __init__(self, x):\n        self.x = x\n[Point(1), Point(2)]",
        [{"x": 1}, {"x": 2}],
    ),
    "an object as an argument": (
        "class Person:\n    def __init__(self, name):\n        self.name = name\n"
        "from typing import Any\nwho: Any = Person('Ann')\n"
        "(await issues.create(title='t', reporter=who))['number']",
        1,
    ),
    "values with a text": (
        "from datetime import timedelta\nfrom decimal import Decimal\n"
        "[Decimal('1.10'), timedelta(hours=1), ValueError('bad')]",
        ["1.10", "1:00:00", "bad"],
    ),
}
WRONG = {
    "a wrong type": ("await issues.create(title=3)", "type", "Expected `str`"),
    "a wrong choice": (
        "await issues.create(title='t', state='opened')",
        "type",
        'Literal["open", "closed"]',
    ),
    "a missing argument": ("await issues.create()", "type", "required parameter `title`"),
    "an unknown argument": ("await logs.read(size=3)", "type", "it takes: limit, offset"),
    "a misspelled argument": ("await logs.read(ofset=3)", "type", "did you mean offset?"),
    "an unknown key of a result": (
        "page = await logs.read()\npage['rows']",
        "type",
        "keys: entries, next",
    ),
    "a result used as an object": (
        "page = await logs.read()\npage.entries",
        "type",
        "a dict with the keys: entries, next",
    ),
    "an attribute of a result without a type": (
        "from typing import Any\nblocks: Any = {'text': await issues.list_()}\nblocks.text",
        "runtime",
        "a result is a dict: write",
    ),
    "a text used as a dict": (
        "text = await logs.count_lines()\ntext['lines']",
        "runtime",
        "the value is a text",
    ),
    "a misspelled variable": ("entries = 1\nentires + 1", "type", "did you mean entries?"),
    "tools called by name": ("await call_tool('logs/read')", "type", "await server.tool(name"),
    "a wrong type that shows at the call": (
        "size = {'n': 'x', 'm': 1}['n']\nawait logs.read(offset=size)",
        "runtime",
        "/offset: expected integer",
    ),
    "an unknown key": (
        "await issues.create(title='t', reporter={'name': 'a', 'agee': 1})",
        "type",
        'did you mean "age"',
    ),
    "a missing key": ("await issues.create(title='t', reporter={'age': 1})", "type", "'name'"),
    "a key that is only known at the call": (
        "who = {}\nwho['nme'] = 'a'\nawait issues.create(title='t', reporter=who)",
        "runtime",
        "did you mean name?",
    ),
    "an unknown tool": ("await issues.creat(title='t')", "type", "did you mean issues.create?"),
    "an unknown server": ("await isues.list_()", "type", "did you mean issues?"),
    "a module without its import": (
        "r = 'c'\nre.sub('a', 'b', r)",  # A name of the script is similar.
        "type",
        "begin the script with `import re`",
    ),
    "a missing await": ("logs.count_lines()\n1", "type", "is not awaited"),
    "a missing await before a use": ("page = logs.read()\npage['entries']", "type", "not awaited"),
    "a missing await in a list": (
        "[issues.wait(seconds=i) for i in (8, 9)]",
        "runtime",
        "2 of issues.wait were cancelled; write `await`",
    ),
    "a result used as what it is not": (
        "page = await logs.read()\npage['entries'] + 1",
        "type",
        "Operator `+`",
    ),
    "arguments by place": ("await logs.read(1)", "type", "by name"),
    "an endless loop": ("while True:\n    pass", "limit", "longer than 1 seconds"),
    "a memory bomb": ("x = ['y' * 1000]\nwhile True:\n    x = x + x", "limit", "bytes of memory"),
    "a large allocation": ("x = [0] * 10 ** 9", "limit", "bytes of memory"),
    "recursion": ("def f(n):\n    return f(n + 1)\nf(0)", "limit", "nested deeper than 200"),
    "an output flood": ("while True:\n    print('x' * 1000)", "limit", "were printed"),
    "a call flood": (
        "for _ in range(100):\n    await issues.list_()",
        "runtime",
        "more than 50 tool calls",
    ),
    "a call flood at once": (
        LOOP + "await asyncio.gather(*[issues.wait(seconds=1) for _ in range(60)])",
        "runtime",
        "more than 50 tool calls",
    ),
    "a call flood that catches": (
        "while True:\n    try:\n        await issues.list_()\n"
        "    except RuntimeError:\n        pass",
        "limit",
        "",
    ),
    "a denied tool": ("await issues.secret()", "type", "needs the scope 'admin'"),
    "a denied server": ("await vault.hidden()", "type", "may not be used now"),
    "a forged name": (
        "await eval('issues.sec' + 'ret()')",
        "runtime",
        "PermissionError: issues.secret",
    ),
    "a forged server": ("await eval('valt.hidden()')", "runtime", "'valt' is not defined"),
    "a forged call of a denied server": (
        "await eval('vault.hidden()')",
        "runtime",
        "may not be used now",
    ),
    "a forged function": ("await eval('issues.call_method()')", "runtime", "no function"),
    "an import of the host": ("import subprocess", "type", "there are: asyncio"),
    "an import in exec": ("exec('import subprocess')\nsubprocess.run", "type", "subprocess"),
    "open": ("open('/etc/passwd').read()", "type", "open"),
    "a path": (
        "from pathlib import Path\nPath('/etc/passwd').read_text()",
        "runtime",
        "Permission denied",
    ),
    "the environment": ("import os\nos.getenv('HOME')", "runtime", "not supported"),
    "attributes of a type": ("().__class__.__bases__", "runtime", "AttributeError"),
    "attributes of a function": ("f = len\nf.__globals__", "runtime", "AttributeError"),
    "the host's objects": ("eval('issues.__class__.__init__.__globals__')", "runtime", ""),
    "a server as an argument": ("await eval('web.post(text=web)')", "runtime", "is not JSON"),
    "a server as a result": ("issues", "runtime", "is not JSON"),
    "a number too long": ("10 ** 100000", "runtime", "cannot be returned"),
    "a list too deep": ("x = []\nfor _ in range(500):\n    x = [x]\nx", "runtime", "deeper"),
    "a syntax error": ("x = (1", "syntax", ""),
    "a call as an argument": (
        "await web.post(text=str(logs.count_lines()))",
        "runtime",
        "web.post: an argument cannot be sent: it has a call that was not awaited",
    ),
    "a fence": ("```python\n1\n```", "syntax", "without ```"),
    "a generator": ("def f():\n    yield 1\nf()", "syntax", "lacks yield"),
    "a statement that is missing": ("x = {1: 2}\ndel x[1]", "syntax", "lacks the 'del' statement"),
    "a member that is missing": (
        "import asyncio\nasyncio.create_task(logs.read())",
        "type",
        "asyncio has gather, run and sleep here",
    ),
    "a builtin that is missing": ("globals()", "type", "lacks 'globals'"),
    "a method passed on": (
        "sorted(['b', 'A'], key=str.lower)",
        "runtime",
        "write a lambda that calls it",
    ),
    "inheritance": ("class A(dict):\n    pass", "syntax", "lacks class inheritance"),
    "an uncaught error": ("x = 1\n\n[][3]", "runtime", "IndexError"),
    "a long script": ("x = 1\n" * 20_000, "limit", "at most 50,000"),
    "a destructive tool": ("await issues.delete(number=1)", "type", "needs a person's approval"),
}


def run_all(scripts):
    """Each script's result and what the servers did, all with one runner."""

    async def main():
        async with CodeRunner(limits=LIMITS) as runner:
            found = []
            for code in scripts:
                servers = Servers()
                result = await runner.run(new_session(), code, servers.call)
                after = await runner.run(new_session(), "1 + 1", servers.call)
                found.append((result, servers, after))
            return found

    return asyncio.run(main())


@pytest.fixture(scope="module")
def right():
    return dict(zip(RIGHT, run_all(code for code, _ in RIGHT.values()), strict=True))


@pytest.fixture(scope="module")
def wrong():
    return dict(zip(WRONG, run_all(code for code, _, _ in WRONG.values()), strict=True))


@pytest.mark.parametrize("name", RIGHT)
def test_right_scripts_give_what_they_should(right, name):
    result = right[name][0]
    assert result.error is None
    assert result.value == RIGHT[name][1]


@pytest.mark.parametrize("name", WRONG)
def test_wrong_scripts_are_stopped_and_the_next_one_runs(wrong, name):
    result, servers, after = wrong[name]
    _, kind, words = WRONG[name]
    assert result.error is not None
    said = " ".join([result.error.message, *result.error.more])
    assert result.error.kind == kind, said
    assert words in said
    assert result.value is None
    assert not {name for name, _ in servers.calls} & {"issues/secret", "vault/hidden"}
    assert len(servers.calls) <= LIMITS.calls
    assert after.value == 2


def test_the_line_of_an_error_is_named(wrong):
    assert wrong["an uncaught error"][0].error.line == 3
    assert wrong["a wrong type"][0].error.line == 1


def test_nothing_has_run_when_the_type_check_fails(wrong):
    for name, (result, servers, _) in wrong.items():
        if WRONG[name][1] == "type":
            assert servers.calls == []
            assert result.calls == ()


def test_what_was_printed_is_kept(right):
    assert right["printing only"][0].output == "a 1\n"


def grown(start, step, times=22):
    """A value that holds itself twice, a number of times over: small here, huge as a copy."""
    return f"a = {start}\nfor _ in range({times}):\n    a = {step}\n"


HUGE = {
    "a list without end": (grown("[0]", "[a, a]", 60) + "a", "more than 200,000 values"),
    "a dict": (grown("{}", "{'a': a, 'b': a}") + "a", "more than 200,000 values"),
    "objects": (
        "class Pair:\n    def __init__(self, a):\n        self.a = a\n        self.b = a\n"
        + grown("1", "Pair(a)", 60)
        + "a",
        "more than 200,000 values",
    ),
    "a text many times": ("s = 'x' * 1_000_000\n[s] * 100_000", "more than 8,000,000 characters"),
    "a key": (grown("(0,)", "(a, a)", 60) + "{a: 1}", "takes too long to be read"),
    "a part of a set": (grown("(0,)", "(a, a)", 60) + "{a}", "takes too long to be read"),
    "keys of one hash": (
        "d = {}\nfor i in range(60_000):\n    d[i * (2 ** 61 - 1)] = 1\nd",
        "takes too long to be read",
    ),
    "an argument": (
        "from typing import Any\n"
        + grown("[0]", "[a, a]", 60)
        + "value: Any = a\nawait web.post(text=value)",
        "web.post: an argument cannot be sent: more than 200,000 values",
    ),
    "a key of an argument": (
        "from typing import Any\n"
        + grown("(0,)", "(a, a)", 60)
        + "value: Any = {a: 1}\nawait web.post(text=value)",
        "takes too long to be read",
    ),
}


@pytest.fixture(scope="module")
def huge():
    """The result of each, the longest block of the event loop in s, and the growth in bytes."""

    async def main():
        longest, last = 0.0, time.perf_counter()

        async def watch():
            nonlocal longest, last
            while True:
                await asyncio.sleep(0.01)
                longest, last = max(longest, time.perf_counter() - last), time.perf_counter()

        # On a machine that may be busy: only a value's time is to end one.
        async with CodeRunner(limits=replace(LIMITS, seconds=60.0)) as runner:
            await runner.run(new_session(), "1", Servers().call)
            watching = asyncio.ensure_future(watch())
            results = [
                await runner.run(new_session(), code, Servers().call) for code, _ in HUGE.values()
            ]
            watching.cancel()
        return dict(zip(HUGE, results, strict=True)), longest

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    results, longest = asyncio.run(main())
    return results, longest, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024


@pytest.mark.parametrize("name", HUGE)
def test_a_value_that_is_huge_as_a_copy_is_refused_before_it_is_copied(huge, name):
    result = huge[0][name]
    assert result.error is not None
    assert HUGE[name][1] in result.error.message


def test_huge_values_of_scripts_block_nobody_and_need_no_memory(huge):
    _, longest, growth = huge
    # One of them alone blocked it for 48 s. The machine may be busy.
    assert longest < 2.0
    assert growth < 50_000_000


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("await csv.query()", 7),
        ("len('ä'), [await csv.query() for _ in range(2)][1] + await csv.query()", [1, 14]),
        ("await csv_.query()", 7),
        ("import csv\nawait csv_.query()", 7),
        ("csv = {'n': 3}\ncsv['n']", 3),
        ("def first(csv):\n    return csv[0]\nfirst([4])", 4),
    ],
)
def test_a_server_with_the_name_of_a_module_is_called_by_its_name(code, outcome):
    async def call(tool, arguments):
        return 7

    async def run():
        session = Engine.from_tools([Tool("query", "csv")], tiers=["lexical"]).session()
        async with CodeRunner(limits=LIMITS) as runner:
            stubs = runner.stubs(session.view(), session.view().tools())
            assert "Or csv, if the script does not import that module." in stubs
            return await runner.run(session, code, call)

    ran = asyncio.run(run())
    assert ran.error is None, ran.error
    assert ran.value == outcome
