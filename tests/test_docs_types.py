"""The code of the pages passes `mypy --strict`, as a user's code would."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import shortlist

from .test_setting_types import checked

ROOT = Path(shortlist.__file__).parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
#: What a page tells its reader to provide.
PROVIDED = {
    "langchain": """
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool

tools: list[BaseTool]
model: BaseChatModel
""",
    "frameworks": """
from typing import Any

import agents
import fastmcp
import pydantic_ai.models
import pydantic_ai.toolsets

model: pydantic_ai.models.Model[Any]
toolset: pydantic_ai.toolsets.AbstractToolset[Any]
function_tools: list[agents.FunctionTool]
agents_model: agents.Model
server: fastmcp.FastMCP
""",
    "observing": """
from shortlist import Engine

engine: Engine
""",
    "loop": """
from typing import Any

from shortlist import Gate, State, Tool

tools: list[Tool]
gate: Gate
state: State
store: dict[str, Any]
def run(tool: Tool, arguments: dict[str, Any]) -> str: return tool.id
def scopes_of(user: str) -> set[str]: return {user}
""",
}
#: Pages with a program for each of several providers, as groups of their blocks.
PROGRAMS = {
    "code-mode": [(0,), (1,)],
    "frameworks": [(0, 1), (2,), (3,)],
    "loop": [(0, 4, 5, 6, 7, 8, 9), (1,), (2, 3)],
}


def programs() -> list[object]:
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        blocks = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
        for group in PROGRAMS.get(page.stem, [range(len(blocks))] if blocks else []):
            code = "\n".join(blocks[place] for place in group)
            found.append(pytest.param(page.stem, code, id=f"{page.stem}-{len(found)}"))
    return found


def test_a_type_checker_accepts_the_code_of_every_page(tmp_path: Path) -> None:
    for needed in ("mypy", "anthropic", "openai", "langchain"):
        pytest.importorskip(needed)
    sources = {
        str(param.id).replace("-", "_").lower(): PROVIDED.get(stem, "") + code
        for param in programs()
        for stem, code in [param.values]
    }
    assert len(sources) > 15
    assert checked(sources, tmp_path) == []
