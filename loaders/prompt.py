"""The tools of a prompt, turn by turn: what a session drives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from ..catalog import Catalog, Tool
from ..errors import RequestError, UnknownToolError
from .counting import bundled_count, bundled_counter
from .detail import Detail
from .entry import EntryWriter
from .layout import Layout
from .names import provider_name
from .passing import costs_at_most
from .placement import ABOVE, Placer, Wanted, by_need
from .pool import PoolWriter
from .render import Rendered, Renderer, renderer_for
from .render.renderer import HEADING
from .saved import SavedPrompt, SavedTool
from .schemas import Loaded, Missing, SchemaLoader

SCHEMA_BUDGET = 4_000
"""Tokens of promoted tools at most, by default: ten typical definitions."""
CONTEXT_TOKENS = 200_000
"""Tokens of a model's context, by default."""
PASS_THROUGH_SHARE = 0.03
"""Share of the context below which a whole catalog is simply shown, by default."""

_RANKS = 10
"""Added to the rank of a tool without a score: the tenth counts half of what the first does."""


@dataclass(frozen=True, slots=True)
class PromptTurn:
    """What a prompt says about tools in one turn.

    Args:
        rendered: in the provider's shape.
        appended: messages that are new; after a rebuild all there are, in place of earlier ones.
        phase1_tokens: of the pool and of tools that are always there.
        phase2_tokens: of the tools promoted, as they stand in the prompt now.
        changed_bytes: of last turn's prompt that have to be read anew because something before
            them changed; what is appended changes nothing.
        details: id to level, for each tool promoted.
        missing: tools whose definition could not be had, with the reason.
        left_out: ids for which the budget has no room at any level that says more than the pool.
        rebuilt: whether the suffix was laid out anew.
    """

    rendered: Rendered
    appended: tuple[dict[str, Any], ...]
    phase1_tokens: int
    phase2_tokens: int
    changed_bytes: int
    details: Mapping[str, Detail]
    missing: tuple[Missing, ...]
    left_out: tuple[str, ...]
    rebuilt: bool


