"""A real MCP server for tests that serves the skills of a folder (SEP-2640).

Usage: `skills_server.py FOLDER`. Each folder in it with a `SKILL.md` is a skill. The file
`manifests.json` there, if any, has skill to fields that replace those of its entry in the list.
"""

from __future__ import annotations

import json
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import mcp.types as types
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.resources import FunctionResource

FOLDER = Path(sys.argv[1])


class SkillsPage(types.PaginatedResult):
    skills: list[dict[str, Any]]


def uri_of(path: Path) -> str:
    return f"skill://{path.relative_to(FOLDER).as_posix()}"


def entry(folder: Path) -> dict[str, Any]:
    lines = (folder / "SKILL.md").read_text().split("---")[1].strip().splitlines()
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    replaced = FOLDER / "manifests.json"
    return {
        "uri": uri_of(folder / "SKILL.md"),
        "frontmatter": dict(line.split(": ", 1) for line in lines),
        "resources": [
            {
                "uri": uri_of(path),
                "digest": f"sha256:{sha256(path.read_bytes()).hexdigest()}",
                "size": path.stat().st_size,
            }
            for path in files
        ],
    } | (json.loads(replaced.read_text()) if replaced.exists() else {}).get(folder.name, {})


class Skills(Extension):
    """Serves `skills/list`, one skill a page."""

    identifier = "io.modelcontextprotocol/skills"

    def methods(self):
        return [MethodBinding("skills/list", types.PaginatedRequestParams, self.list)]

    async def list(self, context, params):
        folders = sorted(path.parent for path in FOLDER.glob("*/SKILL.md"))
        start = int(params.cursor or 0)
        more = str(start + 1) if start + 1 < len(folders) else None
        rows = [entry(path) for path in folders[start : start + 1]]
        return SkillsPage(skills=rows, next_cursor=more)


def main() -> None:
    server = MCPServer("skills", extensions=[Skills()])

    @server.tool()
    def convert_currency(amount: float) -> float:
        """Converts an amount of money"""
        return amount

    for path in sorted(FOLDER.rglob("*.md")):
        server.add_resource(FunctionResource(uri=uri_of(path), name=path.name, fn=path.read_text))
    server.run()


if __name__ == "__main__":
    main()
