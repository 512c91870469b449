"""Classifies errors of connections to servers: ended, flooded, or a login is required."""

from __future__ import annotations

from pathlib import Path

from mcp import MCPError

from ...catalog.text_cleaning import written_out
from ...untrusted.flood_limit import FloodError


def is_connection_end(error: Exception) -> bool:
    """Whether an error says that the connection or the server's MCP session has ended."""
    return not isinstance(error, MCPError) or is_end_message(str(error))


def is_end_message(message: str) -> bool:
    """Whether this is the SDK's message for the end of a connection, session or response stream."""
    lowered = message.lower()
    return lowered in ("connection closed", "session terminated") or lowered.startswith(
        "sse stream"
    )


def error_in_one_line(error: BaseException) -> str:
    """The message of an error, in one line, with control characters written out. For operators."""
    if isinstance(error, BaseExceptionGroup):
        return error_in_one_line(error.exceptions[0])
    if isinstance(error, TimeoutError) and not str(error):
        return "it did not answer in time"
    if isinstance(error, FileNotFoundError) and error.filename:
        if Path(error.filename).is_absolute():
            return f"no program {error.filename!r}; install it, or correct `command`"
        return f"no program {error.filename!r}; install it, or give its full path as `command`"
    lines = str(error).strip().splitlines()
    return written_out((lines[0] if lines else type(error).__name__)[:300])


def slow_start(limit_s: float) -> str:
    """What the operator reads about a server that exceeded `start_timeout_s`, in seconds."""
    return (
        f"it did not start within {limit_s:g} s; `start_timeout_s` in its entry sets another limit"
    )


#: Code to the sentence that clients see about a server that does not run. It quotes no server.
PROBLEM_SENTENCES = {
    "start_timeout": "it did not answer in time",
    "no_program": "its program is not installed, or not found",
    "failed": "it did not start, or its connection ended",
    "flooded": "it was stopped for a while, because it sent too much that answers no request",
    "list_unreadable": "its list changed and cannot be read",
}


def problem_code(error: BaseException) -> str:
    """The key of `PROBLEM_SENTENCES` for an error of a connection."""
    if is_flood(error):
        return "flooded"
    if isinstance(error, BaseExceptionGroup):
        return problem_code(error.exceptions[0])
    if isinstance(error, TimeoutError):
        return "start_timeout"
    return "no_program" if isinstance(error, FileNotFoundError) else "failed"


def is_flood(error: BaseException) -> bool:
    """Whether a connection ended because of a flood.

    Args:
        error: error of the connection. Exception groups are searched too.
    """
    if isinstance(error, BaseExceptionGroup):
        return any(map(is_flood, error.exceptions))
    return isinstance(error, FloodError)


class ConsentNeeded(Exception):
    """A server requires a login; the message says how.

    Args:
        server: its name.
    """

    def __init__(self, server: str) -> None:
        super().__init__(f"it asks for a login: shortlist auth login {server} --config FILE")


def wants_login(error: BaseException) -> bool:
    """Whether a server refused the connection because nobody is logged in.

    Args:
        error: error of the connection. Exception groups and causes are searched too.
    """
    if isinstance(error, BaseExceptionGroup):
        return any(map(wants_login, error.exceptions))
    if isinstance(error, ConsentNeeded):
        return True
    return error.__cause__ is not None and wants_login(error.__cause__)
