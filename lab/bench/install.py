"""Size of the core install: this package and all that it requires without extras."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ..shipped import ROOT, shipped_files

_NAME = "shortlist"


def core_install() -> dict[str, Any]:
    """Megabytes (10^6 bytes) of each distribution that a plain install brings, largest first.

    Read off what is installed here, each distribution at its installed version.
    """
    sizes = {_NAME: _package_bytes()}
    waiting = [distribution(_NAME)]
    while waiting:
        for name in _required(waiting.pop()):
            if name not in sizes:
                try:
                    found = distribution(name)
                except PackageNotFoundError:
                    continue  # a platform's alternative that was not taken
                sizes[name] = _bytes(found)
                waiting.append(found)
    megabytes = {
        name: round(size / 1e6, 1)
        for name, size in sorted(sizes.items(), key=lambda item: -item[1])
    }
    return {
        "total_mb": round(sum(sizes.values()) / 1e6, 1),
        "torch": "torch" in sizes,
        "distributions_mb": megabytes,
    }


def _required(found: Distribution) -> Iterator[str]:
    for line in found.requires or ():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield canonicalize_name(requirement.name)


def _bytes(found: Distribution) -> int:
    paths = (Path(str(file.locate())) for file in found.files or ())
    return sum(path.stat().st_size for path in paths if path.is_file())


def _package_bytes() -> int:
    """Of the files that an installed package has, also where it runs from a checkout."""
    return sum((ROOT / path).stat().st_size for path in shipped_files())
