"""Standard input and output of the gateway, as pipes of a client."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.gateway.stdio_streams import PipeWriter, RepairedPipeLines

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="pipes are read otherwise there"),
]


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=20))
def test_lines_are_those_of_the_whole_text_however_it_is_cut(chunks):
    async def read() -> list[str]:
        reader, writer = os.pipe()
        lines: list[str] = []

        async def collect() -> None:
            lines.extend([line async for line in RepairedPipeLines(reader)])

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(collect)
                for chunk in chunks:
                    os.write(writer, chunk)
                    await anyio.lowlevel.checkpoint()
                os.close(writer)
        finally:
            os.close(reader)
        return lines

    whole = b"".join(chunks)
    parts = whole.split(b"\n")
    if not parts[-1]:
        parts.pop()
    lines = anyio.run(read)
    assert len(lines) == len(parts)
    for line, part in zip(lines, parts, strict=True):
        if part.isascii() and b"\\" not in part:
            assert line == part.decode()


async def test_a_cut_emoji_in_a_line_is_repaired():
    reader, writer = os.pipe()
    os.write(writer, b'{"text": "cut \\ud83d"}\n')
    os.close(writer)
    assert [line async for line in RepairedPipeLines(reader)] == ['{"text": "cut \\ufffd"}']
    os.close(reader)


async def test_a_long_text_arrives_whole_at_a_reader_that_starts_late():
    reader, writer = os.pipe()
    received: list[bytes] = []

    def read_all() -> None:
        while chunk := os.read(reader, 10_000):
            received.append(chunk)

    text = "grün" * 200_000
    thread = threading.Thread(target=read_all)
    async with anyio.create_task_group() as group:
        group.start_soon(PipeWriter(writer).write, text)
        await anyio.sleep(0.1)
        thread.start()
    os.close(writer)
    await anyio.to_thread.run_sync(thread.join)
    os.close(reader)
    assert b"".join(received).decode() == text


async def test_other_tasks_run_and_can_cancel_while_nobody_reads():
    reader, writer = os.pipe()
    with anyio.move_on_after(0.2) as scope:
        await PipeWriter(writer).write("x" * 1_000_000)
    assert scope.cancelled_caught
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize("closed", ["", "2>&-"])
def test_prints_never_mix_with_messages_and_readers_of_stdin_get_its_end(closed):
    program = """
import os, sys
from shortlist.gateway.stdio_streams import standard_streams
with standard_streams() as (stdin, stdout):
    print("a stray print")
    assert os.read(0, 10) == b""
print("printed after")
"""
    run = subprocess.run(
        ["sh", "-c", f'"$0" -c "$1" {closed}', sys.executable, program],
        input=b"a message",
        capture_output=True,
        check=True,
    )
    assert run.stdout == b"printed after\n"
    assert run.stderr == (b"" if closed else b"a stray print\n")
