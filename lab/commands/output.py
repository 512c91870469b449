"""Output of the benchmarks: origin of the figures, and progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ...cli.console import console, note, show


@contextmanager
def step_progress() -> Iterator[Callable[[str], None]]:
    """Progress on stderr: one changing line on a terminal, otherwise a line for each step."""
    err = console(err=True)
    if not err.is_terminal:
        yield note
        return
    with err.status("reading") as status:
        yield status.update


def tell_origin(origin: dict[str, Any], what: str) -> None:
    """Machine, commit, versions, and what is measured on."""
    machine, versions = origin["machine"], origin["versions"]
    libraries = ", ".join(f"{name} {version}" for name, version in versions.items())
    show(
        f"{machine['processor']}, {machine['cores']} cores, {machine['system']}; "
        f"commit {origin['commit'] or 'unknown'}; {what}",
        libraries,
    )
