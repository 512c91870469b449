"""What a client sees in `tools/list`: the meta-tools, or tools shown directly."""

from __future__ import annotations

import mcp.types as types

from ..catalog import Tool
from ..loaders.definition_cost import costs_at_most
from ..loaders.names import provider_name
from . import answers
from .fleet import Fleet
from .meta_tools import least_permissive, meta_tools
from .sessions import ClientSession

#: Characters of the name of a tool that is shown directly; clients put a prefix before it.
_DIRECT_NAME = 60


def shown_tools(fleet: Fleet, client: ClientSession) -> list[types.Tool]:
    """What `tools/list` answers to a client, for its whole session.

    Args:
        fleet: the servers.
        client: gets the names of the tools shown directly in `direct`.
    """
    view, profile = client.session.view(), client.profile
    permitted = view.tools()
    denied = frozenset(tool.id for tool in view.catalog) - {tool.id for tool in permitted}
    limit = int(profile.context_tokens * profile.pass_through)
    settled = not fleet.starting
    if permitted and settled and costs_at_most(view.catalog, limit, withheld=denied):
        return [_direct(client, tool) for tool in permitted]
    shown = []
    if profile.pinned:
        pinned = fleet.engine.view(view.state, allowed=profile.pinned)
        shown = [tool for tool in permitted if pinned.permits(tool.id)]
    hints = least_permissive([tool.annotations or {} for tool in permitted])
    text = answers.digest(fleet, view, profile.operator)
    return [*meta_tools(text, hints), *(_direct(client, tool) for tool in shown)]


def _direct(client: ClientSession, tool: Tool) -> types.Tool:
    """A tool as the client sees it without a meta-tool."""
    name = provider_name(tool.id, _DIRECT_NAME)
    client.direct[name] = tool.id
    return types.Tool(
        name=name,
        title=tool.title,
        description=tool.description,
        input_schema={"type": "object"} | tool.input_schema,
        output_schema=tool.output_schema,
        annotations=types.ToolAnnotations.model_validate(tool.annotations or {}),
    )
