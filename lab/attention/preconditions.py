"""Permission rules for the testbed: scopes of accounts, and calls that need earlier calls."""

from __future__ import annotations

from ...demo import SERVERS
from ...gating import Gate, Rule, after, any_of, requires_scope

_READ_ONLY = ("web",)
"""Servers without a tool that writes."""
_FIRST = {
    "database/terminate_session": ("database/list_locks",),
    "database/apply_migrations": ("database/list_migrations",),
    "database/restore_backup": ("database/list_backups",),
    "database/grant_privileges": ("database/list_*", "database/describe_table"),
    "filesystem/delete_path": ("filesystem/list_directory", "filesystem/search_files"),
    "github/merge_pull_request": ("github/get_pull_request", "github/list_pull_request_files"),
    "jira/complete_sprint": ("jira/get_sprint_report",),
    "jira/delete_issue": ("jira/get_issue",),
}
"""Tool to the calls one of which has to have been made."""


def testbed_gate() -> Gate:
    """Rules for read and write scopes of each server, and eight rules about earlier calls."""
    scopes = [
        Rule(
            requires_scope(f"{server}:{'read' if reads else 'write'}"),
            server=server,
            annotations={"readOnlyHint": reads},
        )
        for server in SERVERS
        for reads in (True, False)
        if reads or server not in _READ_ONLY
    ]
    orders = [Rule(any_of(*map(after, calls)), tools=tool) for tool, calls in _FIRST.items()]
    return Gate([*scopes, *orders])
