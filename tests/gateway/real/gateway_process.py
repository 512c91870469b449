"""`shortlist serve` as a user starts it: a configuration file and a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: Lines of the gateway's stderr that are kept.
_FIRST_LINES, _LAST_LINES = 50, 200


@dataclass(frozen=True, slots=True)
class Setup:
    """A configuration and the folders that the gateway writes to.

    Args:
        config: the file with the servers.
        home: its folders of cache and state.
    """

    config: Path
    home: Path

    @classmethod
    def write(cls, home: Path, entries: Mapping[str, Any], own: Mapping[str, Any]) -> Setup:
        """A configuration with these servers.

        Args:
            home: an empty folder.
            entries: servers by name.
            own: the gateway's settings.
        """
        home.mkdir(parents=True, exist_ok=True)
        config = home / "mcp.json"
        config.write_text(json.dumps({"mcpServers": dict(entries), "shortlist": dict(own)}))
        return cls(config, home)

    @property
    def command(self) -> list[str]:
        """Serves it over stdin and stdout."""
        start = "from shortlist.cli import main; main()"
        return [sys.executable, "-c", start, "serve", "--alone", "--config", str(self.config)]

    @property
    def environment(self) -> dict[str, str]:
        """Of the process."""
        own = {"XDG_CACHE_HOME": str(self.home / "c"), "XDG_STATE_HOME": str(self.home / "s")}
        # With an arena for each thread, glibc gives memory back late: resident size then says
        # nothing about what the gateway keeps.
        return {**os.environ, **own, "MALLOC_ARENA_MAX": "1"}


@dataclass(frozen=True, slots=True)
class Served:
    """A gateway that serves over HTTP.

    Args:
        address: where, with its path.
        pid: of its process.
        log_lines: first and last lines of its stderr.
    """

    address: str
    pid: int
    log_lines: list[str] = field(repr=False)

    def states(self) -> dict[str, int]:
        """How many servers are in each state, as `/healthz` has it."""
        with urllib.request.urlopen(self.address.replace("/mcp", "/healthz"), timeout=30) as page:
            return json.load(page)["servers"]

    def settle(self, seconds: float) -> dict[str, int]:
        """Wait until no server is at its first start any more; the states then."""
        end = time.monotonic() + seconds
        while "configured" in (states := self.states()):
            assert time.monotonic() < end, f"not ready after {seconds} s: {states}"
            time.sleep(0.5)
        return states


@contextmanager
def over_http(setup: Setup, seconds: float = 60, *, is_killed: bool = False) -> Iterator[Served]:
    """Serve over HTTP on a free port of the loopback; stop at the end.

    Args:
        setup: the configuration.
        seconds: that the process may take until it takes requests.
        is_killed: whether the caller kills the process.
    """
    process = subprocess.Popen(
        [*setup.command, "--http", "127.0.0.1:0"],
        env=setup.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    lines: list[str] = []
    ready = threading.Event()

    def read() -> None:
        assert process.stderr
        for line in process.stderr:
            lines.append(line.strip())
            # The first lines have the address, the last ones the reason if it ends.
            del lines[_FIRST_LINES:-_LAST_LINES]
            if "/mcp" in line:
                ready.set()
        ready.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        assert ready.wait(seconds), lines
        addresses = [line for line in lines if line.startswith("http://")]
        assert addresses, lines
        yield Served(addresses[0], process.pid, lines)
    finally:
        ended_with = process.poll()
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        reader.join(timeout=10)
        if process.stderr:
            process.stderr.close()
        assert is_killed or ended_with is None, (
            f"the gateway ended by itself, {ended_with}: {lines[-20:]}"
        )
