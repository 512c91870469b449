"""Recognises servers that require a login."""

from __future__ import annotations


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
