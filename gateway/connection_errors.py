"""Classifies errors of connections to servers."""

from __future__ import annotations

from mcp import MCPError


def is_end(error: Exception) -> bool:
    """Whether an error says that the connection or the server's MCP session has ended."""
    return not isinstance(error, MCPError) or names_end(str(error))


def names_end(message: str) -> bool:
    """Whether this is the SDK's message for the end of a connection, session or response stream."""
    lower = message.lower()
    return lower in ("connection closed", "session terminated") or lower.startswith("sse stream")


def in_one_line(error: BaseException) -> str:
    """The message of an error, in one line."""
    if isinstance(error, BaseExceptionGroup):
        return in_one_line(error.exceptions[0])
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    if isinstance(error, FileNotFoundError) and error.filename:
        return f"no program {error.filename!r}; install it, or give its full path as `command`"
    text = str(error).strip().splitlines()
    return (text[0] if text else type(error).__name__)[:300]
