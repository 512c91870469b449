"""Holds an engine's gate and quarantine, and decides what each request may use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from threading import Lock
from types import MappingProxyType
from weakref import WeakKeyDictionary

from ..errors import RequestError
from ..retrieval.index import Index
from .admission import Admission
from .compiled import CompiledGate
from .gate import Gate
from .state import State
from .votes import Votes


class Gatekeeper:
    """Makes the admission of every request.

    Args:
        gate: the rules.
    """

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self._quarantined: Mapping[str, str] = MappingProxyType({})
        # Weak, so that a catalog version goes with its last request.
        self._compiled: WeakKeyDictionary[Index, CompiledGate] = WeakKeyDictionary()
        self._lock = Lock()

    @property
    def quarantined(self) -> Mapping[str, str]:
        """Id of each tool held back until someone approves it, to the reason."""
        return self._quarantined

    def quarantine(self, reasons: Mapping[str, str]) -> None:
        """Hold back these tools, and no others, whatever a request's state; replaced at once.

        Args:
            reasons: tool id to the reason; ids that the catalog lacks are held back when they come.

        Raises:
            RequestError: no mapping of ids to reasons.
        """
        if not isinstance(reasons, Mapping) or not all(
            isinstance(text, str) for pair in reasons.items() for text in pair
        ):
            raise RequestError("quarantined: a mapping of tool ids to reasons")
        self._quarantined = MappingProxyType(dict(reasons))

    def over(self, index: Index) -> CompiledGate:
        """The gate compiled for a catalog version, once."""
        with self._lock:
            if index not in self._compiled:
                self._compiled[index] = CompiledGate(self.gate, index.tools, index.rows)
            return self._compiled[index]

    def admission(
        self,
        index: Index,
        state: State | None = None,
        allowed: Iterable[str] | None = None,
        votes: Votes | None = None,
    ) -> Admission:
        """What a request may use of a catalog version.

        Args:
            index: the version.
            state: what the agent holds; nothing when absent.
            allowed: ids the request is limited to; None for no limit.
            votes: what servers say of their tools for this turn.

        Raises:
            RequestError: an argument of the wrong type.
        """
        if state is not None and not isinstance(state, State):
            raise RequestError(f"state: a State, not {type(state).__name__}; see State.from_dict")
        if votes is not None and not isinstance(votes, Votes):
            raise RequestError(f"votes: Votes as collected, not {type(votes).__name__}")
        evaluation = self.over(index).holding(State() if state is None else state)
        return Admission(index, evaluation, self, index.mask(allowed), self._quarantined, votes)

    def own(self, admission: Admission) -> Admission:
        """The admission, if it was made here.

        Raises:
            RequestError: it is another engine's, or none.
        """
        if not isinstance(admission, Admission) or admission.keeper is not self:
            raise RequestError("admission: make it with `admission` of the engine that is asked")
        return admission
