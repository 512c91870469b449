"""Events in a file."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from shortlist.errors import EventError
from shortlist.gating.verdict import Verdict
from shortlist.inspector.event_history import EventHistory
from shortlist.session.recorder import JsonLines, Recorder, read_events


def test_what_is_written_is_read_back(engine, tmp_path):
    told = []
    with JsonLines(tmp_path / "events.jsonl") as log:
        session = engine.session(events=Recorder(log, told.append, content=True))
        session.turn("list my messages – now, \ud800 and £")
        session.check("mail/list_message", {"id": "1"})
    assert list(read_events(tmp_path / "events.jsonl")) == told


def test_a_log_is_appended_to(engine, tmp_path):
    path = tmp_path / "events.jsonl"
    for _ in range(2):
        with JsonLines(path) as log:
            engine.session(events=Recorder(log)).turn("list my messages")
    first, second = read_events(path)
    assert first.session != second.session


def test_threads_do_not_mix_their_lines(engine, tmp_path):
    path = tmp_path / "events.jsonl"
    with JsonLines(path) as log:
        recorder = Recorder(log)

        def talk(number: int) -> None:
            session = engine.session(k=20, events=recorder, session_id=str(number))
            for _ in range(5):
                session.turn("list my messages")

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(talk, range(16)))
    rows = list(read_events(path))
    assert recorder.failures == (0,)
    turns = [(row.session, row.turn) for row in rows]
    assert sorted(turns) == sorted((str(n), turn) for n in range(16) for turn in range(1, 6))
    for number in map(str, range(16)):
        assert [turn for session, turn in turns if session == number] == [1, 2, 3, 4, 5]


def test_each_event_is_one_write(engine, tmp_path, monkeypatch):
    written = []
    real = os.write
    with JsonLines(tmp_path / "events.jsonl") as log:
        session = engine.session(events=Recorder(log))
        monkeypatch.setattr(
            os, "write", lambda file, data: written.append(data) or real(file, data)
        )
        session.turn("list my messages")
        monkeypatch.undo()
    assert len(written) == 1
    assert json.loads(written[0])["turn"] == 1


def test_a_full_disk_is_a_failure_of_the_log_alone(engine, tmp_path, monkeypatch):
    with JsonLines(tmp_path / "events.jsonl") as log:
        recorder = Recorder(log)
        session = engine.session(events=recorder)
        monkeypatch.setattr(os, "write", lambda file, data: 3)
        assert session.turn("list my messages").hits
        monkeypatch.undo()
    assert recorder.failures == (1,)


def test_a_closed_log_takes_nothing(engine, tmp_path):
    log = JsonLines(tmp_path / "events.jsonl")
    log.close()
    log.close()
    recorder = Recorder(log)
    engine.session(events=recorder).turn("list my messages")
    assert recorder.failures == (1,)
    assert (tmp_path / "events.jsonl").read_bytes() == b""


def test_what_a_crash_left_spoils_no_other_event(engine, tmp_path):
    path = tmp_path / "events.jsonl"
    with JsonLines(path) as log:
        engine.session(events=Recorder(log), session_id="a").turn("list my messages")
    with path.open("a") as file:
        file.write('{"kind":"tu')
    with JsonLines(path) as log:
        engine.session(events=Recorder(log)).turn("list my messages")
    first, broken, last = read_events(path)
    assert first.turn_id == "a/1"
    assert isinstance(broken, EventError)
    assert "events.jsonl:2" in str(broken)
    assert last.turn == 1


@pytest.mark.parametrize(
    "line",
    [
        "7",
        "[]",
        "{}",
        '{"kind":"turn"}',
        '{"kind":"later","session":"a"}',
        "{",
        "[" * 100_000,
        "\0",
        "é",
    ],
)
def test_a_line_that_is_no_event_is_told(tmp_path, line):
    path = tmp_path / "events.jsonl"
    path.write_text(f"{line}\n", encoding="latin-1")
    (broken,) = read_events(path)
    assert isinstance(broken, EventError)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(EventError, match="cannot be read"):
        list(read_events(tmp_path / "none.jsonl"))
    with pytest.raises(EventError, match="cannot be opened"):
        JsonLines(tmp_path / "none" / "events.jsonl")


def test_a_full_file_becomes_the_old_one_and_a_page_reads_on(tmp_path):
    path = tmp_path / "events.jsonl"
    history = EventHistory(path)
    with JsonLines(path, max_bytes=2_000) as log:
        recorder = Recorder(log)
        for number in range(60):
            recorder.call(str(number), 1, Verdict("unknown", "list_invoice"), ms=0.1)
            history.read_new()
    old_path = tmp_path / "events.jsonl.old"
    assert {path.name for path in tmp_path.iterdir()} == {path.name, old_path.name}
    assert max(path.stat().st_size, old_path.stat().st_size) <= 2_000
    kept = [*read_events(old_path), *read_events(path)]
    sessions = [event.session for event in kept if not isinstance(event, EventError)]
    assert sessions == [str(number) for number in range(60 - len(kept), 60)]
    assert list(history.sessions()) == [str(number) for number in range(60)]
