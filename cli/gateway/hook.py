"""`shortlist hook`: hooks of a coding agent, for its calls and for its user's messages."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from .configured_servers import GatewayFileOption

hook = typer.Typer(invoke_without_command=True)


@hook.callback()
def hook_of_call(context: typer.Context) -> None:
    """Tell Claude Code whether it may call a tool.

    A PreToolUse hook: it reads the call from stdin. The user's rules in Claude Code's settings
    decide, as if the server of the tool were connected directly: `mcp__github__get_issue` for
    github/get_issue. Without a rule, Claude Code asks. See docs/clients.md.
    """
    if context.invoked_subcommand is not None:
        return
    from ...gateway.clients.claude_permissions import answer_hook

    text = sys.stdin.buffer.read().decode(errors="replace")
    answer = answer_hook(text, Path.home(), os.environ)
    if answer is not None:
        typer.echo(answer.to_json())


@hook.command("prompt")
def hook_of_prompt(
    config: GatewayFileOption = Path("mcp.json"),
    profile: Annotated[
        str, typer.Option("--profile", metavar="NAME", help="Profile whose tools are found.")
    ] = "default",
) -> None:
    """Put tools that clearly fit beside a user's message.

    A UserPromptSubmit hook: it reads the message from stdin, and asks the running gateway. At most
    eight lines, or nothing. It starts no gateway, and never fails.
    """
    from ...gateway.attach.prompt_hook import run_prompt_hook

    run_prompt_hook(config, profile)
