"""Which part of the package may import which, and that no two files import each other."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
#: Every part, lowest layer first; a part may import those of lower layers and itself.
LAYERS = (
    ("errors", "lazy"),
    ("untrusted",),
    ("text", "processes", "language_model"),
    ("catalog",),
    ("registry",),
    ("settings",),
    ("models", "trust"),
    ("retrieval",),
    ("gating", "decision", "enrichment"),
    ("setting_types",),
    ("config",),
    ("loaders",),
    ("indexing", "view"),
    ("codemode",),
    ("session",),
    ("engine",),
    ("demo",),
    ("gateway.connections",),
    ("gateway.upstream", "gateway.clients"),
    ("gateway.profiles", "gateway.attach"),
    ("gateway.observe",),
    ("gateway.relay",),
    ("gateway.meta_tools",),
    ("gateway", "integrations"),
    ("inspector",),
    ("evals",),
    ("lab",),
    ("cli",),
    ("lab.commands",),
    ("packaging",),
)
_LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}


def _modules() -> dict[str, Path]:
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[0] in ("tests", "build") or parts[0].startswith("."):
            continue
        found[".".join(part for part in parts if part != "__init__")] = path
    return found


MODULES = _modules()


def _imports(name: str) -> Iterator[str]:
    """Modules of the package that a file imports anywhere, in functions and for types included."""
    path = MODULES[name]
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            inside = [part for part in package if part]
            base = inside[: len(inside) - node.level + 1]
            module = ".".join([*base, *((node.module or "").split("."))]).strip(".")
            for alias in node.names:
                longer = f"{module}.{alias.name}".strip(".")
                yield longer if longer in MODULES else module


@cache
def graph() -> dict[str, list[str]]:
    return {name: sorted({one for one in _imports(name) if one != name}) for name in MODULES}


def _part(module: str) -> str:
    first, _, rest = module.partition(".")
    longer = f"{first}.{rest.partition('.')[0]}"
    return longer if longer in _LEVEL else first


def test_every_part_has_a_layer() -> None:
    assert {_part(module) for module in MODULES if module} <= set(_LEVEL)


def test_imports_point_down() -> None:
    wrong = [
        f"{module} imports {imported}, which lies above it or beside it"
        for module in sorted(MODULES)
        if module
        for imported in graph()[module]
        if imported and (other := _part(imported)) != (part := _part(module))
        if _LEVEL[other] >= _LEVEL[part]
    ]
    assert wrong == []


def test_no_two_files_import_each_other() -> None:
    """Tarjan's strongly connected components: none has more than one file."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    cycles: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for other in graph()[name]:
            if other not in graph() or other == "":
                continue
            if other not in order:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], order[other])
        if low[name] == order[name]:
            place = stack.index(name)
            if len(stack) - place > 1:
                cycles.append(sorted(stack[place:]))
            del stack[place:]

    for name in graph():
        if name not in order:
            visit(name)
    assert cycles == []


def test_nothing_below_names_what_stands_above() -> None:
    """The rules that the design names one by one."""
    of = {
        part: {_part(one) for m in graph() if m and _part(m) == part for one in graph()[m]}
        for part in _LEVEL
    }
    assert "engine" not in of["gating"] | of["decision"] | of["loaders"] | of["session"]
    assert "retrieval" not in of["models"]
    assert not {"gating", "session", "engine", "loaders"} & of["retrieval"]


def test_the_benchmarks_arm_uses_the_public_objects_only() -> None:
    """What the benchmark measures is what users have."""
    parts = {_part(one) for one in graph()["lab.attention.two_phase"]}
    assert not {"loaders", "gating", "decision", "retrieval"} & parts


def test_a_file_name_stands_once() -> None:
    """A reader who looks for a name has one place to open; what only a checkout has is apart."""
    shipped = [
        path
        for module, path in MODULES.items()
        if path.name != "__init__.py" and not module.startswith("lab.")
    ]
    counted = Counter(path.name for path in shipped)
    assert [str(path.relative_to(ROOT)) for path in shipped if counted[path.name] > 1] == []
