"""The head of every request: the system prompt and the list of tools, before the conversation."""

from __future__ import annotations

from collections.abc import Mapping, Set
from functools import lru_cache

from pydantic import BaseModel, ConfigDict

from ..catalog import Catalog, Tool
from ..catalog.schema import canonical_json
from .counting import bundled_counter, definitions_take_at_most
from .definitions import Definition, define
from .levels import Level
from .own_tools import CALL_TOOL, SEARCH_TOOL
from .pool import write_pool
from .providers import Provider, Way
from .providers.provider import Function
from .summaries import Summaries

_MAX_CHANGED_SHARE = 0.25
"""A head is written again if more of it is wrong than this share of its tools."""
_MIN_CHANGED = 10
"""Number of tools that may be wrong in a head of any size."""
LOADED_HEADING = "Tools loaded:\n"
"""First line of a text with definitions."""


class Head(BaseModel):
    """What precedes the conversation in every request.

    Args:
        system: the system prompt: the operator's text, and the pool or the definitions.
        own_tools: the session's own tools in the provider's list.
        resident: the tools of the catalog that the list has from the start: all, or none.
        levels: id to what the head says of the tool.
        fingerprints: id to the fingerprint of that definition.
        tool_count: number of tools that it covers.
        shows_whole_catalog: whether it has all definitions.
        pool_tokens: tokens of the pool; 0 where it has all definitions.
        tokens: tokens of everything but the operator's text.
    """

    model_config = ConfigDict(frozen=True)

    system: str
    own_tools: tuple[Function, ...]
    resident: tuple[Function, ...]
    levels: Mapping[str, Level]
    fingerprints: Mapping[str, str]
    tool_count: int
    shows_whole_catalog: bool
    pool_tokens: int
    tokens: int

    def is_outdated(self, permitted_count: int, right_ids: Set[str]) -> bool:
        """Whether too much of it is wrong.

        Args:
            permitted_count: number of tools that the session may use now.
            right_ids: ids of those of which the model has read the present definition.
        """
        if self.levels:
            wrong = len(self.levels.keys() - right_ids) + permitted_count - len(right_ids)
        else:
            wrong = abs(permitted_count - self.tool_count)
        return wrong > max(_MIN_CHANGED, _MAX_CHANGED_SHARE * self.tool_count)


@lru_cache(64)
def write_head(
    provider: Provider,
    way: Way,
    catalog: Catalog,
    denied_ids: frozenset[str],
    summaries: Summaries,
    *,
    instructions: str,
    pool_tokens: int,
    whole_catalog_tokens: int,
) -> Head:
    """The head for the permitted tools of a catalog version. Cached, so that sessions share it.

    Args:
        provider: whose requests it belongs to.
        way: how found tools reach the model.
        catalog: the catalog version.
        denied_ids: ids that are left out.
        summaries: summaries of the tools.
        instructions: text that comes first in the system prompt.
        pool_tokens: maximum tokens of the pool.
        whole_catalog_tokens: the head has all definitions if they take at most so many tokens.
    """
    shows_all = definitions_take_at_most(catalog, whole_catalog_tokens, withheld=denied_ids)
    tools = sorted(
        (tool for tool in catalog if tool.id not in denied_ids), key=lambda tool: tool.id
    )
    own_tools = _own_tools(provider, way, shows_all)
    own_tokens = sum(map(_function_tokens, own_tools))
    if shows_all:
        in_list = provider if provider.has_list else None
        definitions = [define(in_list, tool, Level.FULL, "") for tool in tools]
        text = "" if provider.has_list else _loaded_text(definitions)
        resident = tuple(one.function for one in definitions if one.function is not None)
        levels = dict.fromkeys((tool.id for tool in tools), Level.FULL)
        used_tokens, tokens = 0, sum(one.tokens for one in definitions)
    else:
        # Without `call_tool`, a tool with a line cannot be called yet: the line says its purpose.
        level = Level.SUMMARY if way == "list" else Level.ARGUMENTS
        pool = write_pool(catalog, denied_ids, level, pool_tokens, summaries)
        text, resident = pool.text, ()
        levels = dict.fromkeys((tool.id for tool in tools), level) if pool.level else {}
        tokens = used_tokens = bundled_counter().count(pool.text)
    return Head(
        system="\n\n".join(filter(None, (instructions, text))),
        own_tools=own_tools,
        resident=resident,
        levels=levels,
        fingerprints={tool.id: tool.fingerprint for tool in tools if tool.id in levels},
        tool_count=len(tools),
        shows_whole_catalog=shows_all,
        pool_tokens=used_tokens,
        tokens=own_tokens + tokens,
    )


def _own_tools(provider: Provider, way: Way, shows_all: bool) -> tuple[Function, ...]:
    def function(tool: Tool) -> Function:
        return provider.function(tool.name, tool.description, tool.input_schema)

    if not provider.has_list or (way == "list" and shows_all):
        return ()
    if way == "list":
        return (function(SEARCH_TOOL),)
    if way == "search":
        return provider.search_entry(), function(CALL_TOOL)
    return function(CALL_TOOL), function(SEARCH_TOOL)


def _loaded_text(definitions: list[Definition]) -> str:
    lines = "".join(f"{definition.text}\n" for definition in definitions)
    return f"{LOADED_HEADING}{lines}" if lines else ""


def _function_tokens(function: Function) -> int:
    return bundled_counter().count(canonical_json(function))
