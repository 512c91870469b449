"""Refusal: why a tool is denied to a caller."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

_Rows = Sequence[int] | NDArray[np.intp]
#: Refusals that a Selection's JSON form shows.
SHOWN_REFUSALS = 5


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a tool is denied.

    Args:
        tool_id: the tool.
        kind: `scope`, `precondition`, `annotation`, `predicate_error`, `excluded`, `quarantined` or
            `not_allowed`; of a single call also `argument` or `approval`. `docs/views.md` says what
            each means.
        reason: one sentence for people and models, never text from a server.
        unlocked_by: ids of at most a few permitted tools; a call of them makes this tool permitted.
            Empty if no call does.
        detail: details of the reason, for JSON.
        quote: a server's own text behind the reason. Only for operators, in no JSON form.
        public_id: id that JSON forms and messages show, if the id itself may have instructions for
            the model; otherwise empty.

    Example:
        >>> from shortlist import Engine, Tool
        >>> engine = Engine.from_tools([Tool("send_mail", "mail")], tiers=["lexical"])
        >>> engine.view(allowed=["billing/*"]).refusal("mail/send_mail").kind
        'not_allowed'
    """

    tool_id: str
    kind: str
    reason: str
    unlocked_by: tuple[str, ...] = ()
    detail: Mapping[str, Any] = field(default_factory=dict, hash=False)
    quote: str = field(default="", repr=False)
    public_id: str = ""

    @property
    def shown_id(self) -> str:
        """The id of the tool in JSON forms and messages."""
        return self.public_id or self.tool_id

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "tool": self.shown_id,
            "kind": self.kind,
            "reason": self.reason,
            "unlocked_by": list(self.unlocked_by),
            "detail": dict(self.detail),
        }


class Denials(Sequence[Refusal]):
    """The refusals of all denied tools, ordered by id. Each is made when it is read.

    Args:
        rows: rows of the denied tools, ordered by id.
        refuse: returns the refusal of a row.
        nearest: returns at most the given number of rows, those that fit the query best first.
    """

    __slots__ = ("_nearest", "_refuse", "_rows")

    def __init__(
        self,
        rows: _Rows = (),
        refuse: Callable[[int], Refusal] | None = None,
        nearest: Callable[[int], Sequence[int]] | None = None,
    ) -> None:
        self._rows = rows
        self._refuse = refuse
        self._nearest = nearest

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Refusal: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Refusal, ...]: ...
    def __getitem__(self, index: int | slice) -> Refusal | tuple[Refusal, ...]:
        if isinstance(index, slice):
            return tuple(self._refusal(row) for row in self._rows[index])
        return self._refusal(int(self._rows[index]))

    def __iter__(self) -> Iterator[Refusal]:
        return map(self._refusal, self._rows)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy has the refusals themselves, without the catalog index that they are made from.
        refusals = tuple(self)
        return _denials_of, (refusals, [refusals.index(refusal) for refusal in self.nearest()])

    def __repr__(self) -> str:
        return f"Denials({len(self)} tools)"

    def nearest(self, count: int = SHOWN_REFUSALS) -> tuple[Refusal, ...]:
        """The refusals of the denied tools that fit the query best."""
        rows = self._rows if self._nearest is None else self._nearest(count)
        return tuple(self._refusal(row) for row in rows[:count])

    def to_dict(self) -> dict[str, Any]:
        """JSON form: the number, and the nearest few."""
        return {
            "count": len(self),
            "nearest": [refusal.to_dict() for refusal in self.nearest()] if len(self) else [],
        }

    def _refusal(self, row: int) -> Refusal:
        if self._refuse is None:
            raise IndexError(row)
        return self._refuse(int(row))


def _denials_of(refusals: Sequence[Refusal], nearest: Sequence[int]) -> Denials:
    return Denials(range(len(refusals)), refusals.__getitem__, lambda count: nearest[:count])
