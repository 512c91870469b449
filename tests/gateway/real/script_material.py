"""What scripts over real servers are: right or wrong, and the data that they read."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Servers that `make test` has; what needs another runs in `make test-long`.
SMALL_SERVERS = frozenset({"filesystem", "git", "time"})


@dataclass(frozen=True, slots=True)
class Right:
    """A script and its result.

    Args:
        name: what it shows.
        servers: that it calls.
        code: the script; `{work}` is the folder that the servers share.
        result: of the last expression.
        output: that must be printed, among other things.
    """

    name: str
    servers: str
    code: str
    result: Any
    output: str = ""

    @property
    def is_small(self) -> bool:
        """Whether the three small servers are enough."""
        return SMALL_SERVERS.issuperset(self.servers.split())


ORDERS = [
    {
        "id": at,
        "customer": {"name": f"customer {at % 7}", "city": ("Oslo", "Bergen", "Tromsø")[at % 3]},
        "lines": [{"sku": f"A-{at % 5}", "amount": 1 + at % 4, "price": 2.5 * (at % 6)}],
        "paid": at % 4 != 0,
        "at": f"2026-03-{1 + at % 28:02}T10:{at % 60:02}:00+00:00",
    }
    for at in range(200)
]
LOG = [
    f"2026-03-01 12:{at // 60:02}:{at % 60:02} "
    + (f"ERROR worker-{at % 3}: job {at} failed" if at % 50 == 0 else f"INFO job {at} done")
    for at in range(600)
]
TOTAL = sum(line["amount"] * line["price"] for order in ORDERS for line in order["lines"])


def write_data(work: Path) -> None:
    """Files that the scripts read, the same bytes each time."""
    folder = work / "data"
    folder.mkdir()
    (folder / "orders.json").write_text(json.dumps(ORDERS), encoding="utf-8")
    (folder / "app.log").write_text("\n".join(LOG) + "\n", encoding="utf-8")
    held = io.StringIO()
    rows = csv.writer(held, lineterminator="\n")
    rows.writerow(["name", "zone", "hours"])
    rows.writerows([("Ada", "Europe/Oslo", 30), ("Bo", "Asia/Tokyo", 12), ("Cy", "UTC", 41)])
    (folder / "people.csv").write_text(held.getvalue(), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Wrong:
    """A script and its error.

    Args:
        name: what is wrong.
        servers: that it calls, or tries to.
        code: the script; `{work}` is the folder that the servers share.
        kind: of the error.
        words: that its message and further messages must have.
        line: that it must name; None where no line is to blame.
        slow: whether it takes as long as its limit of time.
    """

    name: str
    servers: str
    code: str
    kind: str
    words: tuple[str, ...]
    line: int | None = 1
    slow: bool = False

    @property
    def is_small(self) -> bool:
        """Whether the three small servers are enough, and little time."""
        return not self.slow and SMALL_SERVERS.issuperset(self.servers.split())


#: What scripts may do in the gateway of these tests, and how long one tool may take.
SETTINGS = {
    "pass_through": 0,
    "result_tokens": 2_000,
    # No script searches, so nothing waits for an encoder.
    "engine": {"tiers": ["lexical"]},
    "code": {
        "allow": ["filesystem/write_file", "filesystem/edit_file"],
        "deny": ["git/git_commit"],
        "flows": [["sqlite", "time"]],
    },
    "profiles": {
        "default": {
            "rules": [{"tools": ["git/git_create_branch"], "needs": {"scope": "admin"}}],
        }
    },
    "timeouts": {"everything/trigger-long-running-operation": 2},
}
