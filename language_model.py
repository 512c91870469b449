"""Calls the user's language model for many items at once, and stops if it always fails."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import TypeAlias, TypeVar

LanguageModel: TypeAlias = Callable[[str], str]
"""A function from prompt to answer. It may raise any exception."""
Item = TypeVar("Item")
Answer = TypeVar("Answer")
#: Seconds that a command has for one answer.
_TIMEOUT_S = 120
#: Failures in a row, from the start, after which the model is taken to be unusable.
_FAILURE_LIMIT = 3


class UnusableAnswer(ValueError):
    """An answer that cannot be used; the message says why."""


class ModelUnusable(Exception):
    """The first prompts all failed; the message is that of the last failure."""


def command_model(command: str) -> LanguageModel:
    """A shell command that reads a prompt on stdin and answers on stdout.

    Args:
        command: the user's command. No text of a tool is ever put into it.
    """

    def answer(prompt: str) -> str:
        completed = subprocess.run(  # noqa: S602
            command,
            shell=True,
            input=prompt,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=_TIMEOUT_S,
            check=False,
        )
        if completed.returncode:
            error_lines = completed.stderr.strip().splitlines() or ["nothing on stderr"]
            raise OSError(
                f"the command exited with {completed.returncode}: {error_lines[-1][:200]}"
            )
        return completed.stdout

    return answer


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
    succeeded = failed = 0
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
                    reason = str(error)
                    if not isinstance(error, UnusableAnswer):
                        reason = f"{type(error).__name__}: {reason}"
                    if not succeeded and failed == _FAILURE_LIMIT:
                        for unfinished in pending:
                            unfinished.cancel()
                        raise ModelUnusable(f"the first {failed} prompts failed; {reason}")
                    yield item, None, reason
                else:
                    succeeded += 1
                    yield item, future.result(), ""
            submit()
