"""What docs/migrating.md says: its example runs, and the names in it are there or gone."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import shortlist
from shortlist import Engine, Session
from shortlist.config import SessionConfig
from shortlist.loaders import Prompt
from shortlist.session import Turn, Verdict

PAGE = (Path(shortlist.__file__).parent / "docs" / "migrating.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (.+?) \| (.+) \|$", PAGE, re.MULTILINE)
DOTTED = r"`(shortlist\.[a-z_.]+[a-z_](?:\.[A-Z]\w+)?)`"


def there(name: str) -> bool:
    """Whether a dotted name is a module or something in one."""
    module, _, attribute = name.rpartition(".")
    if attribute[0].isupper():
        try:
            return hasattr(import_module(module), attribute)
        except ModuleNotFoundError:
            return False
    return find_spec(module) is not None and find_spec(name) is not None


@pytest.mark.parametrize("passes", [True, False])
def test_the_example_runs(engine: Engine, passes: bool) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    wanted: dict[str, Any] = {"id": "7"} if passes else {}
    called = {"tool": "mail/list_message", "arguments": wanted}
    names: dict[str, Any] = {
        "engine": engine,
        "request": "list my mail messages",
        "messages": [],
        "chat": lambda system, tools, messages: {"name": "call_tool", "arguments": called},
        "run": lambda tool_id, arguments: "none",
    }
    exec(compile(program, "docs/migrating.md", "exec"), names)
    session = names["session"]
    assert session.settings.active_tools == 30
    assert session.state.called == (("mail/list_message",) if passes else ())
    assert (names["content"] == "none") is passes


def test_the_modules_named_are_there_or_gone() -> None:
    moved = [row for row in ROWS if re.search(DOTTED, row[0]) and re.search(DOTTED, row[1])]
    assert len(moved) == 11
    for before, now in moved:
        assert not any(there(name) for name in re.findall(DOTTED, before)), before
        assert all(there(name) for name in re.findall(DOTTED, now)), now


def test_the_verbs_named_are_there_or_gone() -> None:
    for name in ("admission", "search_many", "asearch", "explain", "details"):
        assert not hasattr(Engine, name)
    for name in ("observe", "standing", "to_dict", "from_dict"):
        assert not hasattr(Session, name)
    for owner, text in ((Session, "session"), (shortlist.View, "view"), (Engine, "engine")):
        for _, now in ROWS:
            for name in re.findall(rf"`{text}\.(\w+)", now):
                assert hasattr(owner, name), (text, name)
    for _, now in ROWS:
        for name in re.findall(r"`turn\.(\w+)", now):
            assert name in dir(Turn), name
        for name in re.findall(r"`verdict\.(\w+)", now):
            assert name in dir(Verdict), name


def test_the_settings_named_are_there() -> None:
    known = {
        *SessionConfig.model_fields,
        *inspect.signature(Engine.session).parameters,
        *inspect.signature(Engine.view).parameters,
        *shortlist.Config.model_fields,
        *inspect.signature(Session.result).parameters,
        "decide",
    }
    for _, now in ROWS:
        for name in re.findall(r"\b([a-z_]+)=", now):
            assert name in known, now
    # The loaders' own class keeps its arguments.
    assert {"schema_budget", "pass_through_share"} <= {*inspect.signature(Prompt).parameters}
