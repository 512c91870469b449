"""Prompt: renders the tools of a conversation, turn by turn."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple, Self

from ..catalog import Catalog, Tool
from ..errors import RequestError, UnknownToolError
from .counting import cached_token_count, definitions_take_at_most
from .detail import Detail
from .history import ToolHistory
from .placement import MIN_DETAIL_ABOVE_POOL, Placer, ToolToPlace, found_first_then_latest
from .pool import Lines, Pool, PoolLevel, PoolWriter
from .prompt_layout import Batch, Layout, ToolEntry
from .render import RenderedPrompt, Renderer, renderer_for
from .render.call_tool import CALL_TOOL
from .render.provider_tools import provider_name
from .render.renderer import SearchContent, deferred_entry, write_entry
from .schemas import LoadedDefinitions, MissingDefinition, SchemaLoader
from .working_set import (
    TurnChoice,
    WorkingSet,
    choose_tools,
    lines_found,
    lines_in_use,
    lists_found_tools,
    working_set_pool_writer,
)

SCHEMA_BUDGET = 4_000
"""Default maximum of tokens of promoted tools: about ten typical definitions."""
CONTEXT_TOKENS = 200_000
"""Default size of the model's context window in tokens."""
PASS_THROUGH_SHARE = 0.03
"""Default share of the context below which the whole catalog is shown."""

_RANK_OFFSET = 10
"""Added to the rank of a tool without a score, so that the tenth counts half as much as the
first."""


@dataclass(frozen=True, slots=True)
class PromptTurn:
    """The prompt of one turn: its text, messages and token counts.

    Args:
        rendered: system prompt and tools in the provider's format.
        appended: new messages; after a rebuild, all messages about tools, in place of the earlier
            ones.
        transient: messages for this turn only, right before the user's message.
        prefix_tokens: tokens of the pool and of tools that are always shown.
        promoted_tokens: tokens of the promoted tools in the present prompt.
        line_tokens: tokens of the lines of a working set.
        changed_bytes: bytes of the last prompt that the provider's cache lost because something
            before them changed. Appending changes nothing.
        details: id to level of detail, for each promoted tool.
        callable: ids of the tools whose arguments are shown in any form.
        missing: tools whose definition could not be loaded, with the reasons.
        left_out: ids of tools that did not fit in the token budgets.
        rebuilt: whether all promoted tools were written again.
        answer: content of the answer to a search of the model; None for other turns.
    """

    rendered: RenderedPrompt
    appended: tuple[dict[str, Any], ...]
    transient: tuple[dict[str, Any], ...]
    prefix_tokens: int
    promoted_tokens: int
    line_tokens: int
    changed_bytes: int
    details: Mapping[str, Detail]
    callable: frozenset[str]
    missing: tuple[MissingDefinition, ...]
    left_out: tuple[str, ...]
    rebuilt: bool
    answer: SearchContent | None = None

    def __repr__(self) -> str:
        tokens = self.prefix_tokens + self.promoted_tokens + self.line_tokens
        return f"PromptTurn({len(self.callable)} callable tools, {tokens:,} tokens)"


class ModelSearchResult(NamedTuple):
    """The result of a search that the model asked for.

    Attributes:
        tool_ids: ids of the tools, best first.
        text: what the answer says where no tool is found.
    """

    tool_ids: tuple[str, ...]
    text: str = ""


class SavedTool(NamedTuple):
    """A tool that was promoted.

    Attributes:
        tool_id: its id.
        fingerprint: fingerprint of the rendered definition.
        detail: its level.
    """

    tool_id: str
    fingerprint: str
    detail: Detail


