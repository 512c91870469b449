"""Whether a condition can hold at all, in some state and for some tool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from .condition import AllOf, Annotation, AnyOf, Condition, Fact, Not
from .hints import DEFAULTS

#: Cases looked at before a condition is taken to be satisfiable.
CASES = 2_000


# Remembered: rules stay as they are while the catalog changes.
@lru_cache(maxsize=16_384)
def satisfiable(condition: Condition) -> bool:
    """Whether some state and some tool make it hold.

    Goes through the cases of its simple conditions; one that is too large to decide in `CASES`
    counts as satisfiable. A predicate may say anything, but the same everywhere.
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
    holds = _holds(condition, assumed)
    if holds is not None or budget[0] < 0:
        return holds is not False
    first, rest = atoms[0], atoms[1:]
    return any(
        _possible(case) and _search(condition, rest, case, budget)
        for case in ({**assumed, first: True}, {**assumed, first: False})
    )


def _holds(condition: Condition, assumed: Mapping[Condition, bool]) -> bool | None:
    """Whether it holds under the assumptions; None where they do not say."""
    if isinstance(condition, Not):
        inner = _holds(condition.part, assumed)
        return None if inner is None else not inner
    if isinstance(condition, AllOf | AnyOf):
        deciding = isinstance(condition, AnyOf)
        parts = [_holds(part, assumed) for part in condition.parts]
        if deciding in parts:
            return deciding
        return None if None in parts else not deciding
    return assumed.get(condition)


def _possible(assumed: Mapping[Condition, bool]) -> bool:
    """Whether no fact and no annotation is assumed to have two values, or none where it has one."""
    values: dict[tuple[type[Condition], str], dict[bool, set[object]]] = {}
    for condition, holds in assumed.items():
        if isinstance(condition, Fact | Annotation):
            known = values.setdefault(
                (type(condition), condition.name), {True: set(), False: set()}
            )
            known[holds].add(condition.key)
    for (kind, name), known in values.items():
        yes, no = known[True], known[False]
        if len(yes - {None}) > 1:
            return False
        # Without a value asked for, a fact holds by any value but false.
        false = {(True, False)}
        if (None in no and yes - false) or (None in yes and false <= yes):
            return False
        if kind is Annotation and name in DEFAULTS and {(True, True), (True, False)} <= no:
            return False
    return True
