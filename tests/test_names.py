"""Names: one word for one thing, and no metaphors for modules, classes and public functions."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache

import pytest

from .test_layers import MODULES

METAPHORS = {
    *("board", "closing", "contests", "course", "form", "ladder", "own", "passing", "promise"),
    *("recent", "rung"),
}


@cache
def _defined() -> list[tuple[str, str, type[ast.AST]]]:
    """Module, name and kind of every class and function."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        (module, node.name, type(node))
        for module, path in MODULES.items()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, kinds)
    ]


def test_no_module_is_a_metaphor() -> None:
    assert [name for name in MODULES if name.rpartition(".")[2] in METAPHORS] == []


def test_no_class_or_function_is_a_metaphor() -> None:
    wrong = [
        f"{module}.{name}"
        for module, name, kind in _defined()
        if name.lstrip("_").casefold() in METAPHORS
        and (kind is ast.ClassDef or not name.startswith("_"))
    ]
    assert wrong == []


@pytest.mark.parametrize("name", ["Entry", "Placement", "Problem", "Query"])
def test_a_class_name_is_used_once(name: str) -> None:
    counted = Counter(found for _, found, kind in _defined() if kind is ast.ClassDef)
    assert counted[name] <= 1


def test_gate_means_permissions() -> None:
    allowed = ("gating", "evals.lab", "gateway")
    wrong = [
        f"{module}.{name}"
        for module, name, kind in _defined()
        if kind is ast.ClassDef and "Gate" in name and not module.startswith(allowed)
    ]
    assert wrong == []
    assert [module for module in MODULES if module.endswith((".gate", ".gates"))] == ["gating.gate"]
