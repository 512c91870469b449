"""View: the tools that one caller may use, to search them and to check calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from .catalog import Catalog, Tool
from .decision.decider import judge_answer, threshold_decision
from .decision.measurements import HITS_MEASURED
from .errors import RequestError, UnknownToolError
from .gating import Refusal, State
from .gating.admission import Admission
from .gating.verdict import Verdict
from .processes import ProcessGuard
from .retrieval import Selection, Strategy
from .retrieval.search.explanation import Explanation
from .retrieval.search.searcher import Searcher
from .retrieval.selection import NEAREST_HITS

if TYPE_CHECKING:
    from .decision import Decider
    from .gating.condition import Mask


class View:
    """The tools that one caller may use now. `Engine.view` or `Session.view` makes one.

    A view decides once, from the caller's state, the ids it is limited to, the servers' votes and
    the quarantine. Search, explanations, details and call checks all follow that decision. A view
    belongs to the catalog version it was made for and may be used by several threads. In a fork of
    the process that made it, its methods raise `ProcessError`.

    Args:
        admission: the permission decision.
        searcher: runs searches over the catalog version.
        decider: decides whether to abstain, for `search(..., abstain=True)`; None if that is off.

    Example:
        >>> from shortlist import Engine, Tool
        >>> tools = [Tool("list_invoices", "billing"), Tool("send_mail", "mail")]
        >>> view = Engine.from_tools(tools, tiers=["lexical"]).view(allowed=["billing/*"])
        >>> view.search("list the invoices").ids
        ('billing/list_invoices',)
        >>> view.permits("mail/send_mail")
        False
    """

    def __init__(
        self, admission: Admission, searcher: Searcher, decider: Decider | None = None
    ) -> None:
        self.admission = admission
        self.decider = decider
        self._searcher = searcher
        self._guard = ProcessGuard("view")

    def __repr__(self) -> str:
        return f"View({self.admission.permitted_count} of {len(self.catalog)} tools permitted)"

    @property
    def catalog(self) -> Catalog:
        """The catalog version, with denied tools."""
        return self.admission.index.catalog

    @property
    def state(self) -> State:
        """The state of the caller."""
        return self.admission.state

    @property
    def unmatched(self) -> tuple[str, ...]:
        """Entries of `allowed` that match no tool of the catalog."""
        return self.admission.unmatched

    @cached_property
    def _permitted(self) -> tuple[Tool, ...]:
        if self.admission.mask is None:
            return tuple(self.catalog)
        row_of_id, is_permitted = self.admission.index.rows, self.admission.mask.tolist()
        return tuple(tool for tool in self.catalog if is_permitted[row_of_id[tool.id]])

    @cached_property
    def _permitted_by_server(self) -> Mapping[str, tuple[Tool, ...]]:
        by_server: dict[str, list[Tool]] = {}
        for tool in self._permitted:
            by_server.setdefault(tool.server or "", []).append(tool)
        return {server: tuple(tools) for server, tools in by_server.items()}

    def tools(self, server: str | None = None) -> tuple[Tool, ...]:
        """The permitted tools, in the catalog's order.

        Args:
            server: name of the server whose tools are wanted; all tools when absent.

        Example:
            >>> from shortlist import Engine, Tool
            >>> tools = [Tool("list_invoices", "billing"), Tool("send_mail", "mail")]
            >>> view = Engine.from_tools(tools, tiers=["lexical"]).view(allowed=["billing/*"])
            >>> [tool.id for tool in view.tools()]
            ['billing/list_invoices']
        """
        self._guard.check()
        if server is not None:
            return self._permitted_by_server.get(server, ())
        return self._permitted

    def permits(self, tool_id: str) -> bool:
        """Whether a tool may be used; False for an unknown id.

        Example:
            >>> from shortlist import Engine, Tool
            >>> tools = [Tool("list_invoices", "billing"), Tool("send_mail", "mail")]
            >>> view = Engine.from_tools(tools, tiers=["lexical"]).view(allowed=["billing/*"])
            >>> view.permits("billing/list_invoices"), view.permits("mail/send_mail")
            (True, False)
        """
        self._guard.check()
        return self.admission.admits(tool_id)

    def refusal(self, tool_id: str) -> Refusal | None:
        """Why a tool is denied; None if it is permitted.

        Raises:
            UnknownToolError: no such tool; names the nearest permitted ones.

        Example:
            >>> from shortlist import Engine, Tool
            >>> tools = [Tool("list_invoices", "billing"), Tool("send_mail", "mail")]
            >>> view = Engine.from_tools(tools, tiers=["lexical"]).view(allowed=["billing/*"])
            >>> view.refusal("mail/send_mail").kind
            'not_allowed'
        """
        self._guard.check()
        return self.admission.refusal(tool_id)

    def limited_to(self, tools: Iterable[str] | Mask | None) -> View:
        """The same permissions over a part of the catalog. The other tools are hidden.

        A hidden tool is unknown, like a tool that is not in the catalog, and not denied.

        Args:
            tools: ids of the tools; unknown ids are ignored. Or the rows of the catalog version,
                shape (n,), true where they stay: `admission.index.rows` has the row of each id.
                None for all tools.

        Raises:
            RequestError: `tools` is neither.

        Example:
            >>> from shortlist import Engine, Tool
            >>> catalog = [Tool("get_invoice", "billing"), Tool("send_mail", "mail")]
            >>> view = Engine.from_tools(catalog, tiers=["lexical"]).view()
            >>> mail = view.limited_to(["mail/send_mail"])
            >>> [tool.id for tool in mail.tools()], mail.check("billing/get_invoice").status
            (['mail/send_mail'], 'unknown')
        """
        self._guard.check()
        # A removed tool keeps its row until the next version is built.
        shape = (len(self.admission.index.tools),)
        if isinstance(tools, np.ndarray):
            if tools.dtype != np.bool_ or tools.shape != shape:
                raise RequestError(f"tools: an array of booleans, shape {shape}, not {tools!r:.80}")
            rows: Mask | None = tools
        elif tools is None:
            rows = None
        elif isinstance(tools, str) or not isinstance(tools, Iterable):
            raise RequestError(f"tools: a list of ids, not {type(tools).__name__}")
        else:
            rows = self.admission.rows_of(tools)
        return View(self.admission.limited_to(rows), self._searcher, self.decider)

    def exists(self, tool_id: str) -> bool:
        """Whether a tool is in the catalog, permitted or not. False for tools that are hidden.

        Example:
            >>> from shortlist import Engine, Tool
            >>> tools = [Tool("list_invoices", "billing"), Tool("send_mail", "mail")]
            >>> view = Engine.from_tools(tools, tiers=["lexical"]).view(allowed=["billing/*"])
            >>> view.exists("mail/send_mail"), view.exists("mail/read_mail")
            (True, False)
        """
        self._guard.check()
        return self.admission.exists(tool_id)

    def search(
        self,
        query: str,
        *,
        tier: str | Strategy | None = None,
        k: int | None = None,
        budget_ms: float | None = None,
        abstain: bool = False,
    ) -> Selection:
        """The permitted tools that fit a query, best first.

        Args:
            query: what to search for, in any words; only the first 8,000 characters are read.
            tier: name of a tier, `auto` for the best that fits `budget_ms`, or a strategy of your
                own; the configured default when absent.
            k: number of hits at most; the configured number when absent.
            budget_ms: time limit of the answer in milliseconds, also for the first search of a
                process. If time is short, the reranker scores fewer candidates, a cheaper tier
                runs, or an unfinished stage is left out. `tier_reason` explains it.
            abstain: whether to abstain if no tool fits. The answer then has no hits, and
                `abstained`, `reason` and `nearest` are set. If False, the hits are only ranked.

        Raises:
            RequestError: the query is empty, an argument is of the wrong type or out of range, or
                there is no such tier.

        Example:
            >>> from shortlist import Engine, Tool
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
            >>> [hit.id for hit in engine.view().search("list invoices", k=3)]
            ['billing/list_invoices']
        """
        return self._search(
            perf_counter(), query, tier=tier, k=k, budget_ms=budget_ms, abstain=abstain
        )

    def _search(
        self,
        start: float,
        query: str,
        *,
        tier: str | Strategy | None = None,
        k: int | None = None,
        budget_ms: float | None = None,
        abstain: bool = False,
    ) -> Selection:
        self._guard.check()
        count = self._searcher.hit_count(k)
        if abstain and self.decider is not None:
            count = max(count, HITS_MEASURED)
        selection = self._searcher.search(
            self.admission, query, tier=tier, k=count, budget_ms=budget_ms, start=start
        )
        if not abstain:
            return _thresholded(selection)
        return replace(self.judged(selection, k), total_ms=(perf_counter() - start) * 1e3)

    def judged(self, selection: Selection, k: int | None = None) -> Selection:
        """The answer of an earlier search with `abstain`: no hits if no tool fits.

        Args:
            selection: result of a search of this view, with at least 20 hits if possible.
            k: as for `search`.

        Raises:
            RequestError: as for `search`.

        Example:
            >>> from shortlist import Engine, Tool
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
            >>> view = engine.view()
            >>> view.judged(view.search("a joke about elephants", k=20)).reason
            'the search found no tool'
        """
        limit = self._searcher.hit_count(k)
        decision = judge_answer(self.decider, selection, self.admission.permitted_count)
        return replace(
            selection,
            hits=() if decision.abstained else selection.hits[:limit],
            nearest=selection.hits_and_dropped[:NEAREST_HITS] if decision.abstained else (),
            dropped=selection.dropped[: max(0, limit - len(selection.hits))],
            abstained=decision.abstained,
            reason=decision.reason,
            fits=decision.fits,
        )

    def search_among(
        self,
        tools: Iterable[str] | Mask | None,
        selection: Selection,
        *,
        tier: str | Strategy | None = None,
        k: int | None = None,
    ) -> Selection:
        """The query of an earlier search among fewer tools. It is not encoded again.

        Args:
            tools: as for `limited_to`.
            selection: result of a search over the same catalog version, or of a sibling engine.
            tier: as for `search`; the tier of the earlier search by default, or the tier it asked
                for if that ran without its reranker or in part. Needed if that one ran a strategy
                that is no tier of the engine.
            k: as for `search`.

        Raises:
            RequestError: as for `search` and `limited_to`.

        Example:
            >>> from shortlist import Engine, Tool
            >>> catalog = [Tool("list_invoices", "billing"), Tool("list_mail", "mail")]
            >>> view = Engine.from_tools(catalog, tiers=["lexical"]).view()
            >>> selection = view.search("list the invoices", k=1)
            >>> view.search_among(["mail/list_mail"], selection).ids
            ('mail/list_mail',)
        """
        if not isinstance(selection, Selection):
            raise RequestError(f"selection: the result of a search, not {type(selection).__name__}")
        answer = self._searcher.search(
            self.limited_to(tools).admission,
            selection.query,
            tier=self._searcher.tier_to_repeat(selection) if tier is None else tier,
            k=k,
            vector=selection.vector,
        )
        return _thresholded(answer)

    def search_many(
        self,
        queries: Sequence[str],
        *,
        tier: str | Strategy | None = None,
        k: int | None = None,
        budget_ms: float | None = None,
    ) -> list[Selection]:
        """One selection per query. The queries are encoded together, which is faster.

        Args:
            queries: the texts to search for.
            tier: as for `search`.
            k: as for `search`.
            budget_ms: time limit of each answer, as for `search`. Each query is encoded alone then.

        Raises:
            RequestError: as for `search`.

        Example:
            >>> from shortlist import Engine, Tool
            >>> tools = [Tool("list_invoices", "billing"), Tool("send_mail", "mail")]
            >>> view = Engine.from_tools(tools, tiers=["lexical"]).view(allowed=["billing/*"])
            >>> [selection.ids for selection in view.search_many(["list invoices", "send a mail"])]
            [('billing/list_invoices',), ()]
        """
        self._guard.check()
        selections = self._searcher.search_many(
            self.admission, queries, tier=tier, k=k, budget_ms=budget_ms
        )
        return [_thresholded(selection) for selection in selections]

    async def asearch(
        self,
        query: str,
        *,
        tier: str | Strategy | None = None,
        k: int | None = None,
        budget_ms: float | None = None,
        abstain: bool = False,
    ) -> Selection:
        """`search` in a worker thread, for event loops; takes the same options.

        Example:
            >>> import asyncio
            >>> from shortlist import Engine, Tool
            >>> tools = [Tool("list_invoices", "billing"), Tool("send_mail", "mail")]
            >>> view = Engine.from_tools(tools, tiers=["lexical"]).view(allowed=["billing/*"])
            >>> asyncio.run(view.asearch("list the invoices")).ids
            ('billing/list_invoices',)
        """
        import asyncio  # 30 ms of a start

        # The budget counts from here, not from when a thread is free.
        search = partial(self._search, tier=tier, k=k, budget_ms=budget_ms, abstain=abstain)
        return await asyncio.to_thread(search, perf_counter(), query)

    def explain(
        self,
        query: str,
        name: str,
        *,
        tier: str | Strategy | None = None,
        k: int | None = None,
    ) -> Explanation:
        """The rank of one tool in each stage of a search, and why it is found or not.

        Args:
            query: what to search for.
            name: id of the tool, or a name that one permitted tool has.
            tier: as for `search`.
            k: as for `search`.

        Raises:
            UnknownToolError: no such tool; names the nearest permitted ones.
            RequestError: as for `search`.

        Example:
            >>> from shortlist import Engine, Tool
            >>> view = Engine.from_tools([Tool("get_invoice", "billing")], tiers=["lexical"]).view()
            >>> view.explain("an unpaid invoice", "get_invoice").reason
            'offered: 1 of 1'
        """
        self._guard.check()
        row = self.admission.find(name)
        if row is None:
            raise self.admission.unknown(name)
        tool = self.admission.index.tools[row]
        explanation = self._searcher.explain(self.admission, query, tool.id, tier=tier, k=k)
        if explanation.refusal is None or name == tool.id:
            return explanation
        # Who asks by a name alone is not told whose denied tool it is.
        return replace(explanation, tool=name, refusal=replace(explanation.refusal, tool_id=name))

    def details(self, names: Iterable[str]) -> list[Tool | Refusal | UnknownToolError]:
        """For each id or name: the tool, why it is denied, or an error with the nearest ids.

        Args:
            names: ids, or names that one permitted tool has.

        Raises:
            RequestError: `names` is a single text.

        Example:
            >>> from shortlist import Engine, Tool
            >>> view = Engine.from_tools([Tool("get_invoice", "billing")], tiers=["lexical"]).view()
            >>> tool, unknown = view.details(["get_invoice", "get_invoise"])
            >>> tool.id, unknown.nearest
            ('billing/get_invoice', ('billing/get_invoice',))
        """
        self._guard.check()
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise RequestError(f"names: a list of ids, not {type(names).__name__}")
        return [self.admission.resolve(name) for name in names]

    def check(self, name: str, arguments: object = None, *, approved: bool = False) -> Verdict:
        """Whether a call is permitted and its arguments fit. Nothing is recorded.

        A `null` that the schema does not allow means absent, and a text such as `"2"` is a number
        where only a number fits: the verdict's arguments are corrected so.

        Args:
            name: id of a tool, or a name that one permitted tool has.
            arguments: the arguments as the provider gives them: an object, its JSON text, or None
                or an empty text if there are none.
            approved: whether a person has approved this call.

        Returns:
            A verdict with status `passed`, `invalid`, `unapproved`, `denied` or `unknown`.

        Example:
            >>> from shortlist import Engine, Tool
            >>> view = Engine.from_tools([Tool("get_invoice", "billing")], tiers=["lexical"]).view()
            >>> view.check("billing/get_invoice", {}).status
            'passed'
        """
        from .catalog.arguments import ArgumentCheck, read_arguments

        self._guard.check()
        resolved = self.admission.resolve(name)
        if isinstance(resolved, Refusal):
            return Verdict("denied", name, refusal=resolved)
        if isinstance(resolved, UnknownToolError):
            return Verdict(
                "unknown",
                resolved.tool_id,
                nearest=resolved.nearest,
                ambiguous=self.admission.is_ambiguous(name),
            )
        values, problem = read_arguments(arguments)
        schema = resolved.input_schema or {}
        if problem is None:
            values, problems = ArgumentCheck(schema).read(values)
        else:
            problems = (problem,)
        if not problems and resolved.operation is not None and isinstance(values, Mapping):
            problems = resolved.operation.problems(values)
        verdict = Verdict(
            "invalid" if problems else "passed",
            name,
            resolved,
            problems=problems,
            arguments=values if isinstance(values, Mapping) else {},
        )
        return self._judge_arguments(verdict, approved) if verdict.passed else verdict

    def _judge_arguments(self, verdict: Verdict, approved: bool) -> Verdict:
        """The verdict on a call that passed, after the rules that read arguments."""
        tool = verdict.tool
        if tool is None:
            return verdict
        refusal = self.admission.call_refusal(tool.id, verdict.arguments, approved=approved)
        if refusal is None:
            return replace(verdict, approved=True) if approved else verdict
        # A caller that knows only the name must not learn the server from the refusal.
        refusal = replace(refusal, tool_id=verdict.called_name)
        if refusal.kind == "argument":
            return Verdict("denied", verdict.called_name, refusal=refusal)
        return replace(verdict, status="unapproved", refusal=refusal)

    def recheck(self, verdict: Verdict) -> Verdict:
        """Whether a call that passed `check` may still be made, after a wait.

        Args:
            verdict: a verdict with a tool, also of another view.

        Returns:
            The verdict itself if the tool is still permitted, has the same definition, and no rule
            about its arguments stops the call. Otherwise a verdict with status `denied`,
            `unapproved` or `unknown`; or `promoted`, with the new definition.

        Raises:
            RequestError: it is no verdict, or has no tool.

        Example:
            >>> from shortlist import Engine, Tool
            >>> engine = Engine.from_tools([Tool("get_invoice", "billing")], tiers=["lexical"])
            >>> verdict = engine.view().check("billing/get_invoice")
            >>> engine.replace([Tool("get_invoice", "billing", "Get and pay an invoice.")])
            >>> engine.view().recheck(verdict).status
            'promoted'
        """
        if not isinstance(verdict, Verdict):
            raise RequestError(f"verdict: the result of `check`, not {type(verdict).__name__}")
        tool = verdict.tool
        if tool is None:
            raise RequestError(f"verdict: {verdict.status}; only a call that passed has a tool")
        if self.admission.resolve(tool.id) == tool:
            present_verdict = self._judge_arguments(verdict, verdict.approved)
            return verdict if present_verdict.status == verdict.status else present_verdict
        present_verdict = self.check(tool.id, verdict.arguments, approved=verdict.approved)
        if present_verdict.tool is None:
            return present_verdict
        return replace(present_verdict, status="promoted", refusal=None)


def _thresholded(selection: Selection) -> Selection:
    """The answer of a search that only ranks: it abstains where no hit passes the threshold."""
    decision = threshold_decision(selection)
    if decision is None:
        return selection
    return replace(selection, abstained=True, reason=decision.reason)
