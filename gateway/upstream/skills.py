"""Skills that servers offer (SEP-2640): read with their manifests, and their form as definitions.

A skill is a folder of files for a model, at least `SKILL.md`. Its entry in `skills/list` has the
digest of each file. The files are read as resources.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Literal
from urllib.parse import quote

import mcp.types as types
from mcp import Client, MCPError
from pydantic import BaseModel, Field, RootModel, ValidationError

from ...catalog import Tool
from ...catalog.text_cleaning import DESCRIPTION_LIMIT, NAME_LIMIT
from ..connections.connection_errors import error_in_one_line

#: Key of the extension in the capabilities of a server.
SKILLS_EXTENSION = "io.modelcontextprotocol/skills"
#: Beginning of the names of skills for models.
SKILL_SCHEME = "skill://"
#: Most files of a skill, as the specification has it, and most characters of an address.
_MAX_FILES, _MAX_URI_CHARS = 512, 4_096
#: Most characters of `SKILL.md`. All of it is scanned and pinned.
_MAX_TEXT_CHARS = 60_000


class SkillFile(BaseModel):
    """A file of a skill.

    Args:
        uri: its address at the server.
        digest: `sha256:` and the hexadecimal digest of its bytes.
    """

    uri: str
    digest: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")


class Skill(BaseModel):
    """A skill of a server.

    Args:
        uri: the server's address of its `SKILL.md`.
        name: its name.
        description: what it is for.
        files: all its files.
        text: text of its `SKILL.md`.
    """

    uri: str
    name: str
    description: str
    files: tuple[SkillFile, ...]
    text: str = ""

    def digest_of(self, uri: str) -> str | None:
        """The digest of a file; None if the skill has no such file."""
        return next((file.digest for file in self.files if file.uri == uri), None)


class ListedSkill(RootModel[Any]):
    """An entry of `skills/list` as the server sent it, perhaps malformed."""


class SkillsPage(types.PaginatedResult):
    """A page of `skills/list`."""

    skills: list[ListedSkill]


class _ListSkillsRequest(types.PaginatedRequest[Literal["skills/list"]]):
    method: Literal["skills/list"] = "skills/list"


async def read_skills_page(
    client: Client, cursor: str | None
) -> tuple[types.PaginatedResult, list[ListedSkill]]:
    """One page of the skills of a server."""
    params = types.PaginatedRequestParams(cursor=cursor)
    page = await client.session.send_request(_ListSkillsRequest(params=params), SkillsPage)
    return page, page.skills


def checked_skill(listed: ListedSkill, problems: list[str]) -> Skill | None:
    """A skill from an entry of the list, without its text; None if it cannot be used.

    Args:
        listed: the entry.
        problems: gets a line for an entry that is left out.
    """
    entry = listed.root if isinstance(listed.root, Mapping) else {}
    matter = entry.get("frontmatter")
    matter = matter if isinstance(matter, Mapping) else {}
    label = f"skill {entry.get('uri')!r:.80} is left out"
    if entry.get("resources") == "dynamic":
        problems.append(f"{label}: it has no digests, so that no change of it would be noticed")
        return None
    try:
        skill = Skill.model_validate(
            {
                "uri": entry.get("uri"),
                "name": matter.get("name"),
                "description": matter.get("description"),
                "files": entry.get("resources"),
            }
        )
    except ValidationError as error:
        first_error = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first_error["loc"]))
        problems.append(f"{label}: {place}: {first_error['msg']}")
        return None
    limits = {
        "its name is too long": len(skill.name) > NAME_LIMIT,
        "its description is too long": len(skill.description) > DESCRIPTION_LIMIT,
        f"it has more than {_MAX_FILES} files": len(skill.files) > _MAX_FILES,
        "an address of it is too long": any(len(file.uri) > _MAX_URI_CHARS for file in skill.files),
        "its files do not have its SKILL.md": skill.digest_of(skill.uri) is None,
    }
    broken = [reason for reason, is_broken in limits.items() if is_broken]
    problems += [f"{label}: {reason}" for reason in broken[:1]]
    return None if broken else skill


async def with_text(client: Client, skill: Skill, problems: list[str]) -> Skill | None:
    """The skill with the text of its `SKILL.md`; None if that cannot be read or has another digest.

    Args:
        client: the connection.
        skill: the skill from the list.
        problems: gets a line if the skill is left out.
    """
    label = f"skill {skill.uri!r:.80} is left out"
    try:
        result = await client.read_resource(skill.uri, cache_mode="bypass")
    except (MCPError, ValidationError) as error:
        problems.append(f"{label}: its SKILL.md cannot be read: {error_in_one_line(error)}")
        return None
    part = result.contents[0] if result.contents else None
    if not isinstance(part, types.TextResourceContents) or len(part.text) > _MAX_TEXT_CHARS:
        problems.append(
            f"{label}: its SKILL.md is no text of at most {_MAX_TEXT_CHARS:,} characters"
        )
        return None
    if file_digest(part.text.encode("utf-8", "surrogatepass")) != skill.digest_of(skill.uri):
        problems.append(f"{label}: its SKILL.md does not have the digest in the list")
        return None
    return skill.model_copy(update={"text": part.text})


def file_digest(data: bytes) -> str:
    """The digest of a file as manifests have it."""
    return f"sha256:{sha256(data).hexdigest()}"


def skill_name(server: str, uri: str) -> str:
    """The name of a skill, or of a file of one, for models.

    Args:
        server: name of the server.
        uri: the server's address of `SKILL.md` or of another file.
    """
    return f"{SKILL_SCHEME}{quote(server, safe='', errors='surrogatepass')}/{uri}"


def skill_tool(server: str, skill: Skill) -> Tool:
    """The form in which a skill is searched, scanned and pinned.

    Its annotations have its text and the digest of each file, so that a changed file makes another
    definition, which waits for an approval.

    Args:
        server: name of the server.
        skill: the skill with its text.

    Raises:
        ToolError: a text of it is too long.
    """
    files = {file.uri: file.digest for file in skill.files}
    return Tool(
        skill.name,
        server,
        skill.description,
        id=skill_name(server, skill.uri),
        annotations={"readOnlyHint": True, "files": files, "text": skill.text},
    )
