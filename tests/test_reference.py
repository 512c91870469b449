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
from shortlist.gateway.connections.server_spec import LoginSettings, ServerSpec, ToolFilter
from shortlist.gateway.profiles.gateway_settings import (
    CodeSettings,
    GatewaySettings,
    ProfileSettings,
    VoteSettings,
)
from shortlist.settings import DenseConfig, FusionConfig, LexicalConfig

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
    "shortlist": GatewaySettings,
    "shortlist.profiles.NAME": ProfileSettings,
    "shortlist.profiles.NAME.votes": VoteSettings,
    "shortlist.code": CodeSettings,
}
_SERVER = {
    "mcpServers.NAME": ServerSpec,
    "mcpServers.NAME.oauth": LoginSettings,
    "mcpServers.NAME.tools": ToolFilter,
}
#: Keys of a server's entry whose field has another name.
_KEYS = {
    "transport": "type",
    "env_file": "envFile",
    "login": "oauth",
    "client_id": "clientId",
    "client_secret": "clientSecret",
    "callback_port": "callbackPort",
    "redirect_uri": "redirectUri",
    "client_metadata_url": "clientMetadataUrl",
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
        yield from ["", f"## `[{name}]`" if name else "## An engine", ""]
        yield from ["| setting | default | meaning |", "|---|---|---|"]
        meanings = _arguments(cls)
        for setting in cls.model_fields:
            if cls is ServerSpec and setting == "name":
                continue
            default = "from the other keys" if setting == "transport" else _default(cls, setting)
            yield f"| `{_KEYS.get(setting, setting)}` | {default} | {_cell(meanings[setting])} |"


def _parts() -> Iterator[str]:
    yield from [
        "",
        "## Backends and fusions",
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


def settings() -> str:
    """The page with every setting: of an engine, of the gateway, and of a server's entry."""
    return "\n".join([
        "# Settings",
        "",
        "This page lists every setting, with its default. It is generated from the code.",
        "",
        "- **Of an engine**, up to `[session]`: [configuration](configuration.md) says where to write them.",
        "- **Of the gateway**, from `shortlist` on: under the key `shortlist` of `mcp.json`, or in a TOML or JSON file for",
        "  `--settings`. `shortlist.engine` takes all settings of an engine.",
        "- **Of one server**: its entry under `mcpServers`. Keys that other clients use for the same (`httpUrl`,",
        "  `serverUrl`, `working_dir`, `enabled`, `startup_timeout_sec`, ...) are read too.",
        *_settings(_SECTIONS),
        *_parts(),
        *_settings(_GATEWAY),
        *_settings(_SERVER),
        "",
        "Rules, under `[gate]`: [the gate](gate.md).",
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
    "settings.md": settings,
    "commands.md": commands,
}


@pytest.mark.parametrize("page", PAGES)
def test_the_page_is_as_generated(page: str) -> None:
    held = (DOCS / page).read_text(encoding="utf-8")
    assert held == PAGES[page](), "run: python tests/test_reference.py"


@pytest.mark.parametrize("cls", [*_SECTIONS.values(), *_GATEWAY.values(), *_SERVER.values()])
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
