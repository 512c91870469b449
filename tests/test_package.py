"""The package as its users meet it: a small public face, cheap to import, typed."""

from __future__ import annotations

import importlib
import pkgutil
import re
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

import shortlist
from shortlist.tests.test_layers import MODULES

ROOT = Path(shortlist.__file__).parent
HEAVY = ("numpy", "onnxruntime", "tantivy", "pydantic", "torch", "tokenizers", "tiktoken", "rich")
#: Modules that need an extra, and the libraries it brings.
NEEDS = {"shortlist.lab.training": ("torch", "transformers", "onnx")}


def modules() -> list[str]:
    names = []
    for found in pkgutil.walk_packages([str(ROOT)], "shortlist."):
        if found.name.startswith("shortlist.tests"):
            continue
        names.append(found.name)
    return names


PUBLIC = set(
    "Engine View Session Catalog Tool Config State Gate Rule Hit Selection ShortlistError".split()
) | {"__version__"}


def test_importing_is_cheap() -> None:
    program = (
        "import sys; before = set(sys.modules); import shortlist; "
        f"heavy = [m for m in {HEAVY!r} if m in sys.modules]; "
        "assert not heavy, heavy; "
        "own = [m for m in sys.modules if m.startswith('shortlist.')]; "
        "assert own == ['shortlist.lazy'], own"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr


@pytest.mark.parametrize("module", ["shortlist.catalog", "shortlist.models"])
def test_importing_a_part_loads_no_model_runtime(module: str) -> None:
    program = (
        f"import sys, {module}; "
        "heavy = [m for m in ('onnxruntime', 'tantivy', 'torch', 'tokenizers', 'tiktoken') "
        "if m in sys.modules]; assert not heavy, heavy"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr


def test_the_public_names() -> None:
    assert set(shortlist.__all__) == PUBLIC
    assert sorted(shortlist.__all__) == shortlist.__all__
    for name in shortlist.__all__:
        assert getattr(shortlist, name) is not None
    assert set(shortlist.__all__) == set(dir(shortlist))


def test_a_public_name_is_the_one_of_its_module() -> None:
    from shortlist.engine import Engine

    assert shortlist.Engine is Engine


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        shortlist.Nothing  # noqa: B018


def test_the_version_is_that_of_the_installed_package() -> None:
    assert shortlist.__version__ == version("shortlist")


def test_types_are_shipped() -> None:
    assert (ROOT / "py.typed").is_file()


def test_every_module_imports() -> None:
    for name in modules():
        needed = [libraries for prefix, libraries in NEEDS.items() if name.startswith(prefix)]
        if all(find_spec(library) for libraries in needed for library in libraries):
            importlib.import_module(name)


def test_errors_share_one_root() -> None:
    from shortlist import errors

    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    assert len(kinds) > 5
    assert all(issubclass(kind, shortlist.ShortlistError) for kind in kinds)


def test_nothing_installs_this_package_by_a_name_that_anybody_could_take() -> None:
    """It is on no index: what users read says where they have it from, by one constant."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    files = [path for path in pages if path.name != "releasing.md"]  # for its owner
    files += [
        path for path in MODULES.values() if "packaging" not in path.relative_to(ROOT).parts[:-1]
    ]
    by_name = re.compile(
        r"shortlist\[[a-z]|(?:pipx? install|uvx|uv tool (?:run|install)) [^\n]*\bshortlist\b"
    )
    named = {
        str(path.relative_to(ROOT)): found
        for path in files
        if (found := by_name.findall(path.read_text(encoding="utf-8")))
    }
    assert named == {}
