# ruff: noqa: E501
"""The reference pages are generated from the code: `python tests/test_reference.py` writes them."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

import shortlist
from shortlist import registry
from shortlist.cli.app import app
from shortlist.config import (
    Config,
    IndexConfig,
    SessionConfig,
    TierConfig,
    TrustConfig,
)
from shortlist.gateway.profiles.gateway_settings import (
    CodeSettings,
    GatewaySettings,
    ProfileSettings,
    VoteSettings,
)
from shortlist.sections import DenseConfig, FusionConfig, LexicalConfig

DOCS = Path(shortlist.__file__).parent / "docs"
_SECTIONS = {
    "": Config,
    "lexical": LexicalConfig,
    "dense": DenseConfig,
    "fusion": FusionConfig,
    "tiers.NAME": TierConfig,
    "index": IndexConfig,
    "trust": TrustConfig,
    "session": SessionConfig,
}
_GATEWAY = {
    "": GatewaySettings,
    "profiles.NAME": ProfileSettings,
    "profiles.NAME.votes": VoteSettings,
    "code": CodeSettings,
}
#: Commands of the page about the gateway, and of the page about measuring; others are on the first.
_GATEWAY_COMMANDS = {
    "serve",
    "stop",
    "import",
    "install",
    "logs",
    "stats",
    "secret",
    "auth",
    "hook",
}
_MEASURING = {"eval", "calibrate", "learn", "lab", "demo"}


def _arguments(cls: type) -> dict[str, str]:
    """What the docstring of a class says about each setting."""
    text = inspect.cleandoc(cls.__doc__ or "")
    block = re.search(r"^Args:\n(.*?)(?=^\S|\Z)", text, re.DOTALL | re.MULTILINE)
    found: dict[str, str] = {}
    for one in re.split(r"\n(?=    \w+:)", (block.group(1) if block else "").rstrip()):
        name, _, meaning = one.strip().partition(": ")
        found[name] = re.sub(r"\s+", " ", meaning)
    return found


def _default(cls: Any, name: str) -> str:
    field = cls.model_fields[name]
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or (isinstance(value, tuple | dict | str) and not value):
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float | str):
        return f"`{value}`"
    if isinstance(value, tuple):
        return ", ".join(f"`{one}`" for one in value)
    return "a table"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _settings(sections: dict[str, Any]) -> Iterator[str]:
    for name, cls in sections.items():
        yield from ["", f"## `[{name}]`" if name else "## Top level", ""]
        yield from ["| setting | default | meaning |", "|---|---|---|"]
        meanings = _arguments(cls)
        for setting in cls.model_fields:
            meaning = meanings[setting]
            yield f"| `{setting}` | {_default(cls, setting)} | {_cell(meaning)} |"


def _parts() -> Iterator[str]:
    yield from [
        "",
        "## Parts and their settings",
        "",
        "| part | name | settings |",
        "|---|---|---|",
    ]
    for kind in ("lexical", "dense", "fusion"):
        for name in registry.names(kind):
            settings = (
                ", ".join(f"`{one}`" for one in registry.settings_model(kind, name).model_fields)
                or "none"
            )
            yield f"| {kind} | `{name}` | {settings} |"


_OBJECTS = (
    "## Parts of your own",
    "",
    "An encoder, a reranker and a fusion may be objects of your own. No package is needed:",
    "",
    "```python",
    "from shortlist import Engine",
    "from shortlist.demo import load_catalog",
    "from shortlist.models import Encoder, Reranker",
    "",
    "def embed(texts: list[str]) -> list[list[float]]:      # one vector for each text",
    '    words = ("issue", "file", "message", "table")',
    "    return [[text.lower().count(word) + 0.01 for word in words] for text in texts]",
    "",
    "def score(query: str, texts: list[str]) -> list[int]:    # one number for each text, higher is better",
    "    return [sum(word in text for word in query.split()) for text in texts]",
    "",
    "engine = Engine.from_tools(",
    "    load_catalog(),",
    '    encoder=Encoder.of(embed, dim=4, name="mine-1"),',
    '    reranker=Reranker.of(score, name="overlap-1"),',
    ")",
    'assert engine.search("open an issue", tier="rerank").tier == "rerank"',
    "```",
    "",
    "The `name` stands for the model and its version. A saved index keeps the names, not the objects: pass the objects to",
    "`Engine.open` again. With another name, the tools are encoded again. If the encoder fails while tools are encoded, that is an error.",
    "If a model fails in a search, or its answer is not as described, the tier's `fallback` answers. `tier_reason` names the model and the",
    "failure, and the first failure is logged. A tier without a fallback raises the error. A fusion has the method `fuse(rankings)`.",
    "`tier=` takes a strategy of your own wherever it takes a name: an object with `rank(run)` and `fallback`.",
    "",
    "A configuration in Python takes the same objects, also in a single tier:",
    "",
    "```python",
    "mine = {",
    '    "retrievers": ["lexical", "dense"],',
    '    "reranker": Reranker.of(score, name="overlap-1"),',
    '    "fallback": "hybrid",',
    "}",
    'engine = Engine.from_tools(load_catalog(), tiers={"mine": mine}, default_tier="mine")',
    'assert engine.search("open an issue").tier == "mine"',
    "```",
    "",
)
_RERANKING = (
    "## Reranking",
    "",
    "No reranker is bundled. The tier `rerank` exists if you name a cross-encoder:",
    "",
    "```toml",
    'reranker = "mixedbread-ai/mxbai-rerank-xsmall-v1"',
    "```",
    "",
    "- A model on the Hugging Face hub needs `pip install 'shortlist[hub]'`. It is downloaded once. A folder with an ONNX model needs",
    "  nothing, and `sentence-transformers:NAME` the extra `sentence-transformers`.",
    '- `tier="rerank"` takes the candidates of `hybrid`, and the model scores the best 40 again. That takes about 150 ms. If it does not',
    "  fit the time budget or fails, the answer is that of `hybrid` ([speed](speed.md)).",
    "- The weights of mxbai-rerank-xsmall-v1 were never run here, and the time is an estimate. Tests use a small random model of the",
    "  same layout. Measure it on your own queries with `shortlist eval --engine-settings` before you use it.",
    "- The bundled calibration judges no tier that reranks ([deciding](deciding.md)). `shortlist calibrate` fits one.",
    "",
    'Without the line, `tier="rerank"` is an error that names the line.',
)


def configuration() -> str:
    """The page about the configuration of an engine."""
    return "\n".join([
        "# Configuration",
        "",
        "After this page you know every setting of an engine. Give them as keyword arguments of",
        "`Engine.from_tools` and `Engine.open`, or as a TOML or JSON file: `Config.read(FILE)`, and `--engine-settings FILE`",
        "on the command line. Both together: `Engine.from_tools(tools, config=Config.read(FILE), k=5)`. An unknown setting is an",
        "error that lists what exists, and a type checker finds it. Paths in a file are relative to its folder. This page is",
        "generated from the code.",
        "",
        "```toml",
        'default_tier = "hybrid"',
        "",
        "[dense]",
        'backend = "hnswlib"             # needs the extra hnsw',
        "links = 32",
        "",
        "[tiers.wide]                    # a tier of your own",
        'retrievers = ["dense"]',
        "depth = 500",
        "```",
        "",
        "Nothing is downloaded unless a model on a hub is named. Settings of the gateway: [gateway settings](gateway-settings.md).",
        *_settings(_SECTIONS),
        *_parts(),
        "",
        *_OBJECTS,
        *_RERANKING,
        "",
        "Rules, under `[gate]`: [the gate](gate.md). To add a part of your own: [CONTRIBUTING](../CONTRIBUTING.md).",
        "",
    ])  # fmt: skip


def gateway_settings() -> str:
    """The page about the settings of the gateway."""
    return "\n".join([
        "# Gateway settings",
        "",
        "After this page you know every setting of `shortlist serve`. Write them under the key `shortlist` of the file with",
        "your servers, or in a separate TOML or JSON file (`--settings FILE`). This page is generated from the code.",
        *_settings(_GATEWAY),
        "",
        "What they are for: [the gateway](gateway.md). Settings under `engine`: [configuration](configuration.md).",
        "",
    ])  # fmt: skip


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    if hasattr(command, "commands"):
        if command.invoke_without_command and len(path.split()) > 1:
            yield path, command
        for name, inner in sorted(command.commands.items()):
            if not inner.hidden:
                yield from _commands(inner, f"{path} {name}")
    else:
        yield path, command


def _value(param: Any) -> str:
    kind = param.type_descriptor.annotation
    return {int: "N", float: "NUMBER"}.get(kind, "TEXT")


def _named(param: Any) -> str:
    if param.param_type_name == "argument":
        name = param.metavar or param.name.upper()
        return f"`{name}`"
    shown = ", ".join([*param.opts, *param.secondary_opts])
    if param.is_bool_flag:
        return f"`{shown}`"
    return f"`{shown} {param.metavar or _value(param)}`"


def commands() -> str:
    """The page about all commands but those of the laboratory."""
    lines = [
        "# Commands",
        "",
        "After this page you know every command and its options. This page is generated from the code.",
        "All commands that read take `--json`. Exit codes: 0 done, 1 error, 2 wrong usage, 3 a check failed.",
    ]
    sections: dict[str, Any] = {
        "Catalogs and search": lambda name: name not in _GATEWAY_COMMANDS | _MEASURING,
        "The [gateway](gateway.md)": lambda name: name in _GATEWAY_COMMANDS,
        "[Evaluation](evaluation.md) and [deciding](deciding.md)": lambda name: (
            name in _MEASURING - {"lab"}
        ),
    }
    for title, wanted in sections.items():
        lines += ["", f"## {title}", "", *_command_table(wanted)]
    return "\n".join([*lines, ""])


def _command_table(wanted: Any) -> list[str]:
    lines = ["| command or option | what it does |", "|---|---|"]
    for path, command in _commands(typer.main.get_command(app), "shortlist"):
        if not wanted(path.split()[1]):
            continue
        first = re.sub(r"\s+", " ", (command.help or "").split("\n\n")[0]).strip()
        lines.append(f"| **`{path}`** | **{_cell(first)}** |")
        lines += [
            f"| {_named(param)} | {_cell(getattr(param, 'help', None) or '')} |"
            for param in command.params
            if param.name != "help" and not param.hidden
        ]
    return lines


PAGES = {
    "configuration.md": configuration,
    "gateway-settings.md": gateway_settings,
    "commands.md": commands,
}


@pytest.mark.parametrize("page", PAGES)
def test_the_page_is_as_generated(page: str) -> None:
    held = (DOCS / page).read_text(encoding="utf-8")
    assert held == PAGES[page](), "run: python tests/test_reference.py"


@pytest.mark.parametrize("cls", [*_SECTIONS.values(), *_GATEWAY.values()])
def test_every_setting_is_explained(cls: Any) -> None:
    assert set(_arguments(cls)) == set(cls.model_fields)


def test_every_option_is_explained() -> None:
    for path, command in _commands(typer.main.get_command(app), "shortlist"):
        for param in command.params:
            assert param.name == "help" or getattr(param, "help", None), f"{path} {param.name}"


if __name__ == "__main__":
    for name, make in PAGES.items():
        (DOCS / name).write_text(make(), encoding="utf-8")
        sys.stdout.write(f"{DOCS / name}\n")
