"""The `shortlist` command."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    from .gateway.attaching import answer_prompt_at_once, attach_at_once

    arguments = sys.argv[1:]
    if not (attach_at_once(arguments) or answer_prompt_at_once(arguments)):
        from .app import main as run_command

        run_command()
