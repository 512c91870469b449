"""Definitions in a folder, one JSON file per tool."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from ...catalog import Tool
from ...catalog.text_file import read_text_file, replace_text_file
from ...errors import SchemaError, ToolError
from .source import in_thread

LARGEST_FILE = 1_048_576
"""Maximum bytes of a file; larger than any valid definition."""
_KEPT = re.compile(r"[^a-z0-9]+")
_LETTERS = 40


def file_name(tool_id: str) -> str:
    """The file name of a tool: a readable part and a hash. It is safe for any id.

    `github/create_issue` gives `github-create-issue.`, 32 hexadecimal digits, and `.json`. It also
    works on file systems that ignore letter case.

    Args:
        tool_id: any text.
    """
    readable = _KEPT.sub("-", tool_id.lower())[:_LETTERS].strip("-") or "tool"
    digest = sha256(tool_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{readable}.{digest}.json"


class FolderSource:
    """Reads definitions from a folder of JSON files.

    Args:
        folder: folder of files named by `file_name`. Links are not followed.
    """

    def __init__(self, folder: Path | str) -> None:
        self._folder = Path(folder)

    async def fetch(self, tool: Tool) -> Tool:
        """The definition of a tool, read in a thread.

        Raises:
            SchemaError: the file is missing, too large, has no tool, or has a tool with another id.
        """
        return await in_thread(lambda: self._read(tool.id))

    def store(self, tools: Iterable[Tool]) -> None:
        """Write the definitions of tools. The folder is created if needed.

        Raises:
            SchemaError: the folder cannot be written.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for tool in tools:
                path = self._folder / file_name(tool.id)
                replace_text_file(path, [json.dumps(tool.to_dict(), ensure_ascii=False)])
        except OSError as error:
            raise SchemaError(f"cannot write definitions to {self._folder}: {error}") from error

    def _read(self, tool_id: str) -> Tool:
        path = self._folder / file_name(tool_id)
        if path.is_symlink():
            raise SchemaError(f"cannot read the definition of {tool_id!r:.100}: {path} is a link")
        try:
            tool = Tool.from_dict(json.loads(read_text_file(path, LARGEST_FILE, error=SchemaError)))
        except (SchemaError, ValueError, TypeError, RecursionError, ToolError) as error:
            raise SchemaError(f"cannot read the definition of {tool_id!r:.100}: {error}") from error
        if tool.id != tool_id:
            raise SchemaError(f"{path} holds the definition of {tool.id!r:.100}")
        return tool
