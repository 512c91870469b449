"""How many definitions of each data set the scan quarantines, and which hostile rows it misses."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..catalog import Catalog, Tool, read_tools
from ..evals.report import Table
from ..trust import scan

_TRAINING = ("mcp", "mcp_crawl", "metatool", "sealtools", "stabletoolbench", "toolrl")


@dataclass(frozen=True, slots=True)
class ScannedSet:
    """The scan's decisions on one set of definitions.

    Args:
        name: of the set.
        hostile: whether its definitions should be quarantined.
        quarantined: ids of the definitions that are.
        offered: ids of the others.
    """

    name: str
    hostile: bool
    quarantined: tuple[str, ...]
    offered: tuple[str, ...]

    @property
    def wrong(self) -> tuple[str, ...]:
        """Ids of hostile definitions that are offered, or of benign ones that are quarantined."""
        return self.offered if self.hostile else self.quarantined

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        total = len(self.quarantined) + len(self.offered)
        return {
            "name": self.name,
            "hostile": self.hostile,
            "quarantined": len(self.quarantined),
            "of": total,
            "wrong": list(self.wrong),
        }


def scanned_sets(data: Path, listings: Path | None = None) -> Iterator[ScannedSet]:
    """The sets of a data folder, scanned one after the other.

    Args:
        data: folder with `mcp_dumps`, `eval` and `train`.
        listings: folder with `tools/list` answers of installed servers, one JSON file for each
            server; see `tests/trust/list_real_servers.py`.
    """
    yield _scan_set("twelve real servers (`mcp_dumps`)", _listed(data / "mcp_dumps"))
    if listings is not None:
        servers = len(list(listings.glob("*.json")))
        yield _scan_set(f"{servers} installed servers", _listed(listings))
    for name in ("livemcpbench", "mcp_dev"):
        yield _scan_set(name, Catalog.read(data / "eval" / name / "tools.jsonl"))
    yield _scan_set(
        "six training catalogs",
        [
            tool
            for name in _TRAINING
            for tool in Catalog.read(data / "train" / name / "tools.jsonl")
        ],
    )
    poison = _rows(data / "eval" / "poison" / "tools.jsonl")
    for kind, title, hostile in (
        ("benign", "`poison`, benign", False),
        ("hidden_instruction", "`poison`, hidden instructions", True),
        ("overtly_malicious_tool", "`poison`, openly malicious tools", True),
    ):
        rows = [row for row in poison if (row.get("kind") or row["label"]) == kind]
        yield _scan_set(title, map(Tool.from_dict, rows), hostile=hostile)
    peers = _rows(data / "eval" / "peer_scan" / "rows.jsonl")
    for label in ("benign", "malicious"):
        for half, title in enumerate(("read", "unread")):
            rows = [row for row in peers if row["label"] == label and half_of(row["id"]) == half]
            yield _scan_set(
                f"`peer_scan`, {label}, {title} half",
                map(Tool.from_dict, rows),
                hostile=label == "malicious",
            )


def half_of(row_id: str) -> int:
    """The half of a row by the hash of its id: 0 was read while rules were written, 1 was not."""
    return int(hashlib.sha256(row_id.encode()).hexdigest(), 16) % 2


def scan_table(scanned: Iterable[ScannedSet]) -> Table:
    """One row for each set."""
    rows = [(figures.name, len(figures.quarantined), len(figures.offered)) for figures in scanned]
    return Table(
        ("definitions", "quarantined", "of"),
        tuple((name, flagged, flagged + offered) for name, flagged, offered in rows),
    )


def _scan_set(name: str, tools: Iterable[Tool], *, hostile: bool = False) -> ScannedSet:
    decisions = [
        (tool.id, any(finding.level == "quarantine" for finding in scan(tool))) for tool in tools
    ]
    return ScannedSet(
        name,
        hostile,
        tuple(tool_id for tool_id, flagged in decisions if flagged),
        tuple(tool_id for tool_id, flagged in decisions if not flagged),
    )


def _listed(folder: Path) -> list[Tool]:
    paths = sorted(folder.glob("*.json"))
    return [tool for path in paths for tool in read_tools(path, server=path.stem).tools]


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
