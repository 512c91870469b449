"""`extract(value, kind)`: values of a type, by a model that may answer wrongly."""

from __future__ import annotations

import asyncio
import json
import shlex
import subprocess
import sys
import time
from contextlib import suppress

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from shortlist.codemode import Flow, Limits, run_code
from shortlist.codemode.extract import kind_schema
from shortlist.errors import RequestError
from shortlist.tests.codemode.servers import Sandbox

from .servers import Servers, new_session


class Model:
    """A model that gives answers in order; the last one again and again."""

    def __init__(self, *answers):
        self.answers, self.prompts = list(answers), []

    def __call__(self, prompt):
        self.prompts.append(prompt)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def ran(code, model, **options):
    return Sandbox.run(new_session(), code, Servers().call, extract=model, **options)


@pytest.mark.parametrize(
    ("kind", "answer", "value"),
    [
        ("int", "42", 42),
        ("str", "plain words", "plain words"),
        ("list[str]", '["a"]', ["a"]),
        ("str | None", "null", None),
        ("\"Literal['low', 'high']\"", '"low"', "low"),
        (
            "{'name': str, 'age': int | None}",
            '{"name": "Ann", "age": null}',
            {"name": "Ann", "age": None},
        ),
        ("[{'n': int}]", '```json\n[{"n": 1}]\n```', [{"n": 1}]),
        ("'dict[str, float]'", '{"a": 1.5}', {"a": 1.5}),
    ],
)
def test_a_value_of_a_kind(kind, answer, value):
    model = Model(answer)
    result = ran(f"await extract('a text', {kind})", model)
    assert result.error is None
    assert result.value == value
    assert "a text" in model.prompts[0]


def test_a_wrong_answer_is_asked_for_again_and_not_for_ever():
    model = Model("soon", '{"n": "x"}', '{"n": 3}')
    assert ran("await extract('t', {'n': int})", model).value == {"n": 3}
    assert "the answer is not JSON" in model.prompts[1]
    assert "'x' is not of type 'integer'" in model.prompts[2]
    model = Model("true")
    result = ran("await extract('t', int)", model)
    assert (
        "none of 3 answers matches the kind: True is not of type 'integer'" in result.error.message
    )
    assert len(model.prompts) == 3


def test_the_value_has_its_type_in_the_check():
    result = ran("n = await extract('t', int)\nawait issues.create(title=n)", Model("1"))
    assert (result.error.kind, result.error.line) == ("type", 2)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("await extract('t', 'object')", "no kind 'object'"),
        ("await extract('t', \"__import__('os')\")", "no kind"),
        ("await extract('t', {})", "is no kind"),
        ("await extract('t', 'list[' * 50)", "is no kind"),
        ("await extract('x' * 200_000, int)", "at most 100,000"),
        ("await eval('extract(1)')", "takes a value and a kind"),
        ("for _ in range(4):\n    await extract('t', int)", "more than 3 values"),
    ],
)
def test_what_cannot_be_extracted(code, words):
    result = ran(code, Model("1"), limits=Limits(extracts=3))
    assert result.error.kind == "runtime"
    assert words in result.error.message


def test_a_model_that_fails_is_an_error_of_the_script_and_its_text_is_logged(caplog):
    code = "try:\n    await extract('t', int)\nexcept RuntimeError as error:\n    x = str(error)\nx"
    assert ran(code, Model(OSError("no disk"))).value == "extract: the model failed (OSError)"
    assert "no disk" in caplog.text


def test_a_command_and_an_async_function(caplog):
    program = "import json,sys; sys.stdout.write(json.dumps(len(sys.stdin.read())))"
    command = shlex.join([sys.executable, "-c", program])
    assert ran("await extract('t', int)", command).value > 100
    said = ran("await extract('t', int)", "echo no model >&2; exit 3").error.message
    assert said.endswith("the model failed (OSError)")
    assert "the command exited with 3: no model" in caplog.text

    async def model(prompt):
        return json.dumps(7)

    assert ran("await extract({'a': 1}, int)", model).value == 7


def test_cancelling_ends_the_command(tmp_path):
    begun, ended = tmp_path / "begun", tmp_path / "ended"
    words = f"echo $$ > {begun}.new; mv {begun}.new {begun}; sleep 600; touch {ended}"
    command = f"sh -c {shlex.quote(words)}"

    async def main():
        run = asyncio.ensure_future(
            run_code(new_session(), "await extract('t', int)", Servers().call, extract=command)
        )
        async with asyncio.timeout(300):
            while not begun.exists():
                await asyncio.sleep(0.01)
        shell = psutil.Process(int(begun.read_text()))
        while not shell.children():
            await asyncio.sleep(0.01)
        processes = [shell, *shell.children()]
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        return processes

    _, alive = psutil.wait_procs(asyncio.run(main()), timeout=300)
    assert alive == []
    # A command that ran to its end would have made it.
    assert not ended.exists()


def test_cancelling_while_the_command_starts_ends_it(monkeypatch):
    processes = []

    class SlowPopen(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            if options.get("shell"):
                processes.append(psutil.Process(self.pid))
                time.sleep(0.2)

    monkeypatch.setattr(subprocess, "Popen", SlowPopen)

    async def main():
        running = asyncio.ensure_future(
            run_code(new_session(), "await extract('t', int)", Servers().call, extract="sleep 600")
        )
        while not processes:
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    _, alive = psutil.wait_procs(processes, timeout=60)
    assert alive == []


def test_what_a_flow_keeps_from_the_model():
    model = Model("1")
    code = "x = await logs.count_lines()\nawait extract(x, int)"
    for target in ("extract", "*"):
        result = ran(code, model, flows=[Flow("logs", target)])
        assert "data from 'logs' may not be given to it" in result.error.message
    assert ran(code, model, flows=[Flow("logs", "web")]).ok
    assert len(model.prompts) == 1


def test_without_a_model_there_is_no_extract():
    result = asyncio.run(run_code(new_session(), "await extract('t', int)", Servers().call))
    assert (result.error.kind, "extract" in result.error.message) == ("type", True)
    with pytest.raises(RequestError, match="extract: must be a command"):
        ran("1", 7)


def test_kinds_are_schemas():
    assert kind_schema("list[int | None]") == {
        "type": "array",
        "items": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    }
    assert kind_schema("Any") == {}


_KINDS = st.recursive(
    st.text(max_size=20)
    | st.sampled_from(["int", "list[", "-" * 3_000 + "x", "(" * 3_000, "int | " * 600 + "str"])
    | st.none()
    | st.integers()
    | st.sampled_from([int, str, list, bytes]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)


@given(_KINDS)
def test_any_kind_is_a_schema_or_a_value_error(kind):
    with suppress(ValueError):
        Draft202012Validator.check_schema(kind_schema(kind))
