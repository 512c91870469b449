"""Everything public has an example in its docstring, and every example runs."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

import shortlist
import shortlist.gating
import shortlist.session

MODULES = (shortlist, shortlist.gating, shortlist.session)


def _methods(cls: type) -> Iterator[tuple[str, Any]]:
    for name, member in vars(cls).items():
        function = inspect.unwrap(getattr(member, "__func__", member))
        conversion = name in ("to_dict", "from_dict")
        own = inspect.isfunction(function) and function.__module__.startswith("shortlist")
        if own and not name.startswith("_") and not conversion:
            yield f"{cls.__name__}.{name}", function


def _public() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for module in MODULES:
        for name in module.__all__:
            member = getattr(module, name)
            if inspect.isfunction(member):
                found[name] = member
            elif inspect.isclass(member) and not getattr(member, "_is_protocol", False):
                found[name] = member
                found.update(_methods(member))
    return found


PUBLIC = _public()


def test_functions_classes_and_methods_are_found() -> None:
    assert {"Engine", "Engine.search", "Catalog.read", "after", "read_events"} <= set(PUBLIC)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_the_docstring_has_an_example_that_runs(name: str) -> None:
    docstring = inspect.cleandoc(PUBLIC[name].__doc__ or "")
    test = doctest.DocTestParser().get_doctest(docstring, {}, name, None, None)
    assert test.examples, f"{name} has no example"
    said: list[str] = []
    outcome = doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    assert outcome.failed == 0, "".join(said)
