"""Sizes that keep the package easy to read: adapters, the loop, the benchmark's own arm."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def code_lines(source: str) -> int:
    """Lines with code: without blanks, comments and docstrings."""
    tree = ast.parse(source)
    held = {line for node in ast.walk(tree) if isinstance(node, ast.stmt) for line in _span(node)}
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            value = body[0].value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                held -= set(range(value.lineno, (value.end_lineno or value.lineno) + 1))
    lines = source.splitlines()
    return sum(bool((text := lines[at - 1].strip()) and not text.startswith("#")) for at in held)


def _span(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


@pytest.mark.parametrize("name", ["langchain.py", "langchain_code.py"])
def test_an_adapter_is_short(name: str) -> None:
    assert code_lines((ROOT / "integrations" / name).read_text(encoding="utf-8")) <= 150


def test_the_loop_takes_few_lines_and_few_imports() -> None:
    page = (ROOT / "docs" / "loop.md").read_text(encoding="utf-8")
    block = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    assert code_lines(block) <= 25
    imported = re.findall(r"^from shortlist[\w.]* import (.*)$", block, re.MULTILINE)
    assert sum(len(names.split(",")) for names in imported) <= 2


def test_the_benchmarks_arm_uses_the_public_objects_only() -> None:
    source = (ROOT / "evals" / "lab" / "attention" / "two_phase.py").read_text(encoding="utf-8")
    assert not re.search(r"from \.\.\.\.(loaders|gating|decision|retrieval)", source)
