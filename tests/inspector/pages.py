"""A page in a process of its own, over an index that a test makes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from shortlist import Engine, Tool

_PROGRAM = "from shortlist.cli import main; main()"


@dataclass
class Page:
    """A running page.

    Args:
        address: as the command printed it, with the token.
        process: the command, where a test may end it.
    """

    address: str
    process: subprocess.Popen[str] | None = None

    def stop(self) -> str:
        """End the page; what it wrote to stderr."""
        assert self.process is not None
        self.process.kill()
        return self.process.communicate()[1]

    @property
    def base(self) -> str:
        return self.address.partition("#")[0]

    @property
    def origin(self) -> str:
        return self.base.removesuffix("/inspect/")

    @property
    def token(self) -> str:
        return self.address.partition("#")[2]

    def get(
        self, path: str, headers: dict[str, str] | None = None, **query: Any
    ) -> httpx2.Response:
        sent = {"authorization": f"Bearer {self.token}", **(headers or {})}
        return httpx2.get(f"{self.base}{path}", params=query, headers=sent, timeout=60)

    def answer(self, name: str, **query: Any) -> Any:
        response = self.get(f"api/{name}", **query)
        assert response.status_code == 200, response.text
        return response.json()

    def post(
        self, name: str, values: Any, headers: dict[str, str | None] | None = None
    ) -> httpx2.Response:
        sent: dict[str, str | None] = {
            "authorization": f"Bearer {self.token}",
            "origin": self.origin,
            "content-type": "application/json",
            **(headers or {}),
        }
        present = {name: value for name, value in sent.items() if value is not None}
        return httpx2.post(
            f"{self.base}api/{name}", content=json.dumps(values), headers=present, timeout=60
        )


def save_index(folder: Path, tools: Sequence[Tool], **settings: Any) -> Path:
    """A saved index that only needs words, unless the settings say more."""
    settings = {"tiers": ["lexical"], **settings}
    Engine.from_tools(tools, **settings).save(folder)
    return folder


@contextmanager
def inspecting(folder: Path, *options: str, max_descriptors: int = 0) -> Iterator[Page]:
    """`shortlist inspect` with these options, until the end of the block.

    Args:
        folder: place of its state.
        options: options of the command.
        max_descriptors: most files and connections that it may have open; 0 for the usual number.
    """
    program = _PROGRAM
    if max_descriptors:
        limits = f"({max_descriptors}, {max_descriptors})"
        program = (
            f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, {limits}); {program}"
        )
    home = {"XDG_CACHE_HOME": str(folder / "c"), "XDG_STATE_HOME": str(folder / "s")}
    with subprocess.Popen(
        [sys.executable, "-c", program, "inspect", *options],
        env={**os.environ, **home, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            if not re.fullmatch(r"http://127\.0\.0\.1:\d+/inspect/#\S{43}", address):
                process.kill()
                raise AssertionError(f"{address!r}: {process.communicate()[1]}")
            yield Page(address, process)
        finally:
            process.kill()
