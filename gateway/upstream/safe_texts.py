"""Texts of servers besides tools, made safe for models.

Instructions, lists of resources and prompts, log messages. No operator approves them, so what the
scan flags is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import unquote

import mcp.types as types

from ...catalog import Tool
from ...catalog.text_cleaning import (
    DESCRIPTION_LIMIT,
    NAME_LIMIT,
    CleaningNotes,
    clean,
    written_out,
)
from ...errors import ToolError
from ...trust import scan
from .server_lists import ResourcesAndPrompts
from .skills import Skill, skill_tool

#: Most characters of a server's instructions that are used, and of a log message.
_MAX_INSTRUCTION_CHARS, _MAX_MESSAGE_CHARS = 4_000, 1_000
#: In place of a log message that may hide instructions.
_LEFT_OUT_MESSAGE = "[left out: the message may hide instructions]"
#: Beginnings of the addresses of icons. Others, such as `javascript:`, could do something.
_ICON_URL_BEGINNINGS = ("https://", "http://", "data:image/")
_NUMBER = re.compile(r"\b\d+\b")

Entry = TypeVar("Entry", types.Resource, types.ResourceTemplate, types.Prompt)


@lru_cache(512)
def safe_instructions(server: str, text: str) -> str:
    """A server's instructions, cleaned; empty if the scan finds anything in them.

    Instructions are in every prompt. So even a warning removes them.

    Args:
        server: its name.
        text: the server's text; its first 4,000 characters are used.
    """
    if not text.strip():
        return ""
    try:
        as_tool = Tool("instructions", server, text[:_MAX_INSTRUCTION_CHARS])
    except ToolError:
        return ""
    return "" if scan(as_tool) else as_tool.description.strip()


def safe_resources_and_prompts(
    server: str, lists: ResourcesAndPrompts, problems: list[str]
) -> ResourcesAndPrompts:
    """The resources and prompts as clients see them in lists.

    Titles, descriptions, `_meta` and icons are left out if the scan would quarantine them. So are
    icons whose address is no web address or image. An entry whose name or address it would
    quarantine, or has invisible characters, is not listed. It can still be used.

    Args:
        server: name of the server.
        lists: the server's lists.
        problems: gets a line for each list that is changed.
    """
    return replace(
        lists,
        resources=_safe_entries(server, "resources", lists.resources, problems),
        templates=_safe_entries(server, "resource templates", lists.templates, problems),
        prompts=_safe_entries(server, "prompts", lists.prompts, problems),
        skills=_safe_skills(server, lists.skills, problems),
    )


def _safe_skills(server: str, skills: Iterable[Skill], problems: list[str]) -> tuple[Skill, ...]:
    """The skills with safe names and addresses. Other texts of a skill can be approved."""
    safe = []
    unlisted = 0
    for skill in skills:
        names = [skill.name, *(file.uri for file in skill.files)]
        if not all(_is_safe_name(server, name) for name in names):
            unlisted += 1
            continue
        try:
            skill_tool(server, skill)
        except ToolError as error:
            problems.append(f"skill {skill.uri!r:.80} is left out: {error}")
        else:
            safe.append(skill)
    if unlisted:
        problems.append(f"{unlisted:,} of its skills are left out: their names look hostile")
    return tuple(safe)


def safe_message(server: str, data: Any) -> Any:
    """A log or progress message for a client; a fixed sentence if the scan would quarantine it.

    Args:
        server: name of the server.
        data: a text, or any JSON value. A text of more than 1,000 characters is cut.
    """
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=str)
    shown = text[:_MAX_MESSAGE_CHARS]
    if _hides_instructions(server, _NUMBER.sub("0", shown)):
        return _LEFT_OUT_MESSAGE
    shown = written_out(shown)
    if len(text) > _MAX_MESSAGE_CHARS:
        return f"{shown} [the first {_MAX_MESSAGE_CHARS:,} of {len(text):,} characters]"
    return data if shown == text else shown


def _safe_entries(
    server: str, kind: str, entries: Iterable[Entry], problems: list[str]
) -> tuple[Entry, ...]:
    listed: list[Entry] = []
    unlisted = shortened = 0
    for entry in entries:
        if not all(_is_safe_name(server, name) for name in _names_of(entry)):
            unlisted += 1
            continue
        safe_entry = _without_flagged_texts(server, entry)
        shortened += safe_entry is not entry
        listed.append(safe_entry)
    if unlisted:
        problems.append(f"{unlisted:,} of its {kind} are not listed: their names look hostile")
    if shortened:
        problems.append(
            f"{shortened:,} of its {kind} have descriptions that are left out or cleaned: they may "
            "hide instructions"
        )
    return tuple(listed)


def _names_of(entry: Entry) -> list[str]:
    """The names and addresses of an entry, by which it is used."""
    if isinstance(entry, types.Resource):
        return [entry.name, entry.uri]
    if isinstance(entry, types.ResourceTemplate):
        return [entry.name, entry.uri_template]
    return [entry.name, *(argument.name for argument in entry.arguments or ())]


def _is_safe_name(server: str, name: str) -> bool:
    if len(name) > DESCRIPTION_LIMIT or name != written_out(name):
        return False
    return not _hides_instructions(server, unquote(name).replace("/", " "))


def _without_flagged_texts(server: str, entry: Entry) -> Entry:
    """The entry with safe texts; the same object if all are safe."""
    changes: dict[str, Any] = _safe_texts(server, entry)
    for field in ("meta", "icons", "mime_type"):
        value = getattr(entry, field, None)
        if value is not None and is_flagged_extra(server, value):
            changes[field] = None
    if isinstance(entry, types.Prompt) and entry.arguments:
        arguments = [
            argument.model_copy(update=_safe_texts(server, argument))
            for argument in entry.arguments
        ]
        if arguments != entry.arguments:
            changes["arguments"] = arguments
    return entry.model_copy(update=changes) if changes else entry


def _safe_texts(server: str, entry: Entry | types.PromptArgument) -> dict[str, Any]:
    """The title and the description that change, with their new values."""
    changes: dict[str, Any] = {}
    for field, limit in (("title", NAME_LIMIT), ("description", DESCRIPTION_LIMIT)):
        text = getattr(entry, field)
        if not text:
            continue
        is_flagged = _hides_instructions(server, text[:DESCRIPTION_LIMIT])
        safe = None if is_flagged else clean(text, field, CleaningNotes(), limit)
        if safe != text:
            changes[field] = safe
    return changes


def is_flagged_extra(server: str, value: Any) -> bool:
    """Whether an extra field may not reach clients: `_meta`, icons or a media type.

    Args:
        server: name of the server.
        value: a JSON value, or a list of icons.
    """
    if isinstance(value, list) and all(isinstance(item, types.Icon) for item in value):
        if not all(item.src.startswith(_ICON_URL_BEGINNINGS) for item in value):
            return True
        value = [item.model_dump(exclude={"src"}) for item in value]
    text = "\n".join(texts_of(value))
    return text != written_out(text) or any(
        _hides_instructions(server, text[start : start + DESCRIPTION_LIMIT])
        for start in range(0, len(text), DESCRIPTION_LIMIT)
    )


def texts_of(value: Any) -> Iterator[str]:
    """Every key and text of a JSON value."""
    if isinstance(value, Mapping):
        for key, child in value.items():
            yield str(key)
            yield from texts_of(child)
    elif isinstance(value, list):
        for item in value:
            yield from texts_of(item)
    elif isinstance(value, str):
        yield value


@lru_cache(2_000)
def _hides_instructions(server: str, text: str) -> bool:
    """Whether a tool with this description would be quarantined."""
    if not text.strip():
        return False
    try:
        findings = scan(Tool("text", server, text))
    except ToolError:
        return True
    return any(finding.level == "quarantine" for finding in findings)
