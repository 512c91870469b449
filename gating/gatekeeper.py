"""Gatekeeper: applies an engine's gate to its catalog versions, and makes admissions."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import lru_cache, partial
from threading import Lock
from weakref import WeakKeyDictionary

from ..errors import RequestError
from ..retrieval.catalog_index import Index
from .admission import Admission, Allowed
from .compiled_gate import CompiledGate
from .condition import Mask
from .declaration import RuleProblem, catalog_problems, rule_problems
from .quarantine import Quarantine
from .rules import Gate
from .state import State
from .votes import Votes

_LOG = logging.getLogger(__name__)
#: Gates of callers whose compiled form is kept; the least recently used is compiled again.
_CACHED_GATES = 64


_Compiled = tuple[CompiledGate, tuple[RuleProblem, ...]]


class Gatekeeper:
    """Makes the admission of every caller.

    Args:
        gate: the rules.
    """

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        # Weak keys: a catalog version is freed after its last request.
        self._compiled: WeakKeyDictionary[Index, _Compiled] = WeakKeyDictionary()
        self._lock = Lock()
        self._cached_with_rules = lru_cache(_CACHED_GATES)(partial(_gatekeeper_of_both, gate))

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
        return self if rules is None or not rules.rules else self._cached_with_rules(rules)

    def compiled_gate(self, index: Index) -> CompiledGate:
        """The gate compiled for a catalog version, once. Problems of the rules are logged."""
        return self._compiled_for(index)[0]

    def problems(self, index: Index) -> tuple[RuleProblem, ...]:
        """The problems of the rules with a catalog version."""
        return self._compiled_for(index)[1]

    def _compiled_for(self, index: Index) -> _Compiled:
        with self._lock:
            compiled = self._compiled.get(index)
        if compiled is None:
            # Outside the lock, so that requests to the earlier version need not wait.
            compiled_now = self._compile(index)
            with self._lock:
                compiled = self._compiled.setdefault(index, compiled_now)
        return compiled

    def _compile(self, index: Index) -> _Compiled:
        """The gate over a version. Versions with the same tools share one."""
        with self._lock:
            for compiled, problems in self._compiled.values():
                if compiled.names is index.names:
                    return compiled, problems
        compiled = CompiledGate(self.gate, index.tools, index.names)
        problems = rule_problems(self.gate) + catalog_problems(compiled)
        for problem in problems:
            _LOG.warning("gate: %s", problem)
        return compiled, problems

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
        compiled = self.compiled_gate(index)
        evaluation = compiled.evaluate(State() if state is None else state)
        tools = Allowed.of(allowed, compiled)
        return Admission(index, evaluation, tools, quarantine, votes, visible)


def _gatekeeper_of_both(gate: Gate, rules: Gate) -> Gatekeeper:
    return Gatekeeper(Gate((*gate.rules, *rules.rules), scopes=gate.scopes))
