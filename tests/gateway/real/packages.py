"""Installs packages that the tests run as programs, each into a folder of its own, and keeps them.

The folders lie in `$XDG_CACHE_HOME/shortlist-tests`, outside the repository, and are used again by
the next run. Versions are pinned by the callers, so that a new release changes no test.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from filelock import FileLock

#: Seconds that one package may take to install.
_PATIENCE = 600


class NotInstalledError(Exception):
    """A package cannot be used here; says which and why."""


def cache() -> Path:
    """The folder of all installed packages."""
    root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(root) / "shortlist-tests"


def npm(package: str, *others: str, install: bool = True) -> Path:
    """The folder with the programs of an npm package.

    Args:
        package: with its version, as `@scope/name@1.2.3`.
        others: further packages in the same folder.
        install: whether it is installed where it is missing.

    Raises:
        NotInstalledError: there is no Node, or npm cannot install it.
    """
    if shutil.which("npm") is None:
        raise NotInstalledError(f"{package}: Node and npm are not installed")
    home = cache() / "npm" / _folder(" ".join((package, *others)))
    command = ["npm", "install", "--prefix", str(home), "--no-audit", "--no-fund"]
    command += [package, *others]
    _once(home, package, [command], install=install)
    return home / "node_modules" / ".bin"


def pypi(package: str, *others: str, install: bool = True) -> Path:
    """The folder with the programs of a PyPI package, in a virtual environment of its own.

    Args:
        package: with its version, as `name==1.2.3`.
        others: further requirements of the same environment, as `mcp<2`.
        install: whether it is installed where it is missing.

    Raises:
        NotInstalledError: pip cannot install it.
    """
    home = cache() / "pypi" / _folder(" ".join((package, *others)))
    python = str(home / "bin" / "python")
    command = [python, "-m", "pip", "install", "--quiet", package, *others]
    if install and not (home / "installed").exists():
        home.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{home}.lock"):
            if not Path(python).exists():
                venv.create(home, with_pip=True)
    _once(home, package, [command], install=install)
    return home / "bin"


def _once(home: Path, package: str, commands: list[list[str]], *, install: bool) -> None:
    """Run the commands unless they succeeded before."""
    done = home / "installed"
    if done.exists():
        return
    if not install:
        raise NotInstalledError(f"{package}: not installed; `make test-long` installs it")
    home.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{home}.lock"):
        if done.exists():
            return
        for command in commands:
            _run(command, package)
        done.touch()


def _run(command: list[str], package: str) -> None:
    try:
        made = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalledError(f"{package}: {error}"[:300]) from error
    if made.returncode:
        said = [line for line in made.stderr.splitlines() if line.strip()]
        raise NotInstalledError(f"{package}: {' '.join(said[-3:])}"[:300])


def _folder(package: str) -> str:
    return re.sub(r"[^\w.@=<>-]+", "_", package)


if __name__ == "__main__":
    for asked in sys.argv[1:]:
        try:
            sys.stdout.write(f"{pypi(asked) if '==' in asked else npm(asked)}\n")
        except NotInstalledError as problem:
            sys.stdout.write(f"{problem}\n")
