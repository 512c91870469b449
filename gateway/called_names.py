"""Names by which a client may call a tool: the gateway's own tools, and others than a tool's id."""

from __future__ import annotations

from ..catalog import Catalog
from ..loaders.names import provider_name
from ..view import View

#: Names of the gateway's own tools.
SEARCH, DETAILS, CALL = "search_tools", "get_tool_details", "call_tool"
SERVERS, READ, RUN = "list_servers", "read_result", "run_code"
#: Characters of the name of a tool that is shown directly: 60 with `mcp__shortlist__`, the prefix
#: that clients put before it.
DIRECT_NAME = 44


def direct_name(tool_id: str) -> str:
    """The name of a directly shown tool. It depends only on the id and is unique."""
    return provider_name(tool_id, DIRECT_NAME)


class CalledNames:
    """The names of one catalog version: `server__tool`, and those of tools shown directly.

    Args:
        catalog: the version.
    """

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._ids: dict[str, list[str]] = {}
        for tool in catalog:
            for name in {direct_name(tool.id), f"{tool.server}__{tool.name}"}:
                self._ids.setdefault(name, []).append(tool.id)

    def meant(self, name: str, view: View) -> str:
        """The id of the tool with a name. An unknown name is returned unchanged.

        Args:
            name: id, or one of the other names; an id wins over them.
            view: if several tools have this name, the one that the view permits is chosen.
        """
        if name in self.catalog:
            return name
        ids = self._ids.get(name, [])
        permitted = [tool_id for tool_id in ids if view.permits(tool_id)]
        chosen = permitted or sorted(ids)[:1]
        return chosen[0] if len(chosen) == 1 else name
