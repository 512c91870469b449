"""Calls of the session's own tools: `call_tool`, which is unwrapped, and `search_tools`."""

from __future__ import annotations

from collections.abc import Mapping

from ..catalog import Catalog
from ..catalog.arguments import ArgumentProblem, argument_problems, read_arguments
from ..errors import RequestError
from ..gating.verdict import Verdict
from ..loaders.own_tools import CALL_TOOL, SEARCH_TOOL
from ..loaders.providers import Provider, Way
from ..retrieval.refusal import Refusal


def unwrapped_call(name: str, arguments: object) -> tuple[str, object]:
    """The name and the arguments of the tool that a call of `call_tool` is about."""
    if name == CALL_TOOL.name:
        values, _ = read_arguments(arguments)
        if isinstance(values, Mapping) and isinstance(values.get("name"), str):
            return values["name"], values.get("arguments")
    return name, arguments


def own_tool_verdict(name: str, arguments: object) -> Verdict | None:
    """The verdict on a call of one of the session's own tools; None for any other name.

    Args:
        name: a name that no tool of the catalog has.
        arguments: the arguments of the call.

    Returns:
        `call_tool` without the name of a tool is invalid. `search_tools` is refused, because it is
        no tool to run.
    """
    if name == CALL_TOOL.name:
        values, problem = read_arguments(arguments)
        problems = (
            argument_problems(CALL_TOOL.input_schema, values) if problem is None else (problem,)
        )
        if problems:
            return Verdict("invalid", name, problems=problems, uses_model_names=True)
    if name == SEARCH_TOOL.name:
        reason = "the tools for this turn are loaded already; call one of those you were shown"
        return Verdict("denied", name, refusal=Refusal(name, "not_allowed", reason))
    return None


def read_query(arguments: object) -> str | Verdict:
    """The query in the arguments of a search of the model, or what is wrong with them."""
    values, problem = read_arguments(arguments)
    problems = (
        argument_problems(SEARCH_TOOL.input_schema, values) if problem is None else (problem,)
    )
    query = values.get("query") if isinstance(values, Mapping) else None
    if not problems and isinstance(query, str) and query.strip():
        return query.strip()
    empty = ArgumentProblem("/query", "what has to be done, in plain words", "an empty text")
    return Verdict("invalid", SEARCH_TOOL.name, problems=problems or (empty,))


def check_names(provider: Provider, way: Way, catalog: Catalog) -> None:
    """Refuse a catalog in which a tool has the name of one of the session's own tools.

    Args:
        provider: the session's provider.
        way: how found tools reach the model.
        catalog: the tools of the session.

    Raises:
        RequestError: the model could not tell the two apart.
    """
    own_tools = (SEARCH_TOOL,) if way == "list" else (SEARCH_TOOL, CALL_TOOL)
    for tool in own_tools if provider.has_list else ():
        if tool.id in catalog:
            raise RequestError(
                f"catalog: a tool has the id {tool.id!r}, which names a tool of the session "
                f"itself for {provider.name!r}; give the tool a server or another name"
            )
