"""Finds out whether a condition can hold in any state and for any tool."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import lru_cache

from .condition import NO, UNKNOWN, YES, Condition, Truth

#: Cases looked at before a condition is taken to be satisfiable.
CASES = 2_000


# Remembered: rules stay as they are while the catalog changes.
@lru_cache(maxsize=16_384)
def satisfiable(condition: Condition) -> bool:
    """Whether some state and some tool make it hold.

    Tries all combinations of its simple conditions. With more than `CASES` combinations, it counts
    as satisfiable. A predicate may be true or false, but the same everywhere.
    """
    budget = [CASES]
    atoms = list(dict.fromkeys(simple(condition)))
    return _search(condition, atoms, {}, budget)


def simple(condition: Condition) -> Iterator[Condition]:
    """The simple conditions it is made of, in order, as often as they occur."""
    parts = condition.composed_of()
    if not parts:
        yield condition
    for part in parts:
        yield from simple(part)


def _search(
    condition: Condition,
    atoms: Sequence[Condition],
    assumed: Mapping[Condition, bool],
    budget: list[int],
) -> bool:
    budget[0] -= 1
    holds, fails = _truth(condition, assumed)
    if holds or fails or budget[0] < 0:
        return not fails
    first, rest = atoms[0], atoms[1:]
    return any(
        _consistent(case) and _search(condition, rest, case, budget)
        for case in ({**assumed, first: True}, {**assumed, first: False})
    )


def _truth(condition: Condition, assumed: Mapping[Condition, bool]) -> Truth:
    """Whether it holds or fails under the assumptions; unknown if they do not decide it."""
    if parts := condition.composed_of():
        return condition.combine([_truth(part, assumed) for part in parts])
    return UNKNOWN if condition not in assumed else YES if assumed[condition] else NO


def _consistent(assumed: Mapping[Condition, bool]) -> bool:
    """Whether the assumptions can be true together."""
    groups: dict[Hashable, dict[bool, list[Condition]]] = {}
    for condition, holds in assumed.items():
        if (subject := condition.about()) is not None:
            groups.setdefault(subject, {True: [], False: []})[holds].append(condition)
    return all(
        (group[True] or group[False])[0].consistent(group[True], group[False])
        for group in groups.values()
    )
