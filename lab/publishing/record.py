"""Recorded results: figures with their commit, machine, versions and command.

A record is one JSON file in `lab/results`; its `table` is what README shows for it, so that every
kind of result (tiers, protocols, peers, times) reaches README in the same way.
"""

from __future__ import annotations

import json
import math
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ...errors import EvaluationError
from ...evals.report import Table

RESULTS = Path(__file__).resolve().parents[1] / "results"

_LIBRARIES = ("numpy", "onnxruntime", "tantivy", "tokenizers", "simsimd")


@dataclass(frozen=True, slots=True)
class Record:
    """One recorded result.

    Args:
        name: name of its file, used in table markers too.
        title: what the figures are of, in a few words.
        table: what README shows.
        result: every figure behind it, JSON-able.
        origin: commit, time, command, machine and versions; see `provenance`.
    """

    name: str
    title: str
    table: Table
    result: Mapping[str, Any]
    origin: Mapping[str, Any]


def provenance(command: Sequence[str]) -> dict[str, Any]:
    """Commit, time, command, machine and versions of figures that are measured now.

    Args:
        command: the words of the command that measured them, program first. Paths outside the
            working folder are cut to their last two parts.
    """
    return {
        "command": shlex.join(_public(word) for word in command),
        "commit": _commit(),
        "measured": datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ"),
        "machine": {
            "processor": _processor(),
            "cores": len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count(),
            "system": f"{platform.system()} {platform.machine()}",
        },
        "versions": {"python": platform.python_version()} | _versions(),
    }


def write_record(record: Record, folder: Path = RESULTS) -> Path:
    """Write a record as `folder/NAME.json` and return the path.

    Raises:
        EvaluationError: a figure is not finite, or a row is not as long as the headings.
    """
    for row in record.table.rows:
        if len(row) != len(record.table.columns):
            raise EvaluationError(
                f"record {record.name!r}: row {row[0]!r} does not fit its headings"
            )
        if any(isinstance(cell, float) and not math.isfinite(cell) for cell in row):
            raise EvaluationError(f"record {record.name!r}: row {row[0]!r} holds no finite number")
    held = {
        "name": record.name,
        "title": record.title,
        "origin": record.origin,
        "table": {"columns": record.table.columns, "rows": record.table.rows},
        "result": record.result,
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{record.name}.json"
    text = json.dumps(held, indent=1, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def read_record(name: str, folder: Path = RESULTS) -> Record:
    """Read a record back.

    Raises:
        EvaluationError: there is none of that name, or it is damaged; names those there are.
    """
    path = folder / f"{name}.json"
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        table = Table(
            tuple(held["table"]["columns"]), tuple(tuple(row) for row in held["table"]["rows"])
        )
        return Record(held["name"], held["title"], table, held["result"], held["origin"])
    except FileNotFoundError as error:
        there = ", ".join(record_names(folder)) or "none"
        raise EvaluationError(
            f"no recorded result {name!r} in {folder}; use one of: {there}"
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EvaluationError(f"{path}: damaged record: {error!r}; measure it again") from error


def record_names(folder: Path = RESULTS) -> list[str]:
    """Names of the records in a folder, sorted."""
    return sorted(path.stem for path in folder.glob("*.json"))


def _public(word: str) -> str:
    path = Path(word)
    return "/".join(path.parts[-2:]) if path.is_absolute() else word


def _commit() -> str | None:
    """The checked-out commit, marked when tracked files differ from it; None outside a checkout."""
    here = Path(__file__).resolve().parent
    command = ("git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
    try:
        found = subprocess.run(  # noqa: S603
            command, cwd=here, capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None


def _processor() -> str:
    listed = Path("/proc/cpuinfo")
    if listed.is_file():
        for line in listed.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _versions() -> dict[str, str]:
    from ... import __version__

    found = {"shortlist": __version__}
    for library in _LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            found[library] = "absent"
    return found


def running_command() -> list[str]:
    """The words of the running command, with the program's name for its path, without a token."""
    words = ["shortlist"]
    secret = False
    for word in sys.argv[1:]:
        if not secret and not word.startswith("--token"):
            words.append(word)
        secret = word == "--token"
    return words
