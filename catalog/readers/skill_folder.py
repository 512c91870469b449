"""Skills: folders with a `SKILL.md`, as tools without arguments. A call of one returns its text.

The format is that of https://agentskills.io: front matter in YAML with `name`, `description` and
perhaps `allowed-tools`, then the text for the model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...errors import CatalogError, ToolError
from ..text_file import read_text_file
from ..tool import Tool
from .reader import Document, Entry
from .yaml_text import parse_yaml

SKILL_FILE = "SKILL.md"
"""The file that a folder of a skill has."""
SKILL_SERVER = "skills"
"""Server of skills for which none is given, so that their ids are `skills/NAME`."""
_MAX_BYTES = 100_000
"""Maximum bytes of a `SKILL.md`. All of it is scanned."""
_MAX_TOOLS = 20
SKILL_ANNOTATION = "skill"
"""The annotation of a tool that holds the text of a skill, and the tools that it names."""
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
#: A name in `allowed-tools`, without the limits on its arguments that may follow: `Bash(git:*)`.
_TOOL_NAME = re.compile(r"([^\s,()]+)(?:\([^()]*\))?")


def skill_documents(folder: Path) -> Iterator[Document]:
    """Each skill of a folder that has folders with a `SKILL.md`."""
    for file in sorted(folder.glob(f"*/{SKILL_FILE}")):
        document = Document({}, str(file), fallback=SKILL_SERVER, one_of_many=True)
        try:
            text = read_text_file(file, _MAX_BYTES)
            document.value = {SKILL_FILE: text, "folder": file.parent.name}
        except CatalogError as error:
            document.problem = error
        yield document


def skill_text(tool: Tool) -> str | None:
    """What a call of a skill returns; None for any other tool.

    Example:
        >>> from shortlist import Tool
        >>> from shortlist.catalog import skill_text
        >>> skill_text(Tool("close_month", "skills", annotations={"skill": {"text": "First ..."}}))
        'First ...'
    """
    return _skill(tool).get("text")


def tools_of_skill(tool: Tool) -> list[str]:
    """The names in the `allowed-tools` of a skill, at most 20; none of any other tool."""
    skill = _skill(tool)
    names = skill.get("tools") if skill else None
    listed = names if isinstance(names, list) else []
    return [name for name in listed[:_MAX_TOOLS] if isinstance(name, str)]


def _skill(tool: Tool) -> dict[str, Any]:
    """The text of a skill and the tools that it names; empty for any other tool."""
    skill = (tool.annotations or {}).get(SKILL_ANNOTATION)
    return skill if isinstance(skill, dict) and isinstance(skill.get("text"), str) else {}


class SkillReader:
    """An object with the text of a `SKILL.md`, which `skill_documents` makes of a folder."""

    name = "skills"

    def recognises(self, value: Any) -> bool:
        """An object with the key `SKILL.md`."""
        return isinstance(value, dict) and SKILL_FILE in value

    def entries(self, document: Document) -> Iterator[Entry]:
        """The skill."""
        if not self.recognises(document.value):
            raise CatalogError(f"no skill: expected a folder that has folders with a {SKILL_FILE}")
        yield Entry("the skill", document.value, document.server_or_default())

    def tool(self, entry: Entry) -> Tool:
        """The skill as a tool. Its text is an annotation: scanned and pinned, but not searched."""
        text = entry.value[SKILL_FILE]
        if not isinstance(text, str):
            raise ToolError(field=SKILL_FILE, reason="must be a text")
        front_matter = _FRONT_MATTER.match(text)
        try:
            matter = parse_yaml(front_matter[1]) if front_matter else None
        except ValueError as error:
            raise ToolError(field="front matter", reason=str(error)) from None
        if front_matter is None or not isinstance(matter, dict) or not matter.get("description"):
            reason = "must begin with a line ---, then name and description in YAML, then ---"
            raise ToolError(field="front matter", reason=reason)
        listed = matter.get("allowed-tools") or ""
        names = listed if isinstance(listed, list) else [listed]
        tools = [
            found for name in names if isinstance(name, str) for found in _TOOL_NAME.findall(name)
        ]
        skill = {"text": text[front_matter.end() :].strip(), "tools": tools}
        return Tool.from_dict(
            {
                "name": matter.get("name") or entry.value.get("folder"),
                "server": entry.server,
                "description": matter["description"],
                "annotations": {"readOnlyHint": True, SKILL_ANNOTATION: skill},
            }
        )
