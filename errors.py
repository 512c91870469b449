"""The errors shortlist raises.

ShortlistError
├── CatalogError          a set of tools or a file of tools cannot be read or built
│   ├── ToolError         one tool definition is bad: names the field and the reason
│   ├── OperationError    a call cannot be made into an HTTP request: names the argument
│   ├── PositionError     a position beyond the end of a catalog
│   └── UnknownToolError  an id that is not in the catalog: names the nearest ones
├── ConfigError           a setting is unknown, contradictory or out of range
│   └── MissingExtraError an optional dependency is not installed: names its install line
├── ModelError            an encoder, reranker or vocabulary cannot be loaded or run
├── StoreError            a saved index is missing, damaged or locked
├── ProcessError          an engine or session is used in a fork of the process that made it
├── RequestError          an argument of a search is out of range or of the wrong type
├── StepLimitError        the model calls tools without end
├── ToolCallError         a tool failed, with a message for the model
├── SummaryError          a file of summaries cannot be read, or a model writes no example queries
├── PinsError             a file of pinned definitions cannot be read or written
├── EventError            a log of events cannot be written or read
└── EvaluationError       a data set or a recorded result cannot be used
"""

from __future__ import annotations

from typing import Literal


class ShortlistError(Exception):
    """Base class of all errors that this package raises on purpose.

    Example:
        >>> from shortlist import Config, ShortlistError
        >>> try:
        ...     Config(k=0)
        ... except ShortlistError as error:
        ...     print(type(error).__name__)
        ConfigError
    """


class CatalogError(ShortlistError):
    """A set of tools, or a file of tools, cannot be read or built."""


class ToolError(CatalogError):
    """One tool definition is bad.

    Args:
        field: the offending field, as the reader of the definition would write it.
        reason: what is wrong with it and what would be right.
        tool: name or id of the tool, if known.
        where: file, line or index of the definition, if known.
    """

    def __init__(
        self, *, field: str, reason: str, tool: str | None = None, where: str | None = None
    ) -> None:
        self.field = field
        self.reason = reason
        self.tool = tool
        self.where = where
        place = f"{where}: " if where else ""
        subject = f"tool {tool!r}: " if tool else ""
        super().__init__(f"{place}{subject}{field}: {reason}")


class OperationError(CatalogError):
    """A call of an OpenAPI tool cannot be made into an HTTP request.

    Args:
        operation: method and path of the operation.
        argument: JSON pointer to the argument; "" if it is not about one argument.
        expected: what is expected there.
        actual: the actual value, shortened.
    """

    def __init__(self, operation: str, *, argument: str, expected: str, actual: str) -> None:
        self.argument = argument
        self.expected = expected
        self.actual = actual
        super().__init__(
            f"{operation}: {argument or 'arguments'}: expected {expected}, got {actual}"
        )


class PositionError(CatalogError, IndexError):
    """A position that does not exist in the catalog."""


class UnknownToolError(CatalogError):
    """An id that is not in the catalog.

    Args:
        tool_id: the requested id.
        nearest: a few similar ids, best first.
    """

    def __init__(self, tool_id: str, nearest: tuple[str, ...] = ()) -> None:
        self.tool_id = tool_id
        self.nearest = nearest
        hint = f"; nearest: {', '.join(nearest)}" if nearest else ""
        super().__init__(f"no tool {tool_id!r} in the catalog{hint}")


INSTALL_SOURCE = "."
"""What pip installs this package from: the checkout, in its folder.

The package is not on an index. Anybody could take its name there, so no message may say that name.
Its owner changes this line when it is published.
"""


def install_command(extra: str) -> str:
    """The command that installs an extra of this package, and where to run it."""
    return f"pip install '{INSTALL_SOURCE}[{extra}]' (in the folder of the checkout)"


class ConfigError(ShortlistError):
    """A setting is unknown, contradictory or out of range."""


class MissingExtraError(ConfigError):
    """An optional dependency is not installed.

    Args:
        feature: the requested feature.
        extra: the extra of this package that installs it.
    """

    def __init__(self, feature: str, extra: str) -> None:
        self.extra = extra
        super().__init__(f"{feature} needs an optional dependency: {install_command(extra)}")


class ModelError(ShortlistError):
    """An encoder, a reranker or a vocabulary cannot be loaded or run."""


class StoreError(ShortlistError):
    """A saved index is missing, damaged, locked or of another format."""


class ProcessError(ShortlistError):
    """An engine or a session is used in a fork of the process that made it."""


class RequestError(ShortlistError):
    """An argument of a search is out of range or of the wrong type."""


class StepLimitError(ShortlistError):
    """The model called tools in more replies to one message than the caller allows."""


class ToolCallError(ShortlistError):
    """A tool failed, with a message that is meant for the model. Raise it in your tools.

    Of any other exception, the model reads only that the tool failed.

    Args:
        message: what went wrong, for the model.
        outcome: of a script's call. `failed`: the tool ran and failed. `not_sent`: it was not
            called, so it changed nothing. `no_answer`: it was called and gave no answer, so nobody
            knows whether it changed something. A rule that permits one call then denies a second.
    """

    def __init__(
        self, message: str = "", outcome: Literal["failed", "not_sent", "no_answer"] = "failed"
    ) -> None:
        super().__init__(message)
        self.outcome = outcome


class SummaryError(ShortlistError):
    """A file of summaries cannot be read, or a language model wrote no example queries."""


class PinsError(ShortlistError):
    """A file of pinned definitions or of remembered approvals cannot be read or written."""


class EventError(ShortlistError):
    """A log of events cannot be written or read."""


class EvaluationError(ShortlistError):
    """A data set or a recorded result cannot be used for an evaluation."""
