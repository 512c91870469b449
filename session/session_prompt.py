"""Renders the tools of one session for the model, and follows changes of permissions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from ..catalog import Catalog, Tool
from ..catalog.arguments import ArgumentProblem, argument_problems, read_arguments
from ..config import SessionConfig
from ..errors import RequestError, UnknownToolError
from ..gating.verdict import Verdict
from ..loaders.detail import Detail
from ..loaders.history import SeenLevel, ToolHistory
from ..loaders.pool import PoolLevel, PoolWriter
from ..loaders.prompt import ModelSearchResult, Prompt, PromptTurn
from ..loaders.render import SEARCH_TOOL, renderer_for
from ..loaders.render.call_tool import CALL_TOOL
from ..loaders.schemas import SchemaLoader
from ..loaders.summaries import Summaries, shared_summaries
from ..loaders.working_set import WorkingSet, working_set_pool_writer
from ..retrieval.refusal import Refusal

if TYPE_CHECKING:
    from ..gating.condition import Mask
    from ..loaders.schemas import DefinitionSource
    from ..retrieval.id_lookup import Names
    from ..view import View

_LEVEL_NAMES = {
    PoolLevel.NAMES: "name",
    PoolLevel.SUMMARIES: "summary",
    PoolLevel.ARGUMENTS: "arguments",
}
LINE_CANDIDATES = 250
"""Tools found in a turn that may get a line where the pool has no room for all: as many as 3,000
tokens of lines hold, and some more."""


class SessionPrompt:
    """The prompt of one session.

    The prefix is written once, from the tools permitted at that time. It is written again only if
    the catalog changes or a tool in it becomes denied. Tools permitted later are appended.

    Args:
        view: the view of the first step.
        format: name of a provider's format.
        settings: settings of the session.
        promoted: number of tools that a turn offers with their definitions.
        history: what the model has seen.
        schemas: where definitions come from, in place of the catalog.
        saved: result of `to_dict`, to continue from, with the ids `denied` when it was made.

    Attributes:
        shown: the prompt as it was rendered last; None before the first turn.
    """

    def __init__(
        self,
        view: View,
        format: str,  # noqa: A002 - the field's word
        settings: SessionConfig,
        promoted: int,
        history: ToolHistory,
        schemas: DefinitionSource | None = None,
        saved: Mapping[str, Any] | None = None,
    ) -> None:
        self._settings = settings
        self._working_set = (
            WorkingSet(settings.pool_tokens, settings.in_use_tokens, promoted)
            if settings.pool == "auto"
            else None
        )
        saved_ids = [] if saved is None else [*saved["late"], *saved["denied"]]
        #: Ids denied now, and when the prefix was written.
        self._denied = denied_ids(view)
        self._denied_in_prefix = self._denied | frozenset(map(str, saved_ids))
        self._permitted_rows = _PermittedRows.of(view)
        check_format(format, view.catalog)
        self._format = format
        self._renderer, self._unreachable = renderer_for(format), view.admission.unreachable
        self._prompt = Prompt(
            view.catalog,
            format=format,
            operator=settings.operator,
            pool=self._pool_writer(view),
            schemas=SchemaLoader(schemas),
            schema_budget=settings.schema_tokens,
            turn_budget=settings.turn_tokens,
            context_tokens=settings.context_tokens,
            pass_through_share=settings.pass_through,
            withheld=self._denied_in_prefix,
            working_set=self._working_set,
            history=history,
            unreachable=view.admission.unreachable,
        )
        self._scores: dict[str, float] = {}
        self._unsent_turn: PromptTurn | None = None
        self.shown: PromptTurn | None = None
        if saved is not None:
            # What was unlocked after the prefix was written stays where it was appended.
            self._prompt.resume_layout(saved["layout"], withheld=self._denied)

    @property
    def shows_whole_catalog(self) -> bool:
        """Whether the prefix has the whole catalog."""
        return self._prompt.shows_whole_catalog

    @property
    def max_hits_as_lines(self) -> int:
        """Hits of a turn that the prompt may list as lines, at most."""
        return LINE_CANDIDATES if self._prompt.lists_found_tools else 0

    def _pool_writer(self, view: View) -> PoolWriter:
        """The pool writer, with the summaries of a view's catalog version."""
        lines = shared_summaries(view.admission.index.summaries, self._settings.summaries)
        if self._working_set is not None:
            return working_set_pool_writer(self._working_set, lines)
        return _shared_pool_writer(self._settings.pool, self._settings.pool_tokens, lines)

    def level(self, tool_id: str) -> str | None:
        """The level of detail at which the prompt shows a tool.

        Returns:
            `full`, `signature`, `arguments` (a line with its arguments), `summary`, `name`, or
            None where it shows nothing.
        """
        prompt = self._prompt
        promoted = prompt.promoted.get(tool_id)
        if promoted is not None and promoted >= Detail.SIGNATURE:
            return promoted.name.lower()
        if tool_id in prompt.callable_ids:
            return "full" if prompt.pool is None and tool_id in prompt.prefix_ids else "arguments"
        if promoted is not None:
            return promoted.name.lower()
        pool = prompt.pool
        if pool is None or tool_id not in prompt.catalog:
            return None
        if tool_id in self._denied_in_prefix:
            return None
        server = prompt.catalog.get(tool_id).server or ""
        return _LEVEL_NAMES.get(pool.levels.get(server, PoolLevel.SEARCH))

    def tool_id(self, name: str, arguments: object) -> tuple[str, object]:
        """The tool id and the arguments of a call, from the name that the model used."""
        if name == CALL_TOOL.name and CALL_TOOL.id not in self._prompt.catalog:
            values, _ = read_arguments(arguments)
            if isinstance(values, Mapping) and isinstance(values.get("tool"), str):
                return values["tool"], values.get("arguments")
        return self._find_tool_id(name), arguments

    def own_tool_verdict(self, name: str, arguments: object) -> Verdict | None:
        """The verdict on a call of a tool that the prompt lists beside those of the catalog.

        Args:
            name: a name that no tool of the catalog has.
            arguments: the arguments of the call.

        Returns:
            `call_tool` without the name of a tool is invalid. `search_tools` is refused, because
            it is no tool to run. None for any other name.
        """
        if name == CALL_TOOL.name:
            values, problem = read_arguments(arguments)
            problems = (
                argument_problems(CALL_TOOL.input_schema, values) if problem is None else (problem,)
            )
            return (
                Verdict("invalid", name, problems=problems, uses_model_names=True)
                if problems
                else None
            )
        if name == SEARCH_TOOL.name:
            reason = "the tools for this turn are loaded already; call one of those you were shown"
            return Verdict("denied", name, refusal=Refusal(name, "not_allowed", reason))
        return None

    def read_search(self, name: str, arguments: object) -> str | Verdict | None:
        """The query of a call of the search; what is wrong with it; None for other calls."""
        if name != SEARCH_TOOL.name or not self.searches:
            return None
        return read_query(arguments)

    def _find_tool_id(self, name: str) -> str:
        """The id of the tool with this provider's name, or the name itself."""
        if name in self._prompt.catalog:
            return name
        try:
            return self._prompt.tool_id(name)
        except UnknownToolError:
            tool_id = name.replace("__", "/", 1)
            return tool_id if tool_id in self._prompt.catalog else name

    def follow(self, view: View) -> bool:
        """Follow a view. Returns whether the prefix had to be written again."""
        if (
            view.catalog is self._prompt.catalog
            and self._permitted_rows.matches(view)
            and not (
                self._renderer.defers_tools and view.admission.unreachable != self._unreachable
            )
        ):
            return False
        self._permitted_rows, self._denied = _PermittedRows.of(view), denied_ids(view)
        unreachable = view.admission.unreachable
        # A list of deferred tools has all that may ever be permitted.
        lists_others = self._renderer.defers_tools and unreachable != self._unreachable
        self._unreachable = unreachable
        if view.catalog is not self._prompt.catalog or self._denied - self._denied_in_prefix:
            check_format(self._format, view.catalog)
            self._prompt.update(
                view.catalog,
                withheld=self._denied,
                pool=self._pool_writer(view),
                unreachable=unreachable,
            )
            self._denied_in_prefix = self._denied
            return True
        self._prompt.withheld = self._denied
        if lists_others:
            self._prompt.rewrite_deferred(unreachable)
        return lists_others

    @property
    def searches(self) -> bool:
        """Whether the model has a search that it may call."""
        return self._renderer.search_kind is not None

    def turn(
        self,
        active: tuple[str, ...],
        scores: Mapping[str, float],
        model_search: ModelSearchResult | None = None,
    ) -> PromptTurn:
        """Render a turn.

        Args:
            active: ids of the tools to offer, in the order they came.
            scores: id to score, for the tools found in this turn.
            model_search: result of a search of the model, whose tools are shown beside those of the
                turn.
        """
        if model_search is not None:
            best_score = max(self._scores.values(), default=0.0) + 1.0
            scores = self._scores | {
                tool_id: best_score + 1.0 / rank
                for rank, tool_id in enumerate(model_search.tool_ids, 1)
            }
        self._scores = dict(scores)
        prompt_turn = self._prompt.turn(active, scores, model_search)
        unsent_turn, self._unsent_turn = self._unsent_turn, None
        if unsent_turn is not None and not prompt_turn.rebuilt:
            # Messages of a rendering between the steps, which nobody was handed yet.
            appended = (*unsent_turn.appended, *prompt_turn.appended)
            prompt_turn = replace(prompt_turn, appended=appended, rebuilt=unsent_turn.rebuilt)
        self.shown = prompt_turn
        catalog, history = self._prompt.catalog, self._prompt.history
        full = {name for name, detail in prompt_turn.details.items() if detail >= Detail.SIGNATURE}
        full |= self._prompt.prefix_ids if self.shows_whole_catalog else set()
        for tool_id in sorted(prompt_turn.callable):
            history.note_shown(
                catalog.get(tool_id), SeenLevel.FULL if tool_id in full else SeenLevel.LINE
            )
        return prompt_turn

    def render(self, active: tuple[str, ...]) -> PromptTurn:
        """Render between two steps. The next step returns the messages."""
        self._unsent_turn = self.turn(active, self._scores)
        return self._unsent_turn

    def promote(self, tool: Tool, active: tuple[str, ...]) -> PromptTurn:
        """Render the turn again with a tool that the model asked for by name."""
        best_score = max(self._scores.values(), default=0.0) + 1.0
        return self.turn(active, {**self._scores, tool.id: best_score})

    def called(self, tool_id: str) -> None:
        """Mark a tool's server as in use, from the next turn on."""
        if tool_id in self._prompt.catalog:
            self._prompt.called(tool_id)

    def to_dict(self, view: View) -> dict[str, Any]:
        """JSON form, for `saved`."""
        late: list[str] = []
        if view.catalog is self._prompt.catalog:
            late = sorted(self._denied_in_prefix - denied_ids(view))
        return {"layout": self._prompt.layout_to_dict(), "late": late}

    @property
    def prefix_ids(self) -> frozenset[str]:
        """Ids of the tools whose arguments the prefix shows."""
        return self._prompt.prefix_ids


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


