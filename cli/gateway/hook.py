"""`shortlist hook`: decides on a call through the gateway by Claude Code's own rules."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import typer


def hook() -> None:
    """Tell Claude Code whether it may call a tool.

    A PreToolUse hook: it reads the call from stdin. The user's rules in Claude Code's settings
    decide, as if the server of the tool were connected directly: `mcp__github__get_issue` for
    github/get_issue. Without a rule, Claude Code asks. See docs/clients.md.
    """
    from ...gateway.clients.claude_permissions import answer_hook

    text = sys.stdin.buffer.read().decode(errors="replace")
    answer = answer_hook(text, Path.home(), os.environ)
    if answer is not None:
        typer.echo(answer.to_json())
