"""The `shortlist` command."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    from .gateway.attaching import attach_at_once

    if not attach_at_once(sys.argv[1:]):
        from .app import main as run_command

        run_command()
