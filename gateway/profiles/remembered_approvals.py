"""Approvals of calls that a person wants remembered: in one file, each with an end."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...catalog import Tool
from ...catalog.text_file import OWNER_ONLY_MODE, locked, read_text_file, replace_text_file
from ...errors import PinsError
from ...gating.rules import Rule

#: Most approvals in a file. The oldest ones end first.
_MAX_APPROVALS = 1_000
_DAY_S = 86_400
_LOG = logging.getLogger("shortlist.gateway")


@dataclass(frozen=True, slots=True)
class RememberedApproval:
    """A person's approval of all calls of a tool by the clients of a profile, until a time.

    Args:
        tool: id of the tool.
        profile: name of the profile.
        fingerprint: of the tool's definition and of the rules that asked.
        until: when it ends, in seconds since 1970.
    """

    tool: str
    profile: str
    fingerprint: str
    until: float


class RememberedApprovals:
    """The approvals in a file. Several processes may use it at the same time.

    A call is only covered if its tool still has the definition that was approved, and if the same
    rules ask for it. Rules that read arguments always ask: who approves 5 has not approved 5,000.

    Args:
        path: the file; the first approval creates it.
        days: how long new approvals hold; with 0 none are made.
    """

    def __init__(self, path: Path, days: float = 0) -> None:
        self.path = path
        self.days = days

    def can_remember(self, rules: Iterable[Rule]) -> bool:
        """Whether an approval may be remembered.

        Args:
            rules: the rules that ask for the call.
        """
        rules = list(rules)
        return self.days > 0 and bool(rules) and not any(rule.when for rule in rules)

    def covers(self, profile: str, tool: Tool, rules: Sequence[Rule]) -> bool:
        """Whether a call is approved already. False if the file cannot be read.

        Args:
            profile: name of the client's profile.
            tool: the tool, with its present definition.
            rules: the rules that ask for the call.
        """
        if not self.can_remember(rules):
            return False
        key = (tool.id, profile, _fingerprint(tool, rules))
        try:
            return any((row.tool, row.profile, row.fingerprint) == key for row in self.read())
        except PinsError as error:
            _LOG.warning("%s", error)
            return False

    def remember(self, profile: str, tool: Tool, rules: Sequence[Rule]) -> None:
        """Remember an approval.

        Raises:
            PinsError: the file cannot be read or written.
        """
        row = RememberedApproval(
            tool.id, profile, _fingerprint(tool, rules), time.time() + self.days * _DAY_S
        )

        def added(rows: list[RememberedApproval]) -> list[RememberedApproval]:
            others = [other for other in rows if (other.tool, other.profile) != (tool.id, profile)]
            # The new one stays, also if `days` was lowered since the others were made.
            return [*sorted(others, key=lambda row: row.until)[1 - _MAX_APPROVALS :], row]

        self._change(added)

    def revoke(self, tool_ids: Iterable[str]) -> list[RememberedApproval]:
        """Delete the approvals of these tools, for all profiles; returns them.

        Raises:
            PinsError: the file cannot be read or written.
        """
        ids = frozenset(tool_ids)
        revoked: list[RememberedApproval] = []

        def others(rows: list[RememberedApproval]) -> list[RememberedApproval]:
            revoked[:] = [row for row in rows if row.tool in ids]
            return [row for row in rows if row.tool not in ids]

        self._change(others)
        return revoked

    def read(self) -> list[RememberedApproval]:
        """The approvals that have not ended.

        Raises:
            PinsError: the file cannot be read.
        """
        if not self.path.exists():
            return []
        try:
            rows = json.loads(read_text_file(self.path, error=PinsError))["approvals"]
            now = time.time()
            return [row for row in (RememberedApproval(**row) for row in rows) if row.until > now]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise PinsError(
                f"{self.path}: no file of approvals; delete it, and each call is asked about again"
            ) from None

    def _change(
        self, change: Callable[[list[RememberedApproval]], list[RememberedApproval]]
    ) -> None:
        with locked(self.path, error=PinsError):
            before = self.read()
            after = change(before)
            if after != before:
                document: dict[str, Any] = {"approvals": [asdict(row) for row in after]}
                text = json.dumps(document, indent=1)
                replace_text_file(self.path, [f"{text}\n"], mode=OWNER_ONLY_MODE)


def _fingerprint(tool: Tool, rules: Sequence[Rule]) -> str:
    text = json.dumps([tool.fingerprint, [rule.to_dict() for rule in rules]], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
