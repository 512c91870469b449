"""The scan stays small: pins, permissions and approval are the defence."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

import shortlist

FOLDER = Path(shortlist.__file__).parent / "trust"
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def lines_of_code(source: str) -> int:
    """Lines without blanks, comments and docstrings."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in LAYOUT:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def test_at_most_1200_lines_of_code_and_no_data_files():
    sources = sorted(FOLDER.glob("*.py"))
    assert sum(lines_of_code(path.read_text(encoding="utf-8")) for path in sources) <= 1200
    assert [path.name for path in FOLDER.iterdir() if path.is_file()] == [
        path.name for path in FOLDER.iterdir() if path.suffix == ".py"
    ]