class Prompt:
    """The part of one session's prompt that is about tools. Not for several threads at once.

    The prefix depends on the catalog alone. Tools are promoted behind it, each once, at a level of
    detail that it keeps; the suffix is laid out anew when a tool leaves it, or when a tool that is
    new this turn would otherwise not be shown well enough to be called.

    A catalog that costs less than a share of the context is shown as it is, in the prefix; that is
    decided here, once, and then holds for the life of the prompt.

    Args:
        catalog: one version; `update` takes a newer one.
        format: a name of `FORMATS`, or a renderer.
        operator: text that comes first.
        pool: writes phase 1; by default one that all prompts of the process share.
        schemas: loads phase 2, from the catalog itself by default.
        entries: writes tools in this format; for a named format the process shares one.
        schema_budget: tokens of all promoted tools together.
        turn_budget: tokens that a turn may write on top of the first tool in full and the
            signatures of the others: what is written is not in a provider's cache yet, and costs
            some ten times what is read from there. None for no such bound.
        context_tokens: of the model.
        pass_through_share: of the context; 0 never passes a catalog through.
        resident: tools of the agent's own that are always there, such as a search tool.
        withheld: ids that are neither shown nor promoted, such as quarantined ones.

    Attributes:
        catalog: the version shown.
        passes_through: whether the whole catalog is in the prefix.
        standing: ids of the catalog's tools that can be called from the prefix alone: all where it
            passes through, else those whose arguments the pool says.

    Raises:
        RequestError: no such format, or a number out of range.
    """

    _layout: Layout
    _rendered: Rendered
    _asked: frozenset[str]
    _shown_as: dict[str, str]  # fingerprints

    def __init__(
        self,
        catalog: Catalog,
        *,
        format: str | Renderer = "text",  # noqa: A002 - the field's word
        operator: str = "",
        pool: PoolWriter | None = None,
        schemas: SchemaLoader | None = None,
        entries: EntryWriter | None = None,
        schema_budget: int = SCHEMA_BUDGET,
        turn_budget: int | None = None,
        context_tokens: int = CONTEXT_TOKENS,
        pass_through_share: float = PASS_THROUGH_SHARE,
        resident: Sequence[Tool] = (),
        withheld: Iterable[str] = (),
    ) -> None:
        if schema_budget < 0 or context_tokens < 1 or not 0 <= pass_through_share <= 1:
            raise RequestError(
                "schema_budget must not be negative, context_tokens must be positive, and "
                "pass_through_share must be from 0 to 1"
            )
        self._counter = bundled_counter()
        self._renderer = renderer_for(format) if isinstance(format, str) else format
        shared = _shared_entries(format) if isinstance(format, str) else None
        self._entries = entries or shared or EntryWriter(self._renderer, self._counter)
        self._pool = pool or _shared_pool()
        self._schemas = schemas or SchemaLoader()
        heading = self._counter.count(HEADING)
        self._placer = Placer(
            self._entries, self._pool.summaries, schema_budget, heading, turn_budget
        )
        self._operator = operator
        self._own = tuple(resident)
        self._missing: dict[str, Missing] = {}
        self._stale = False
        self._withheld = frozenset(withheld)
        self.catalog = catalog
        limit = int(context_tokens * pass_through_share)
        self.passes_through = costs_at_most(catalog, limit, withheld=self._withheld)
        self._settle(self._prefix(), frozenset())
        self._phase1_tokens = self._count_prefix()

    def update(self, catalog: Catalog, *, withheld: Iterable[str] = ()) -> None:
        """Go on with another version of the catalog, from the next turn.

        The prefix changes with it. If it changes, lacks or withholds a tool that is promoted, the
        suffix is laid out anew in the next turn.

        Args:
            catalog: the newer version.
            withheld: ids that are neither shown nor promoted now.
        """
        batches = self._layout.batches
        self.catalog, self._withheld = catalog, frozenset(withheld)
        self._stale = not all(
            name in catalog
            and name not in self._withheld
            and catalog.get(name).fingerprint == fingerprint
            for name, fingerprint in self._shown_as.items()
        )
        self._missing.clear()
        self._layout = replace(self._prefix(), batches=batches)
        self._phase1_tokens = self._count_prefix()

    def turn(self, active: Sequence[str], scores: Mapping[str, float] | None = None) -> PromptTurn:
        """The prompt of the next turn; blocks for at most the schema loader's timeout.

        Args:
            active: ids of all tools to be offered, those of earlier turns included; new ones in
                rank order. A tool that is no longer among them leaves the prompt.
            scores: id to how well it fits, for the tools found this turn, new or not: these have to
                be shown well enough to be called. By default the new ones, in their order.
        """
        tools = self._known(active)
        return self._turn(tools, self._schemas.load(self._to_load(tools)), active, scores or {})

    async def aturn(
        self, active: Sequence[str], scores: Mapping[str, float] | None = None
    ) -> PromptTurn:
        """The same without blocking the event loop.

        Args:
            active: see `turn`.
            scores: see `turn`.
        """
        tools = self._known(active)
        loaded = await self._schemas.aload(self._to_load(tools))
        return self._turn(tools, loaded, active, scores or {})

    def tool_id(self, name: str) -> str:
        """The id of the tool that the model calls by a name.

        Raises:
            UnknownToolError: no tool in the prompt has it.
        """
        length = self._renderer.name_length
        for entry in (*self._layout.resident, *self._layout.promoted):
            if name == (entry.tool_id if length is None else provider_name(entry.tool_id, length)):
                return entry.tool_id
        raise UnknownToolError(name)

    def to_dict(self) -> dict[str, Any]:
        """What `resume` goes on from, as JSON: which tools stand where, at which level."""
        batches = (
            tuple(SavedTool(name, self._shown_as[name], detail) for name, detail, *_ in batch)
            for batch in self._layout.batches
        )
        return SavedPrompt(self.passes_through, self._asked, tuple(batches)).to_dict()

    def resume(self, saved: Mapping[str, Any]) -> None:
        """Go on where another prompt of the same session was, byte for byte.

        If a tool has changed since, or its definition cannot be had, the suffix is laid out anew in
        the next turn. Blocks for at most the schema loader's timeout.

        Args:
            saved: as `to_dict` gave it.

        Raises:
            RequestError: it is nothing of the kind.
        """
        held = SavedPrompt.from_dict(saved)
        tools = self._known([name for name, *_ in held.tools])
        loaded = self._schemas.load(list(tools.values())).tools
        self.passes_through = held.passes_through
        layout = self._prefix()
        self._stale = not all(
            name in tools
            and tools[name].fingerprint == fingerprint
            and (name in loaded or detail < Detail.SIGNATURE)
            for name, fingerprint, detail in held.tools
        )
        for batch in () if self._stale else held.batches:
            layout = layout.promote(
                self._placer.write(loaded.get(name, tools[name]), detail)
                for name, _, detail in batch
            )
        self._settle(layout, held.asked)
        self._phase1_tokens = self._count_prefix()

    def cost(self, tool: Tool) -> int:
        """Tokens that a tool takes in this prompt when it is shown in full.

        Args:
            tool: its definition.
        """
        return self._entries.write(tool, Detail.FULL, "").tokens

    def _turn(
        self,
        tools: Mapping[str, Tool],
        loaded: Loaded,
        active: Sequence[str],
        scores: Mapping[str, float],
    ) -> PromptTurn:
        self._missing |= {missing.tool_id: missing for missing in loaded.missing}
        least = min(scores.values(), default=1.0)
        wanted = {
            name: Wanted(
                loaded.tools.get(name, tool),
                name in loaded.tools,
                name in scores or name not in self._asked,
                self._told.get(tool.server or "", Detail.NAME),
                scores.get(name, least),
            )
            for name, tool in tools.items()
        }
        for rank, one in enumerate(by_need(wanted.values()), 1):
            if one.tool.id not in scores:
                wanted[one.tool.id] = one._replace(score=_below(least, rank))
        placement = self._placer.place(self._layout, wanted, stale=self._stale)
        known = 0 if placement.rebuilt else len(self._rendered.messages)
        before, self._stale = self._rendered, False
        self._settle(placement.layout, frozenset(active))
        rendered = self._rendered
        details = {entry.tool_id: entry.detail for entry in self._layout.promoted}
        return PromptTurn(
            rendered=rendered,
            appended=tuple(message for batch in rendered.messages[known:] for message in batch),
            phase1_tokens=self._phase1_tokens,
            phase2_tokens=self._placer.tokens(self._layout),
            changed_bytes=_changed_bytes(before.segments, rendered.segments),
            details=details,
            missing=self._told_missing(tools, active),
            left_out=tuple(name for name in tools if name not in details),
            rebuilt=placement.rebuilt,
        )

    def _settle(self, layout: Layout, asked: frozenset[str]) -> None:
        """Take over a layout of the present catalog."""
        self._layout, self._asked = layout, asked
        self._rendered = self._renderer.render(layout)
        self._shown_as = {
            entry.tool_id: self.catalog.get(entry.tool_id).fingerprint for entry in layout.promoted
        }

    def _known(self, active: Sequence[str]) -> dict[str, Tool]:
        """The tools to promote, in order; in a catalog that passes through there are none."""
        if self.passes_through:
            return {}
        return {
            name: self.catalog.get(name)
            for name in active
            if name in self.catalog and name not in self._withheld
        }

    def _to_load(self, tools: Mapping[str, Tool]) -> list[Tool]:
        """What to ask the source for; not again for what it did not have, while that is wanted."""
        for name in [name for name in self._missing if name not in tools]:
            del self._missing[name]
        return [tool for name, tool in tools.items() if name not in self._missing]

    def _told_missing(
        self, tools: Mapping[str, Tool], active: Sequence[str]
    ) -> tuple[Missing, ...]:
        refused = (
            Missing(name, "is withheld" if name in self._withheld else "is not in the catalog")
            for name in dict.fromkeys(active)
            if name in self._withheld or name not in self.catalog
        )
        return (*(self._missing[name] for name in tools if name in self._missing), *refused)

    def _prefix(self) -> Layout:
        """The layout before anything is promoted."""
        shown = self.catalog if self.passes_through else ()
        tools = [tool for tool in shown if tool.id not in self._withheld]
        tools.sort(key=lambda tool: tool.id)
        resident = tuple(
            self._entries.write(tool, Detail.FULL, "") for tool in (*self._own, *tools)
        )
        self._told: dict[str, Detail] = {}
        self.standing = frozenset(tool.id for tool in tools)
        if self.passes_through:
            return Layout(self._operator, "", resident)
        pool = self._pool.write(self.catalog, withheld=self._withheld)
        self.standing = pool.standing
        self._told = {server: ABOVE[rung] for server, rung in pool.rungs.items()}
        return Layout(self._operator, pool.text, resident)

    def _count_prefix(self) -> int:
        prefix = self._renderer.render(replace(self._layout, batches=())).prefix
        return bundled_count(prefix) - bundled_count(self._operator)


def _below(least: float, rank: int) -> float:
    """A score for a tool that has none: less than the least, and the less the later it comes."""
    return least * _RANKS / (_RANKS + rank) if least > 0 else least - rank


@cache
def _shared_pool() -> PoolWriter:
    return PoolWriter()


@cache
def _shared_entries(format: str) -> EntryWriter:  # noqa: A002 - the field's word
    """One writer per format, so that a session does not count again what another has counted."""
    return EntryWriter(renderer_for(format), bundled_counter())


def _changed_bytes(before: Sequence[str], now: Sequence[str]) -> int:
    """Bytes of the earlier segments from the first one that is not there any more."""
    same = 0
    for one, other in zip(before, now, strict=False):
        if one != other:
            break
        same += 1
    return sum(len(segment.encode("utf-8", "replace")) for segment in before[same:])
