"""Converts errors of the gateway's request handlers to protocol errors."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import TypeVar

import mcp.types as types
from mcp import MCPError

from ..errors import ShortlistError
from .caller import Context
from .upstream import UpstreamError

_LOG = logging.getLogger("shortlist.gateway")

P = TypeVar("P")
Reply = TypeVar("Reply")


def answered(
    handler: Callable[[Context, P], Awaitable[Reply]],
) -> Callable[[Context, P], Awaitable[Reply]]:
    """A handler whose errors are safe for clients to read.

    An error from a server keeps its code and data. The text of an unexpected exception is only
    logged.

    Args:
        handler: handler of a request.
    """

    @wraps(handler)
    async def answer(context: Context, params: P) -> Reply:
        try:
            return await handler(context, params)
        except MCPError:
            raise
        except UpstreamError as error:
            cause = error.__cause__
            if isinstance(cause, MCPError):
                raise MCPError(cause.code, str(error), cause.data) from error
            raise MCPError(types.INTERNAL_ERROR, str(error)) from error
        except ShortlistError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from error
        except Exception as error:
            _LOG.exception("a request failed: %s", context.method)
            message = "the gateway failed on this request; its log says why"
            raise MCPError(types.INTERNAL_ERROR, message) from error

    return answer