def check_format(name: str, catalog: Catalog) -> None:
    """Refuse a format that does not exist, or whose own tools have the name of a tool.

    Args:
        name: name of a provider's format.
        catalog: the tools of the session.

    Raises:
        RequestError: there is no such format; or the model could not tell the session's search from
            a tool of the catalog.
    """
    if not isinstance(name, str):
        raise RequestError(f"format: the name of a format, not {type(name).__name__}")
    own_ids = () if renderer_for(name).search_kind is None else (SEARCH_TOOL.id, CALL_TOOL.id)
    for tool_id in own_ids:
        if tool_id in catalog:
            raise RequestError(
                f"catalog: a tool has the id {tool_id!r}, which names a tool of the session itself "
                f"in the format {name!r}; give the tool a server or another name"
            )


def denied_ids(view: View) -> frozenset[str]:
    """Ids of the tools denied."""
    index, mask = view.admission.index, view.admission.mask
    if mask is None:
        return frozenset()
    return frozenset(index.tools[row].id for row in index.rows_in_id_order(~mask).tolist())


class _PermittedRows(NamedTuple):
    """The rows that a view permits, to see whether another one permits the same.

    A view is not kept: it has a whole version of the index.

    Attributes:
        names: the names of the catalog version, which stand for it.
        mask: permitted rows, shape (n,); None for all.
    """

    names: Names
    mask: Mask | None

    @classmethod
    def of(cls, view: View) -> Self:
        return cls(view.admission.index.names, view.admission.mask)

    def matches(self, view: View) -> bool:
        mask = view.admission.mask
        if self.names is not view.admission.index.names:
            return False
        if self.mask is None or mask is None:
            return self.mask is mask
        return np.array_equal(self.mask, mask)


@lru_cache(16)
def _shared_pool_writer(lines: str, tokens: int, summaries: Summaries) -> PoolWriter:
    """A pool writer shared by all sessions with these settings."""
    top = PoolLevel.ARGUMENTS if lines == "signatures" else PoolLevel.SUMMARIES
    if lines not in ("signatures", "summaries"):
        raise RequestError(f"session.pool: no {lines!r}; one of auto, signatures, summaries")
    return PoolWriter(budget=tokens, top=top, summaries=summaries)
