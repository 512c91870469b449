"""Gatekeeper: applies an engine's gate to its catalog versions, and makes admissions."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import lru_cache
from threading import Lock
from weakref import WeakKeyDictionary

from ..errors import RequestError
from ..retrieval.catalog_index import Index
from .admission import Admission, Allowed
from .catalog_gate import CatalogGate
from .condition import Mask
from .quarantine import Quarantine
from .rules import Gate
from .state import State
from .votes import Votes

_LOG = logging.getLogger(__name__)
#: Further rules of callers whose gatekeeper is kept; the least recently used is made again.
_CACHED_GATES = 64


class Gatekeeper:
    """Makes the admission of every caller.

    Args:
        gate: the rules.
    """

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        # Weak keys: a catalog version is freed after its last request.
        self._catalog_gates: WeakKeyDictionary[Index, CatalogGate] = WeakKeyDictionary()
        self._lock = Lock()
        self._with_rules = lru_cache(_CACHED_GATES)(
            lambda rules: Gatekeeper(Gate((*gate.rules, *rules.rules)))
        )

    def with_rules(self, rules: Gate | None) -> Gatekeeper:
        """The gatekeeper of the engine's rules and further rules of a caller.

        The same rules give the same object.

        Args:
            rules: further rules of the caller; None for none.

        Raises:
            RequestError: `rules` is no Gate.
        """
        if not isinstance(rules, Gate | None):
            raise RequestError(f"rules: a Gate, not {type(rules).__name__}; write Gate([rule])")
        return self if rules is None or not rules.rules else self._with_rules(rules)

    def catalog_gate(self, index: Index) -> CatalogGate:
        """The gate over a catalog version, made once; versions with the same tools share one.

        Problems of the rules are logged when it is made.
        """
        with self._lock:
            present = self._catalog_gates.get(index)
            same_tools = (
                gate for gate in self._catalog_gates.values() if gate.names is index.names
            )
            present = present or next(same_tools, None)
        if present is None:
            # Outside the lock, so that requests to the earlier version need not wait.
            present = CatalogGate(self.gate, index.tools, index.names)
            for problem in present.problems:
                _LOG.warning("gate: %s", problem)
        with self._lock:
            return self._catalog_gates.setdefault(index, present)

    def admission(
        self,
        index: Index,
        quarantine: Quarantine,
        state: State | None = None,
        allowed: Iterable[str] | None = None,
        votes: Votes | None = None,
        visible: Mask | None = None,
    ) -> Admission:
        """The admission of a caller over a catalog version.

        Args:
            index: the version.
            quarantine: the quarantined tools.
            state: state of the agent; empty when absent.
            allowed: ids and globs the caller is limited to, see `Allowed.of`; None for no limit.
            votes: votes of servers for this turn.
            visible: rows that exist for the caller, shape (n,); None for all.

        Raises:
            RequestError: an argument of the wrong type.
        """
        if state is not None and not isinstance(state, State):
            raise RequestError(f"state: a State, not {type(state).__name__}; see State.from_dict")
        if votes is not None and not isinstance(votes, Votes):
            raise RequestError(f"votes: Votes as collected, not {type(votes).__name__}")
        gate = self.catalog_gate(index)
        evaluation = gate.evaluate(State() if state is None else state)
        return Admission(index, evaluation, Allowed.of(allowed, gate), quarantine, votes, visible)
