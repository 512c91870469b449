"""Types of settings as keyword arguments; `python tests/test_setting_types.py` writes them."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest

import shortlist
from shortlist import Config
from shortlist.config import IndexConfig, SessionConfig, TrustConfig
from shortlist.settings import Section

ROOT = Path(shortlist.__file__).parent
TARGET = ROOT / "setting_types.py"
#: Sections whose settings are all known; those of the others come from the chosen part.
TYPED: dict[type, str] = {
    IndexConfig: "IndexSettings",
    TrustConfig: "TrustSettings",
    SessionConfig: "SessionSettings",
    Config: "ConfigSettings",
}
#: Settings that take more than what they become.
WIDER = {
    (Config, "tiers"): "Mapping[str, Section | Mapping[str, Any]] | Sequence[str]",
    (Config, "abstention"): "str | Path",
    (Config, "gate"): "Gate | Mapping[str, Any]",
}
HEAD = '''"""Types of settings as keyword arguments, so that a type checker finds a wrong one.

Generated from the settings' models: `python tests/test_setting_types.py` writes this file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from .gating.rules import Gate
from .models.model_protocols import Encoder, Reranker
from .retrieval.backends.protocols import Fusion
from .retrieval.search.query_run import Strategy
from .settings import (
    DenseConfig,
    EncoderConfig,
    FusionConfig,
    LexicalConfig,
    RerankerConfig,
    Section,
)
'''


def parts_of(annotation: Any) -> list[str]:
    """The types that a setting of this type takes, as code."""
    origin = get_origin(annotation)
    if hasattr(annotation, "__metadata__"):
        return parts_of(annotation.__origin__)
    if origin in (Union, types.UnionType):
        return [part for inner in get_args(annotation) for part in parts_of(inner)]
    if origin is Literal:
        return [f"Literal[{', '.join(map(repr, get_args(annotation)))}]".replace("'", '"')]
    if origin is tuple:
        return [f"Sequence[{code_of(get_args(annotation)[0])}]"]
    if annotation is type(None):
        return ["None"]
    if annotation is Path:
        return ["str", "Path"]
    if isinstance(annotation, type) and issubclass(annotation, Section):
        # `config` imports the types, so they name its sections by their base.
        is_base = annotation in TYPED
        return [
            "Section" if is_base else annotation.__name__,
            TYPED.get(annotation, "Mapping[str, Any]"),
        ]
    if isinstance(annotation, type):
        return [annotation.__name__]
    return [str(annotation).replace("collections.abc.", "").replace("NoneType", "None")]


def code_of(annotation: Any) -> str:
    parts = list(dict.fromkeys(parts_of(annotation)))
    return " | ".join(sorted(parts, key=lambda part: part == "None"))


def written() -> str:
    blocks = [HEAD]
    for model, name in TYPED.items():
        lines = [f"class {name}(TypedDict, total=False):"]
        lines += [f'    """Settings of `{model.__name__}`, which describes them."""', ""]
        for field, info in model.model_fields.items():
            code = WIDER.get((model, field)) or code_of(info.annotation)
            lines.append(f"    {field}: {code}")
        blocks.append("\n".join(lines) + "\n")
    ruff = [sys.executable, "-m", "ruff", "format", "--line-length", "100", "-"]
    return subprocess.run(
        ruff, input="\n\n".join(blocks), capture_output=True, text=True, check=True
    ).stdout


def test_the_types_are_those_of_the_models() -> None:
    pytest.importorskip("ruff")
    assert TARGET.read_text(encoding="utf-8") == written()


@pytest.mark.parametrize(
    ("function", "name"),
    [
        ("Config.__init__", "ConfigSettings"),
        ("Engine.from_tools", "ConfigSettings"),
        ("Engine.open", "ConfigSettings"),
        ("Engine.session", "SessionSettings"),
        ("Engine.resume", "SessionSettings"),
    ],
)
def test_every_function_with_settings_names_their_types(function: str, name: str) -> None:
    owner, _, method = function.partition(".")
    signature = inspect.signature(getattr(getattr(shortlist, owner), method))
    (settings,) = (p for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD)
    assert settings.annotation == f"Unpack[{name}]"


def test_the_file_can_be_imported() -> None:
    from shortlist import setting_types

    for model, name in TYPED.items():
        hints = get_type_hints(getattr(setting_types, name))
        assert list(hints) == list(model.model_fields)


RIGHT = """
from pathlib import Path
from typing import Any

from shortlist import Config, Engine, Gate, State, Tool
from shortlist.config import SessionConfig
from shortlist.models import Encoder

def embed(texts: list[str]) -> list[list[float]]:
    return [[float(len(text)), 1.0] for text in texts]

tools = [Tool("list_invoices", "billing")]
config = Config(k=5, default_tier="lexical", trust={"pins": "pins.json", "scan": True})
engine = Engine.from_tools(tools, config=config, k=7, tiers=["lexical"], on_missing="degrade")
Engine.from_tools(tools, encoder=Encoder.of(embed, dim=2, name="mine-1"), reranker="org/model")
Engine.from_tools(tools, tiers={"mine": {"retrievers": ["dense"]}}, dense={"backend": "exact"})
Engine.from_tools(tools, gate=Gate(), session={"k": 3}, index={"example_queries": ["library"]})
Engine.open(Path("index"), session=SessionConfig(k=3), abstention=Path("mine.json"))
session = engine.session("openai", k=3, pinned=["billing/list_invoices"], events=print)
engine.resume(session.save(), state=State(), turn_tokens=500)
"""
WRONG = (
    'Config(deafult_tier="lexical")',
    'Engine.from_tools(tools, deafult_tier="lexical")',
    'Engine.from_tools(tools, k="five")',
    'Engine.from_tools(tools, on_missing="ignore")',
    "Engine.from_tools(tools, encoder=7)",
    "Engine.from_tools(tools, encoder=embed)",
    'Engine.from_tools(tools, trust={"scann": True})',
    'Engine.open("index", sesion={"k": 3})',
    'engine.session(provider="openai", tools="list", activ_tools=9)',
    'engine.session(pool_tokens="everything")',
    "engine.session(pinned=7)",
    'engine.session(pass_through="3 %")',
    "engine.resume(session.save(), state=3)",
    "engine.resume(session.save(), state=State(), abstain=2.5)",
    'engine.search("invoices", teir="lexical")',
    'Encoder.of(embed, dims=2, name="mine-1")',
)


def checked(sources: dict[str, str], tmp_path: Path) -> list[str]:
    """The lines that mypy refuses in a user's modules, with its messages."""
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "shortlist").symlink_to(ROOT)
    files = []
    for name, code in sources.items():
        files.append(f"{name}_of_a_user.py")
        (tmp_path / files[-1]).write_text(code, encoding="utf-8")
    # With the configuration and the cache of `make lint`, which has checked all that they import.
    command = [sys.executable, "-m", "mypy", "--no-error-summary"]
    settings = ["--config-file", str(ROOT / "pyproject.toml")]
    done = subprocess.run(
        [*command, *settings, "--cache-dir", str(ROOT / ".mypy_cache"), *files],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(modules)},
    )
    assert done.returncode in (0, 1), done.stderr
    return [line for line in done.stdout.splitlines() if ": error: " in line]


def test_a_type_checker_accepts_right_settings_and_finds_each_wrong_one(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    first = RIGHT.count("\n") + 1
    errors = checked({"settings": RIGHT + "\n".join(WRONG) + "\n"}, tmp_path)
    lines = {int(match[1]) for error in errors if (match := re.search(r"\.py:(\d+):", error))}
    assert lines == set(range(first, first + len(WRONG))), "\n".join(errors)


if __name__ == "__main__":
    TARGET.write_text(written(), encoding="utf-8")
