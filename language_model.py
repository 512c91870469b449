"""Calls the user's language model for many items at once, and stops if it always fails."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from itertools import islice
from tempfile import TemporaryFile
from threading import Thread
from time import monotonic
from typing import IO, TypeAlias, TypeVar

LanguageModel: TypeAlias = Callable[[str], str]
"""A function from prompt to answer. It may raise any exception."""
Item = TypeVar("Item")
Answer = TypeVar("Answer")
#: Seconds that a command has for one answer.
_ANSWER_TIMEOUT_S = 120.0
#: Bytes of a command's output that are kept.
_MAX_OUTPUT_BYTES = 1_000_000
#: Failures in a row, from the start, after which the model is taken to be unusable.
_FAILURE_LIMIT = 3
#: The same for answers that cannot be used: a model that answers may do better on the next tools.
_UNUSABLE_ANSWER_LIMIT = 10


class UnusableAnswer(ValueError):
    """An answer that cannot be used; the message says why."""


class ModelUnusable(Exception):
    """The first prompts all failed; the message is that of the last failure."""


class CommandModel:
    """A shell command that reads prompts on stdin and answers on stdout, in several threads.

    Args:
        command: the user's command. No text of a tool is ever put into it.
        timeout_s: seconds for one answer. Then the command and the processes that it started are
            killed, and the call raises TimeoutError.
    """

    def __init__(self, command: str, timeout_s: float = _ANSWER_TIMEOUT_S) -> None:
        self._command = command
        self._timeout_s = timeout_s
        self._running: set[subprocess.Popen[bytes]] = set()
        self._is_ended = False

    def __call__(self, prompt: str) -> str:
        """The answer to a prompt.

        Raises:
            TimeoutError: there is none in time.
            OSError: the command cannot be started, or fails.
        """
        deadline = monotonic() + self._timeout_s
        with TemporaryFile() as file:
            file.write(prompt.encode("utf-8", "replace"))
            file.seek(0)
            process = subprocess.Popen(  # noqa: S602
                self._command,
                shell=True,
                stdin=file,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        self._running.add(process)
        try:
            output, errors = _StreamReader(process.stdout), _StreamReader(process.stderr)
            if not self._is_ended:
                process.wait(max(0.0, deadline - monotonic()))
                # A process that the command left behind may keep them open.
                output.wait(deadline)
                errors.wait(deadline)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"no answer within {self._timeout_s:g} s") from None
        finally:
            self._running.discard(process)
            _kill(process)
        if process.returncode:
            error_lines = errors.text.strip().splitlines() or ["nothing on stderr"]
            raise OSError(f"the command exited with {process.returncode}: {error_lines[-1][:200]}")
        return output.text

    def end(self) -> None:
        """Kill the command where it runs, and wherever it is started from now on."""
        self._is_ended = True
        for process in tuple(self._running):
            _kill_group(process)


class _StreamReader:
    """What a process writes to one stream; the first megabyte is kept.

    Args:
        stream: the stream, which a thread reads to its end.
    """

    def __init__(self, stream: IO[bytes] | None) -> None:
        assert stream is not None
        self._stream = stream
        self._data = bytearray()
        self._thread = Thread(target=self._read, name="shortlist-command", daemon=True)
        self._thread.start()

    @property
    def text(self) -> str:
        """The kept output."""
        return bytes(self._data).decode("utf-8", "replace")

    def wait(self, deadline: float) -> None:
        """Wait for the end of the stream.

        Raises:
            TimeoutExpired: it does not end before the deadline.
        """
        self._thread.join(max(0.0, deadline - monotonic()))
        if self._thread.is_alive():
            raise subprocess.TimeoutExpired("", 0)

    def _read(self) -> None:
        with self._stream:
            while chunk := os.read(self._stream.fileno(), 65_536):
                self._data += chunk[: _MAX_OUTPUT_BYTES - len(self._data)]


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and those that it started, and wait for its end."""
    _kill_group(process)
    process.wait()


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def ask_each(
    items: Iterable[Item],
    prompt: Callable[[Item], str],
    read: Callable[[Item, str], Answer],
    model: LanguageModel,
    *,
    workers: int = 4,
) -> Iterator[tuple[Item, Answer | None, str]]:
    """Ask a language model about each item, several at once.

    Args:
        items: the items.
        prompt: returns the prompt of an item.
        read: parses an answer; raises UnusableAnswer if it cannot.
        model: function from prompt to answer, called from several threads.
        workers: number of prompts at the same time.

    Yields:
        In order of completion: the item, the parsed answer or None, and "" or why there is none.

    Raises:
        ModelUnusable: the first calls all failed. The others are not tried.
    """
    waiting = iter(items)
    succeeded = failed = broken = 0
    with ThreadPoolExecutor(workers) as pool:
        pending: dict[Future[Answer], Item] = {}

        def ask(item: Item) -> Answer:
            return read(item, model(prompt(item)))

        def submit() -> None:
            for item in islice(waiting, workers - len(pending)):
                pending[pool.submit(ask, item)] = item

        submit()
        while pending:
            finished, _ = wait(pending, return_when=FIRST_COMPLETED)
            for future in finished:
                item = pending.pop(future)
                if error := future.exception():
                    failed += 1
                    is_answer = isinstance(error, UnusableAnswer)
                    broken += not is_answer
                    reason = str(error) if is_answer else f"{type(error).__name__}: {error}"
                    if not succeeded and (
                        broken == _FAILURE_LIMIT or failed == _UNUSABLE_ANSWER_LIMIT
                    ):
                        for unfinished in pending:
                            unfinished.cancel()
                        raise ModelUnusable(f"the first {failed} prompts failed; {reason}")
                    yield item, None, reason
                else:
                    succeeded += 1
                    yield item, future.result(), ""
            submit()
