"""A prompt as it is saved: which tools stand where, at which level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from ..errors import RequestError
from .detail import Detail


class SavedTool(NamedTuple):
    """A tool that was promoted.

    Attributes:
        tool_id: its id.
        fingerprint: fingerprint of the rendered definition.
        detail: its level.
    """

    tool_id: str
    fingerprint: str
    detail: Detail


@dataclass(frozen=True, slots=True)
class SavedLayout:
    """What a saved prompt has written.

    Args:
        passes_through: whether the whole catalog is in the prefix.
        batches: the promoted tools in batches.
    """

    passes_through: bool
    batches: tuple[tuple[SavedTool, ...], ...]

    @property
    def tools(self) -> Iterator[SavedTool]:
        """All tools promoted, in order."""
        return (tool for batch in self.batches for tool in batch)

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Self:
        """From the result of `Prompt.layout_to_dict`.

        Raises:
            RequestError: it is nothing of the kind.
        """
        try:
            return cls(
                bool(saved["passes_through"]),
                tuple(
                    tuple(
                        SavedTool(str(name), str(fingerprint), Detail[level])
                        for name, fingerprint, level in batch
                    )
                    for batch in saved["batches"]
                ),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise RequestError(f"not a saved prompt: {type(error).__name__}: {error}") from error
