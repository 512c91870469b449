"""A language model of the user's: asked about many things at once, and given up when it fails."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import TypeAlias, TypeVar

LanguageModel: TypeAlias = Callable[[str], str]
"""Takes a prompt, gives the answer; may raise anything."""
Item = TypeVar("Item")
Answer = TypeVar("Answer")
#: Seconds that a command has for one answer.
_PATIENCE = 120
#: Failures in a row, from the start, after which the model is taken to be unusable.
_GIVEN_UP = 3


class UnusableAnswer(ValueError):
    """An answer that nothing can be read from; the message says why."""


class ModelUnusable(Exception):
    """The first prompts all failed; the message says why the last one did."""


def command_model(command: str) -> LanguageModel:
    """A shell command that reads a prompt on stdin and answers on stdout.

    Args:
        command: as the user typed it; nothing of a tool becomes part of it.
    """

    def answer(prompt: str) -> str:
        done = subprocess.run(  # noqa: S602
            command,
            shell=True,
            input=prompt,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=_PATIENCE,
            check=False,
        )
        if done.returncode:
            told = done.stderr.strip().splitlines() or ["nothing on stderr"]
            raise OSError(f"the command exited with {done.returncode}: {told[-1][:200]}")
        return done.stdout

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
        items: in any order; asked for as workers come free.
        prompt: of an item.
        read: makes something of an answer; raises UnusableAnswer where it cannot.
        model: called from several threads.
        workers: prompts under way at a time.

    Yields:
        In order of completion: the item, what was read, and "" or the reason why there is nothing.

    Raises:
        ModelUnusable: the first calls all failed, so the rest need not be tried.
    """
    waiting = iter(items)
    succeeded = failed = 0
    with ThreadPoolExecutor(workers) as pool:
        asked: dict[Future[Answer], Item] = {}

        def ask(item: Item) -> Answer:
            return read(item, model(prompt(item)))

        def submit() -> None:
            for item in islice(waiting, workers - len(asked)):
                asked[pool.submit(ask, item)] = item

        submit()
        while asked:
            done, _ = wait(asked, return_when=FIRST_COMPLETED)
            for future in done:
                item = asked.pop(future)
                if error := future.exception():
                    failed += 1
                    reason = str(error)
                    if not isinstance(error, UnusableAnswer):
                        reason = f"{type(error).__name__}: {reason}"
                    if not succeeded and failed == _GIVEN_UP:
                        for other in asked:
                            other.cancel()
                        raise ModelUnusable(f"the first {failed} prompts failed; {reason}")
                    yield item, None, reason
                else:
                    succeeded += 1
                    yield item, future.result(), ""
            submit()