@dataclass(frozen=True, slots=True)
class SavedLayout:
    """The promoted tools of a saved prompt.

    Args:
        shows_whole_catalog: whether the whole catalog is in the prefix.
        batches: the promoted tools in batches.
    """

    shows_whole_catalog: bool
    batches: tuple[tuple[SavedTool, ...], ...]

    @property
    def tools(self) -> Iterator[SavedTool]:
        """All tools promoted, in order."""
        return (tool for batch in self.batches for tool in batch)

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Self:
        """From the result of `Prompt.layout_to_dict`.

        Raises:
            RequestError: it is nothing of the kind.
        """
        try:
            return cls(
                bool(saved["passes_through"]),
                tuple(
                    tuple(
                        SavedTool(str(name), str(fingerprint), Detail[level])
                        for name, fingerprint, level in batch
                    )
                    for batch in saved["batches"]
                ),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise RequestError(f"not a saved prompt: {type(error).__name__}: {error}") from error


class Prompt:
    """Renders the tools of one conversation. Not thread-safe.

    The prefix depends only on the catalog. Promoted tools are appended after it, each once, at a
    fixed level of detail. All promoted tools are written again when one is removed, or when a new
    tool would otherwise not be callable.

    A catalog that takes less than a share of the context is shown as a whole, in the prefix. The
    constructor decides this once.

    Args:
        catalog: one version; `update` takes a newer one.
        format: a name in `FORMATS`, or a renderer.
        operator: text that comes first.
        pool: writes the pool; by default a shared writer. With a working set, that writer shows
            call signatures of all tools if they fit in the working set's tokens, otherwise the
            number of tools.
        schemas: loads full definitions; by default from the catalog.
        schema_budget: token budget of all promoted tools together.
        turn_budget: token budget of a turn, besides its first definition and the signatures of the
            others; None for no limit. New tokens are not in the provider's cache and cost some ten
            times as much as cached ones.
        context_tokens: size of the model's context window in tokens.
        pass_through_share: the whole catalog is shown if it takes less than this share of the
            context; 0 for never.
        withheld: ids that are neither shown nor promoted, such as quarantined ones.
        working_set: token budgets for call signatures of the servers in use, after the prefix, and
            of the tools found, in messages for that turn only. Without one, all tools found are
            promoted.
        history: record of what the model has seen, shared with the session; a new one by default.
        unreachable: ids of tools that are never permitted. In formats that defer tools, the list
            has all others.

    Attributes:
        catalog: the rendered version.
        shows_whole_catalog: whether the whole catalog is in the prefix.
        withheld: ids that are not promoted. Assign only ids that the prefix does not show.
        history: the argument `history`.
        prefix_ids: ids of the tools whose arguments the prefix shows.

    Raises:
        RequestError: there is no such format, or a number is out of range.
    """

    _layout: Layout
    _rendered: RenderedPrompt
    _layout_fingerprints: dict[str, str]
    """Id to fingerprint of the definition in the layout, for promoted tools."""
    pool: Pool | None
    """The pool; None if the whole catalog is in the prefix."""

    def __init__(
        self,
        catalog: Catalog,
        *,
        format: str | Renderer = "text",  # noqa: A002 - the field's word
        operator: str = "",
        pool: PoolWriter | None = None,
        schemas: SchemaLoader | None = None,
        schema_budget: int = SCHEMA_BUDGET,
        turn_budget: int | None = None,
        context_tokens: int = CONTEXT_TOKENS,
        pass_through_share: float = PASS_THROUGH_SHARE,
        withheld: Iterable[str] = (),
        working_set: WorkingSet | None = None,
        history: ToolHistory | None = None,
        unreachable: Collection[str] = frozenset(),
    ) -> None:
        if schema_budget < 0 or context_tokens < 1 or not 0 <= pass_through_share <= 1:
            raise RequestError(
                "schema_budget must not be negative, context_tokens must be positive, and "
                "pass_through_share must be from 0 to 1"
            )
        self._renderer = renderer_for(format) if isinstance(format, str) else format
        pool = pool or (
            working_set_pool_writer(working_set) if working_set else _shared_pool_writer()
        )
        self._working_set = working_set
        self._lines_in_use, self._found_lines = Lines(), Lines()
        self.history = ToolHistory() if history is None else history
        self._schemas = schemas or SchemaLoader()
        self._budgets = schema_budget, turn_budget
        self._use_pool(pool)
        self._operator = operator
        self._missing: dict[str, MissingDefinition] = {}
        # Whether a promoted definition is out of date, so that the next turn writes all again.
        self._stale = False
        self.withheld = frozenset(withheld)
        self._unreachable = unreachable
        self.catalog = catalog
        # In formats with a list of tools, tools whose arguments stand in a line are called through
        # one more tool, which is always there.
        lines = working_set is not None or self._pool_writer.top is PoolLevel.ARGUMENTS
        self._lists_call_tool = (
            lines and self._renderer.max_name_length is not None and CALL_TOOL.id not in catalog
        )
        limit = int(context_tokens * pass_through_share)
        self.shows_whole_catalog = definitions_take_at_most(catalog, limit, withheld=self.withheld)
        self._use_layout(self._prefix_layout())
        self._prefix_tokens = self._count_prefix_tokens()

    @property
    def callable_ids(self) -> frozenset[str]:
        """Ids of the tools that the model can call without a promotion first.

        All tools if the catalog passes through. Otherwise those whose arguments the pool or the
        working set showed in the last turn.
        """
        return self.prefix_ids | self._lines_in_use.ids | self._found_lines.ids

    @property
    def lists_found_tools(self) -> bool:
        """Whether tools found in a turn get lines, because the pool is too small for all tools."""
        return lists_found_tools(self._working_set, self.pool)

    @property
    def promoted(self) -> Mapping[str, Detail]:
        """Id to level of detail of the promoted tools, in order."""
        return {entry.tool_id: entry.detail for entry in self._layout.promoted}

    def called(self, tool_id: str) -> None:
        """Report a call. With a working set, the tool's server is in use from the next turn on.

        Raises:
            UnknownToolError: the catalog has no such tool.
        """
        server = self.catalog.get(tool_id).server
        if self._working_set is not None and server is not None:
            self.history.use_server(server)

    def update(
        self,
        catalog: Catalog,
        *,
        withheld: Iterable[str] = (),
        pool: PoolWriter | None = None,
        unreachable: Collection[str] = frozenset(),
    ) -> None:
        """Use another version of the catalog from the next turn on.

        The prefix changes with it. If a promoted tool is changed, missing or withheld, all promoted
        tools are written again in the next turn.

        Args:
            catalog: the newer version.
            withheld: ids that are neither shown nor promoted now.
            pool: writes the pool from now on; the same writer when absent.
            unreachable: ids of tools that are never permitted.
        """
        if pool is not None:
            self._use_pool(pool)
        batches = self._layout.batches
        self.catalog, self.withheld = catalog, frozenset(withheld)
        self._unreachable = unreachable
        self._stale = not all(
            name in catalog
            and name not in self.withheld
            and catalog.get(name).fingerprint == fingerprint
            for name, fingerprint in self._layout_fingerprints.items()
        )
        self._missing.clear()
        self._layout = replace(self._prefix_layout(), batches=batches)
        self._prefix_tokens = self._count_prefix_tokens()

    def rewrite_deferred(self, unreachable: Collection[str]) -> None:
        """Write the deferred tools of the list again. The rest of the prompt stays.

        Args:
            unreachable: ids of tools that are never permitted.
        """
        self._unreachable = unreachable
        deferred = self._deferred(self._layout.prefix_tools)
        self._use_layout(replace(self._layout, deferred=deferred))

    def turn(
        self,
        active: Sequence[str],
        scores: Mapping[str, float] | None = None,
        model_search: ModelSearchResult | None = None,
    ) -> PromptTurn:
        """The prompt of the next turn. Waits at most the schema loader's timeout.

        Args:
            active: ids of all tools to offer, those of earlier turns included; new ones in rank
                order. A tool that is missing here is removed from the prompt.
            scores: id to score, for the tools found in this turn, new or not. These must be
                callable. By default the new ids, in their order. With a working set, they need not
                all be active; the best active ones are promoted.
            model_search: result of a search of the model, which the turn's `answer` answers.
        """
        model_search_ids = (
            frozenset[str]() if model_search is None else frozenset(model_search.tool_ids)
        )
        choice = choose_tools(
            self._working_set,
            self.history,
            self._permitted_ids(active),
            scores or {},
            model_search_ids,
        )
        earlier_ids = frozenset(self.promoted)
        answer = None
        # Ids of tools whose definition an answer to a search has.
        ids_in_answers = frozenset(self.history.answered_ids)
        if model_search is not None and self._renderer.answers_have_definitions:
            answer = self._answer_with_definitions(model_search)
            ids_in_answers |= model_search_ids
        choice = choice._replace(
            definition_ids=[
                name
                for name in choice.definition_ids
                if name not in ids_in_answers or name in earlier_ids
            ],
            scores={
                name: score for name, score in choice.scores.items() if name not in ids_in_answers
            },
            new_ids=choice.new_ids - ids_in_answers,
        )
        tools = self._tools_after_prefix(choice.definition_ids)
        prompt_turn = self._render_turn(
            tools, self._schemas.load(self._definitions_to_load(tools)), active, choice
        )
        if model_search is not None and answer is None:
            answer = self._answer_with_names(model_search, earlier_ids)
        return replace(prompt_turn, answer=answer)

    def tool_id(self, name: str) -> str:
        """The id of the tool that the model calls by a name.

        Raises:
            UnknownToolError: no tool in the prompt has it.
        """
        length = self._renderer.max_name_length
        shown = [entry.tool_id for entry in (*self._layout.prefix_tools, *self._layout.promoted)]
        for tool_id in (*shown, *self.history.answered_ids):
            if name == self._name_for_model(tool_id):
                return tool_id
        if length is None and name in self.callable_ids:
            return name
        raise UnknownToolError(name)

    def to_dict(self) -> dict[str, Any]:
        """A JSON form from which `resume` continues."""
        history = self.history.to_dict(without=self.prefix_ids)
        return {"layout": self.layout_to_dict(), "history": history}

    def layout_to_dict(self) -> dict[str, Any]:
        """A JSON form of the written prompt alone, for `resume_layout`."""
        return {
            "passes_through": self.shows_whole_catalog,
            "batches": [
                [[name, self._layout_fingerprints[name], detail.name] for name, detail, *_ in batch]
                for batch in self._layout.batches
            ],
        }

    def resume(self, saved: Mapping[str, Any]) -> None:
        """Continue from the saved prompt of the same session, with the same bytes.

        If a tool has changed, or its definition cannot be loaded, all promoted tools are written
        again in the next turn. Waits at most the schema loader's timeout.

        Args:
            saved: result of `to_dict`.

        Raises:
            RequestError: it is not such a result.
        """
        if not isinstance(saved, Mapping) or not saved.keys() >= {"layout", "history"}:
            raise RequestError("not a saved prompt: it has no `layout` and `history`")
        self.history = ToolHistory.from_dict(saved["history"])
        self.resume_layout(saved["layout"])

    def resume_layout(
        self, saved: Mapping[str, Any], *, withheld: Iterable[str] | None = None
    ) -> None:
        """Continue from a saved layout, with the present `history`. Otherwise like `resume`.

        The prefix is written without the ids in the attribute `withheld`.

        Args:
            saved: result of `layout_to_dict`.
            withheld: ids that are not promoted from now on; as in the prefix when absent.

        Raises:
            RequestError: it is not such a result.
        """
        saved_layout = SavedLayout.from_dict(saved)
        self.shows_whole_catalog = saved_layout.shows_whole_catalog
        layout = self._prefix_layout()
        if withheld is not None:
            self.withheld = frozenset(withheld)
        tools = self._tools_after_prefix([name for name, *_ in saved_layout.tools])
        loaded = self._schemas.load(list(tools.values())).tools
        self._stale = not all(
            name in tools
            and tools[name].fingerprint == fingerprint
            and (name in loaded or detail < Detail.SIGNATURE)
            for name, fingerprint, detail in saved_layout.tools
        )
        for batch in () if self._stale else saved_layout.batches:
            layout = layout.promote(
                self._placer.write(loaded.get(name, tools[name]), detail)
                for name, _, detail in batch
            )
        self._lines_in_use = lines_in_use(self._working_set, self.history.servers_in_use, self.pool)
        self._use_layout(replace(layout, servers_in_use_text=self._lines_in_use.text))
        self._prefix_tokens = self._count_prefix_tokens()

    def _answer_with_definitions(self, model_search: ModelSearchResult) -> SearchContent:
        """The answer to a search of the model, with the definitions that it has not seen.

        They stay in the conversation as long as the call does, so no later turn repeats them.
        """
        names, omitted = list[str](), list[str]()
        entries: list[ToolEntry] = []
        tools = self._tools_after_prefix(model_search.tool_ids)
        loaded = self._schemas.load(list(tools.values())).tools
        room = self._budgets[0]
        for tool_id in self._permitted_ids(model_search.tool_ids):
            promoted = self.promoted.get(tool_id, Detail.NAME)
            is_known = self.history.record_of(tool_id).answered or promoted >= Detail.SIGNATURE
            if is_known or tool_id not in tools:
                names.append(self._name_for_model(tool_id))
                continue
            entry = self._entry_within(loaded.get(tool_id), None if not entries else room)
            if entry is None:
                omitted.append(tool_id)
                continue
            room -= entry.tokens
            entries.append(entry)
        self.history.note_answered(entry.tool_id for entry in entries)
        texts = [
            f"You already have: {', '.join(names)}" if names else "",
            f"Also found; search for its id to load one: {', '.join(omitted)}" if omitted else "",
            "" if model_search.tool_ids else model_search.text,
        ]
        return self._renderer.search_content(tuple(entries), "\n".join(filter(None, texts)))

    def _entry_within(self, tool: Tool | None, room: int | None) -> ToolEntry | None:
        """A definition in at most so many tokens; None if it does not fit or was not loaded."""
        if tool is None:
            return None
        for detail in (Detail.FULL, Detail.SIGNATURE):
            entry = self._placer.write(tool, detail)
            if room is None or entry.tokens <= room:
                return entry
        return None

    def _answer_with_names(
        self, model_search: ModelSearchResult, earlier_ids: Collection[str]
    ) -> str:
        """The answer to a search of the model whose definitions are in the list of tools."""
        new_names, names = [], []
        for tool_id in model_search.tool_ids:
            if tool_id in earlier_ids or (self.shows_whole_catalog and tool_id in self.prefix_ids):
                names.append(self._name_for_model(tool_id))
            elif self.promoted.get(tool_id, Detail.NAME) >= Detail.SIGNATURE:
                new_names.append(self._name_for_model(tool_id))
        texts = [
            f"Added to your list of tools: {', '.join(new_names)}" if new_names else "",
            f"You already have: {', '.join(names)}" if names else "",
            "" if new_names or names else model_search.text,
        ]
        return "\n".join(filter(None, texts))

    def _name_for_model(self, tool_id: str) -> str:
        """The name by which the model calls a tool."""
        length = self._renderer.max_name_length
        return tool_id if length is None else provider_name(tool_id, length)

    def _render_turn(
        self,
        tools: Mapping[str, Tool],
        loaded: LoadedDefinitions,
        active: Sequence[str],
        choice: TurnChoice,
    ) -> PromptTurn:
        self._missing |= {definition.tool_id: definition for definition in loaded.missing}
        offered_tools = self._offered_tools(tools, loaded, choice.scores)
        placement = self._placer.place(self._layout, offered_tools, stale=self._stale)
        sent_count = 0 if placement.rebuilt else len(self._rendered.messages)
        before, self._stale = self._rendered, False
        self._lines_in_use = lines_in_use(self._working_set, self.history.servers_in_use, self.pool)
        self._use_layout(replace(placement.layout, servers_in_use_text=self._lines_in_use.text))
        details = {entry.tool_id: entry.detail for entry in self._layout.promoted}
        defined = {name for name, detail in details.items() if detail >= Detail.SIGNATURE}
        visible_tools = self._tools_after_prefix((*active, *choice.line_ids))
        answered = frozenset(self._permitted_ids(self.history.answered_ids))
        ids_shown = self.prefix_ids | self._lines_in_use.ids | defined | answered
        unlisted = [
            visible_tools[name]
            for name in choice.line_ids
            if name in visible_tools and name not in ids_shown
        ]
        self._found_lines = lines_found(self._working_set, unlisted, self._lines_in_use)
        self.history.note_offered(self._permitted_ids(active), choice.new_ids)
        found_text, active_ids = self._found_lines.text, frozenset(active)
        shown_ids = self._lines_in_use.ids | self._found_lines.ids | details.keys() | answered
        rendered = self._rendered
        return PromptTurn(
            rendered=rendered,
            appended=tuple(
                message for batch in rendered.messages[sent_count:] for message in batch
            ),
            transient=(self._renderer.message(found_text),) if found_text else (),
            prefix_tokens=self._prefix_tokens,
            promoted_tokens=self._placer.tokens(self._layout),
            line_tokens=self._lines_in_use.tokens + self._found_lines.tokens,
            changed_bytes=rendered.changed_bytes_since(before),
            details=details,
            callable=self.callable_ids | defined | answered,
            missing=self._all_missing(tools, active),
            left_out=tuple(
                name for name in visible_tools if name in active_ids and name not in shown_ids
            ),
            rebuilt=placement.rebuilt,
        )

    def _offered_tools(
        self, tools: Mapping[str, Tool], loaded: LoadedDefinitions, scores: Mapping[str, float]
    ) -> dict[str, ToolToPlace]:
        """The tools to place, by id, in order. Those without a score come after the others."""
        lowest_score = min(scores.values(), default=1.0)
        offered_tools = {
            name: ToolToPlace(
                loaded.tools.get(name, tool),
                name in loaded.tools,
                name in scores or not self.history.record_of(name).offered,
                self._least_detail.get(tool.server or "", Detail.NAME),
                scores.get(name, lowest_score),
            )
            for name, tool in tools.items()
        }
        for rank, offered_tool in enumerate(found_first_then_latest(offered_tools.values()), 1):
            tool_id = offered_tool.tool.id
            if tool_id not in scores:
                score = _score_below(lowest_score, rank)
                offered_tools[tool_id] = offered_tool._replace(score=score)
        return offered_tools

    def _use_pool(self, pool: PoolWriter) -> None:
        self._pool_writer = pool
        self._placer = Placer(self._renderer, pool.summaries, *self._budgets)

    def _use_layout(self, layout: Layout) -> None:
        """Use a layout of the present catalog."""
        self._layout = layout
        self._rendered = self._renderer.render(layout)
        self._layout_fingerprints = {
            entry.tool_id: self.catalog.get(entry.tool_id).fingerprint for entry in layout.promoted
        }

    def _permitted_ids(self, ids: Iterable[str]) -> list[str]:
        """The ids that may be shown, in order."""
        return [name for name in ids if name in self.catalog and name not in self.withheld]

    def _tools_after_prefix(self, ids: Iterable[str]) -> dict[str, Tool]:
        """The tools that may be shown after the prefix, by id, in order."""
        prefix = self.prefix_ids if self.shows_whole_catalog else frozenset[str]()
        return {
            name: self.catalog.get(name) for name in self._permitted_ids(ids) if name not in prefix
        }

    def _definitions_to_load(self, tools: Mapping[str, Tool]) -> list[Tool]:
        """The definitions to load.

        Missing ones are not requested again while the tool is wanted.
        """
        for name in [name for name in self._missing if name not in tools]:
            del self._missing[name]
        return [tool for name, tool in tools.items() if name not in self._missing]

    def _all_missing(
        self, tools: Mapping[str, Tool], active: Sequence[str]
    ) -> tuple[MissingDefinition, ...]:
        refused = (
            MissingDefinition(
                name, "is withheld" if name in self.withheld else "is not in the catalog"
            )
            for name in dict.fromkeys(active)
            if name in self.withheld or name not in self.catalog
        )
        return (*(self._missing[name] for name in tools if name in self._missing), *refused)

    def _prefix_layout(self) -> Layout:
        """The layout before anything is promoted."""
        catalog_tools = self.catalog if self.shows_whole_catalog else ()
        tools = [tool for tool in catalog_tools if tool.id not in self.withheld]
        tools.sort(key=lambda tool: tool.id)
        call_tool = (CALL_TOOL,) if self._lists_call_tool and not self.shows_whole_catalog else ()
        prefix_tools = tuple(
            write_entry(self._renderer, tool, Detail.FULL, "") for tool in (*call_tool, *tools)
        )
        self._least_detail: dict[str, Detail] = {}
        self.prefix_ids = frozenset(tool.id for tool in tools)
        self.pool = None
        deferred = self._deferred(prefix_tools)
        if self.shows_whole_catalog:
            return Layout(self._operator, "", prefix_tools, deferred=deferred)
        pool = self.pool = self._pool_writer.write(self.catalog, withheld=self.withheld)
        self.prefix_ids = pool.callable_ids
        self._least_detail = {
            server: MIN_DETAIL_ABOVE_POOL[level] for server, level in pool.levels.items()
        }
        return Layout(self._operator, pool.text, prefix_tools, deferred=deferred)

    def _deferred(self, prefix_tools: Batch) -> Batch:
        """The tools that the list has beside the prefix ones, for models to find."""
        prefix_ids = {entry.tool_id for entry in prefix_tools}
        tools = self.catalog if self._renderer.defers_tools else ()
        return tuple(
            deferred_entry(self._renderer, tool)
            for tool in sorted(tools, key=lambda tool: tool.id)
            if tool.id not in self._unreachable and tool.id not in prefix_ids
        )

    def _count_prefix_tokens(self) -> int:
        prefix = self._renderer.render(replace(self._layout, batches=())).prefix
        return cached_token_count(prefix) - cached_token_count(self._operator)


def _score_below(lowest_score: float, rank: int) -> float:
    """Scores for tools without one: below the lowest score, decreasing in order."""
    return (
        lowest_score * _RANK_OFFSET / (_RANK_OFFSET + rank)
        if lowest_score > 0
        else lowest_score - rank
    )


@cache
def _shared_pool_writer() -> PoolWriter:
    return PoolWriter()
