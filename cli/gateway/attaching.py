"""The start of a client's process: attached to the shared gateway before anything else is imported.

The command line's library takes longer to import than all that an attached client needs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

#: The arguments of `shortlist serve` for which a client attaches.
_SERVE_OPTIONS = ("--config", "--settings", "--profile")
_INTERRUPTED_EXIT = 130
_OWN_GATEWAY_NOTE = "this client gets a gateway of its own"


def attach_at_once(arguments: Sequence[str]) -> bool:
    """Run `shortlist serve` as an attached client. Returns whether it did.

    If it did not, the command line runs with `sys.argv`, and also shows the errors.
    """
    options = _options_of(arguments, ("serve",), _SERVE_OPTIONS)
    if options is None or "--config" not in options or sys.platform == "win32":
        return False
    from ...errors import ShortlistError
    from ...gateway.attach.socket_folder import AttachError

    config = Path(options["--config"])
    settings = Path(options["--settings"]) if "--settings" in options else None
    try:
        run_attached(config, settings, options.get("--profile", "default"))
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED_EXIT)
    except AttachError as error:
        note_own_gateway(config, settings, error)
        sys.argv.append("--alone")
        return False
    except (ShortlistError, OSError):
        return False
    return True


def run_attached(config: Path, settings: Path | None, profile: str) -> None:
    """Pass the messages of this client to the shared gateway, until stdin ends.

    Raises:
        AttachError: the gateway cannot be reached or started. Nothing was read from stdin.
        ConfigError: a file cannot be read, or there is no such profile.
    """
    from ...gateway.attach.attached_client import AttachedClient
    from ...gateway.attach.identity import Identity
    from ...gateway.attach.running_gateway import attach

    attachment = attach(Identity.of(config, settings), profile)
    for problem in attachment.problems:
        sys.stderr.write(f"{problem}\n")
    sys.stderr.flush()
    # The configuration can have changed when a new gateway is needed.
    AttachedClient(attachment, lambda: attach(Identity.of(config, settings), profile)).run()


def note_own_gateway(config: Path, settings: Path | None, error: Exception) -> None:
    """Report on stderr why this client does not share a gateway.

    Nothing is reported if the files are wrong: the client's own gateway ends with that error.
    """
    from ...errors import ShortlistError
    from .configured_servers import read_gateway_files

    try:
        read_gateway_files(config, settings)
    except ShortlistError:
        return
    sys.stderr.write(f"{_OWN_GATEWAY_NOTE}: {error}\n")


def answer_prompt_at_once(arguments: Sequence[str]) -> bool:
    """Run `shortlist hook prompt`. Returns whether it did; otherwise the command line runs."""
    options = _options_of(arguments, ("hook", "prompt"), ("--config", "--profile"))
    if options is None or sys.platform == "win32":
        return False
    from ...gateway.attach.prompt_hook import run_prompt_hook

    run_prompt_hook(Path(options.get("--config", "mcp.json")), options.get("--profile", "default"))
    return True


def _options_of(
    arguments: Sequence[str], command: tuple[str, ...], names: tuple[str, ...]
) -> dict[str, str] | None:
    """The options of a command; None if it is another command or has other options."""
    if tuple(arguments[: len(command)]) != command:
        return None
    options: dict[str, str] = {}
    rest = iter(arguments[len(command) :])
    for argument in rest:
        name, equals, value = argument.partition("=")
        if name not in names:
            return None
        options[name] = value if equals else next(rest, "")
        if not options[name]:
            return None
    return options
