"""`shortlist explain --event`: a recorded turn, read back."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from shortlist import Engine, Tool
from shortlist.cli.app import app
from shortlist.gating import Gate, Rule, State, after, requires_scope
from shortlist.loaders import Prompt
from shortlist.session.event_log import JsonLines, read_events
from shortlist.session.events import Recorder

_SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
_TOOLS = [
    Tool(f"{verb}_{thing}", "mail", f"{verb.capitalize()} a {thing}.", _SCHEMA)
    for verb in ("list", "read", "send", "delete")
    for thing in ("message", "draft", "folder")
]


@pytest.fixture
def log(tmp_path):
    """Two turns of a session: one that offers tools, with calls, and one that offers nothing."""
    gate = Gate(
        [
            Rule(after("mail/read_*"), tools=["mail/delete_*"]),
            Rule(requires_scope("mail:send"), tools=["mail/send_*"]),
        ]
    )
    engine = Engine.from_tools(_TOOLS, tiers=["lexical"], gate=gate)
    path = tmp_path / "events.jsonl"
    with JsonLines(path) as sink:
        recorder = Recorder(sink)
        scopes = State({"mail:send"})
        session = engine.session(k=2, state=scopes, events=recorder, session_id="s1")
        session.turn("send a message")
        session.state = State()
        turn = session.turn("list and delete the draft")
        shown = Prompt(engine.catalog, pass_through_share=0).turn(turn.active)
        recorder.prompt(session.id, turn.number, shown)
        session.check("mail/delete_draft", {"id": 1})
        session.check("mail/read_folder", {"id": 1})
        session.check("mail/read_folder", {"id": "x"})
        session.check("mail/read_folder", {"id": 1})
        session.check("mail/reed_folder", {"id": 1})
        session.answered("It is gone.")
        session.turn("thanks!")
    return path


def test_a_turn_in_words(run, log):
    text = run("explain", "--event", log, "--turn", "s1/2").stdout
    lines = text.splitlines()
    text = " ".join(text.split())
    assert lines[0].startswith("turn s1/2 at 20")
    assert "2 tools offered" in lines
    assert "left: mail/send_message (scope): needs the scope 'mail:send'" in text
    assert "denied: 6 tools; the nearest:" in lines
    assert "call of mail/delete_draft" in text
    assert "denied: needs a call of 'mail/read_*' first; unlocked by mail/read_" in text
    assert "was not offered; now it is, and the model was given its schema" in text
    assert "/id: expected integer" in text
    assert "went ahead" in text
    assert "there is no such tool; nearest: mail/read_folder" in text
    assert "tokens of the pool" in text


def test_the_last_turn_when_none_is_named(run, log):
    text = run("explain", "--event", log).stdout
    assert text.startswith("turn s1/3 at 20")
    assert "nothing offered: the user asks for nothing more" in text


def test_as_json_the_events_themselves(run_json, log):
    rows = run_json("explain", "--event", log, "--turn", "s1/2")
    assert rows == [row for row in read_events(log) if row["turn_id"] == "s1/2"]
    assert [row["kind"] for row in rows] == ["turn", "prompt", *["call"] * 5]


def test_what_other_sessions_record_in_between(run_json, log):
    rows = list(read_events(log))
    other = {"kind": "turn", "turn_id": "s2/1"}
    late = {"kind": "call", "turn_id": "s1/3", "tool": "mail/list_draft", "status": "passed"}
    with log.open("a") as lines:
        lines.writelines(json.dumps(row) + "\n" for row in (other, late))
    assert run_json("explain", "--event", log) == [rows[-1], late]


def test_a_turn_that_is_not_there(run, log):
    stderr = run("explain", "--event", log, "--turn", "s1/9", code=1).stderr
    assert "no turn 's1/9'; the last one is 's1/3'" in stderr


def test_lines_that_are_no_events_are_passed_over_and_told(run, log):
    with log.open("a") as lines:
        lines.write('{"kind"\n' + json.dumps({"kind": "later", "turn_id": "s1/4"}) + "\n")
    result = run("explain", "--event", log)
    assert "skipped: " in result.stderr
    assert "does not know" in result.stderr
    assert result.stdout == ""


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["tool", "id", "reason", "count", "nearest"]), inner)
    ),
    max_leaves=4,
)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_damaged_event_is_an_error_in_a_line(log, data):
    rows = [row for row in read_events(log) if row["turn_id"] == "s1/2"]
    row = data.draw(st.sampled_from(rows))
    names = st.sampled_from([name for name in row if name not in ("kind", "turn_id")])
    damaged = row | data.draw(st.dictionaries(names, _VALUES, min_size=1, max_size=3))
    path = log.with_name("damaged.jsonl")
    path.write_text(json.dumps(damaged))
    result = CliRunner().invoke(app, ["explain", "--event", str(path)])
    if result.exit_code == 1:
        (line,) = result.stderr.strip().splitlines()
        assert "damaged" in line
    else:
        assert result.exit_code == 0


@pytest.mark.parametrize("content", [None, "", "\n"])
def test_a_file_without_events(run, tmp_path, content):
    path = tmp_path / "events.jsonl"
    if content is not None:
        path.write_text(content)
    assert "error:" in run("explain", "--event", path, code=1).stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("a request",),
        (),
        ("a request", "mail/list_draft", "--turn", "s1/1"),
        ("a request", "mail/list_draft", "--event", "events.jsonl"),
    ],
)
def test_either_a_request_and_a_tool_or_a_file(run, arguments):
    run("explain", *arguments, code=2)
