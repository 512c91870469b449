"""Session: one conversation. Finds and renders its tools, checks calls, and records results."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import replace
from time import perf_counter
from types import EllipsisType
from typing import Any, Literal, Protocol

from ..catalog import Catalog, Tool
from ..catalog.readers.skill_folder import tools_of_skill
from ..codemode.grants import Approve, is_destructive
from ..config import Config, SessionConfig
from ..errors import RequestError, ShortlistError, StepLimitError
from ..gating import Refusal, State, Votes
from ..gating.reason import approval_refusal
from ..gating.verdict import Verdict
from ..loaders.levels import Level
from ..loaders.own_tools import SEARCH_TOOL
from ..loaders.providers import provider_and_way, read_reply
from ..loaders.providers.reply import CallAnswer, Messages, ModelCall
from ..loaders.record import Changes, ReadRecord
from ..loaders.summaries import no_tool_text, shared_summaries
from ..processes import GuardedLock
from ..retrieval.query import bounded_query
from ..settings import AUTO_TIER
from ..view import View
from .conversation import CONTEXT_CHARS, Conversation, Message, as_text
from .own_calls import check_names, own_tool_verdict, read_query, unwrapped_call
from .pending import CallProgress, Pending, checked_decisions
from .recorder import recorder_for
from .reply_handler import CalledTool, ReplyHandler, ToolRunner
from .session_data import SessionData, checked_allowed
from .turn import Turn
from .turn_offer import search_and_offer

#: Replies with calls to one message of the user that are handled by default.
DEFAULT_STEPS = 30
#: Tools offered with their definitions per turn where all others have lines.
_DEFINITIONS_BESIDE_LINES = 3
#: Further tools found in a turn that may get a line: as many as 3,000 tokens of lines hold.
LINE_CANDIDATES = 250
#: Tools that a search of the model finds at most, without the setting `k`.
SEARCH_HITS = 5
#: Weight of the search that reads a tool's answer, beside the one for the request alone.
_RESULT_WEIGHT = 0.5


class Views(Protocol):
    """The part of an engine that sessions use: it makes their views. `Engine` implements it."""

    @property
    def config(self) -> Config:
        """Its settings."""
        ...

    @property
    def catalog(self) -> Catalog:
        """The present catalog."""
        ...

    @property
    def tiers(self) -> tuple[str, ...]:
        """Names of the tiers that a search may use."""
        ...

    def view(
        self, state: State, *, allowed: Iterable[str] | None = None, votes: Votes | None = None
    ) -> View:
        """What may be used in a state."""
        ...

    def after_call(self, state: State, tool_id: str) -> State:
        """The state after a successful call."""
        ...


class Session:
    """One conversation. `Engine.session` makes one; `Engine.resume` continues a saved one.

    `turn` finds the tools for a user's message, `request` makes the next request to the model, and
    `handle` does what its reply asks for: it checks the calls, runs them, and answers. In place of
    `handle`, `check` checks one call and `result` records its result. Each step uses the present
    catalog, quarantine, `state` and `allowed`. Several threads may use one session; its steps then
    run one after the other.

    Args:
        engine: engine that makes the views.
        settings: how tools are found and shown.
        data: state of the session; empty by default.

    Attributes:
        id: names the session in events.
        provider: name of the provider for which tools are rendered; None renders nothing.
        way: how found tools reach the model; None without a provider.

    Raises:
        RequestError: there is no such tier, provider or way.
        UnknownToolError: a tool of the setting `pinned` is not in the catalog.

    Example:
        >>> from shortlist import Engine, Tool
        >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
        >>> session = engine.session()
        >>> session.turn("list the invoices").ids
        ('billing/list_invoices',)
        >>> verdict = session.check("billing/list_invoices", {})
        >>> session.result(verdict, "INV-7").ids
        ('billing/list_invoices',)
    """

    def __init__(
        self,
        engine: Views,
        settings: SessionConfig,
        data: SessionData | None = None,
    ) -> None:
        if isinstance(settings.tier, str) and settings.tier not in (AUTO_TIER, *engine.tiers):
            tiers = ", ".join(engine.tiers)
            raise RequestError(f"session.tier: no tier {settings.tier!r}; use one of: {tiers}")
        data = SessionData() if data is None else data
        if not isinstance(data.id, str):
            raise RequestError(f"session_id: a text, not {type(data.id).__name__}")
        provider, way = None, None
        if data.provider is not None:
            provider, way = provider_and_way(data.provider, data.way)
            check_names(provider, way, engine.catalog)
        elif data.way is not None:
            raise RequestError("tools: names a way of a provider; give the provider as well")
        self.id = data.id
        self._settings = settings
        self.provider, self.way = data.provider, way
        self._engine = engine
        self._provider = provider
        calls_by_line = provider is not None and way != "list"
        self._k = settings.k or (_DEFINITIONS_BESIDE_LINES if calls_by_line else engine.config.k)
        self._events = recorder_for(settings.events)
        self._lock = GuardedLock("session", reentrant=True)
        self._data = data
        self.state = data.state
        self._record = ReadRecord(provider, way, settings)
        self._unreported_changes = Changes()
        self._votes: Votes | None = None
        self._is_finishing = False
        if unknown := [tool_id for tool_id in settings.pinned if tool_id not in engine.catalog]:
            # The view names no id that the session may not use.
            raise self.view().admission.unknown(unknown[0])
        if data.read is not None:
            self._record.load(data.read, self.view().admission)

    def __repr__(self) -> str:
        active = len(self._record.offered)
        return (
            f"Session({self.id!r}, {self.provider!r}, turn {self._data.turn}, "
            f"{active} active tools)"
        )

    @property
    def state(self) -> State:
        """The state of the agent, with its successful calls. Assigning replaces it."""
        return self._data.state

    @state.setter
    def state(self, state: State) -> None:
        if not isinstance(state, State):
            raise RequestError(f"state: a State, not {type(state).__name__}")
        with self._lock:
            self._data.state = state

    @property
    def allowed(self) -> tuple[str, ...] | None:
        """Ids or globs the session is limited to; None for all tools. Assigning replaces them."""
        return self._data.allowed

    @allowed.setter
    def allowed(self, allowed: Iterable[str] | None) -> None:
        self._data.allowed = checked_allowed(allowed)

    @property
    def votes(self) -> Votes | None:
        """Votes of the servers about their own tools. Assigning replaces them."""
        return self._votes

    @votes.setter
    def votes(self, votes: Votes | None) -> None:
        if not isinstance(votes, Votes | None):
            raise RequestError(f"votes: Votes, not {type(votes).__name__}")
        self._votes = votes

    @property
    def active(self) -> tuple[str, ...]:
        """Ids of the tools offered so far that are still available, in the order they came."""
        return self._present_record().offered

    @property
    def system(self) -> str | None:
        """The system prompt as it is now; None without a provider."""
        head = self._present_record().head
        return None if head is None else head.system

    @property
    def tools(self) -> list[Mapping[str, Any]]:
        """The provider's list of tools as it is now, tools that the provider runs first."""
        record = self._present_record()
        return (
            [] if record.head is None else [*self._engine.catalog.provider_tools, *record.functions]
        )

    def level(self, tool_id: str) -> str | None:
        """How much the model has read of a tool that is available.

        Returns:
            `full`, `signature`, `arguments` (a line with its arguments), `summary`, `name`; None if
            it has read nothing, was told that the tool is gone, or, with `tools="list"`, the list
            has it no more.

        Example:
            >>> from shortlist import Engine, Tool
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
            >>> session = engine.session("openai")
            >>> turn = session.turn("list the invoices")
            >>> session.level("billing/list_invoices")
            'full'
        """
        with self._lock:
            level = self._record.level_of(tool_id) if isinstance(tool_id, str) else None
        return None if level is None else level.label

    def view(self) -> View:
        """The present permissions of the session, for models that search by themselves.

        Example:
            >>> from shortlist import Engine, Tool
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
            >>> session = engine.session(allowed=["mail/*"])
            >>> session.view().permits("billing/list_invoices")
            False
        """
        return self._engine.view(self._data.state, allowed=self._data.allowed, votes=self.votes)

    def turn(self, messages: str | Iterable[Mapping[str, Any] | Message]) -> Turn:
        """The tools for a user's message.

        Args:
            messages: the user's message, which is added to the conversation; or the whole
                conversation, as objects with `role` and `content`, which replaces it.

        Raises:
            RequestError: it is neither a text nor a list of messages, or the user's message is
                empty.

        Example:
            >>> from shortlist import Engine, Tool
            >>> tools = [Tool("get_forecast", "weather"), Tool("play_song", "music")]
            >>> session = Engine.from_tools(tools, tiers=["lexical"]).session(k=1)
            >>> session.turn("what is the forecast?").ids
            ('weather/get_forecast',)
        """
        with self._lock:
            self._require_no_pending()
            if isinstance(messages, str):
                conversation = self._data.conversation.extended([Message("user", messages.strip())])
                if not messages.strip():
                    raise RequestError("messages: the user's message is empty")
            else:
                conversation = Conversation.of(messages)
                if not conversation.request.strip():
                    raise RequestError("messages: the last user message is missing or empty")
            self._data.conversation = conversation
            self._data.replies = 0
            turn = self._run_turn(conversation.in_context)
            if not isinstance(messages, str):
                return turn
            return replace(turn, messages=({"role": "user", "content": messages}, *turn.append))

    def search(self, query: str, call_id: str | None = None) -> Turn:
        """Answer a search that the model asked for. The tools found are offered from now on.

        `handle` does this when the model calls the search. Nothing is searched for but the query,
        and only tools are found that are permitted now.

        Args:
            query: the task in the model's words.
            call_id: id of the model's call. With it, `append` begins with the answer to the call.

        Returns:
            A turn. `shown.answer` has the content of the answer as the provider takes it. It says
            so if nothing fits.

        Raises:
            RequestError: the query is empty or no text, or `call_id` is no id.

        Example:
            >>> from shortlist import Engine, Tool
            >>> tools = [Tool("get_forecast", "weather"), Tool("play_song", "music")]
            >>> session = Engine.from_tools(tools, tiers=["lexical"]).session(
            ...     "anthropic", tools="search", pass_through=0, k=1
            ... )
            >>> session.search("get the forecast").shown.answer
            [{'type': 'tool_reference', 'tool_name': 'weather__get_forecast'}]
        """
        query = bounded_query(query).strip()
        if not isinstance(call_id, str | None) or call_id == "":
            raise RequestError(f"call_id: the id of the model's call, not {call_id!r:.80}")
        provider = self._provider
        if call_id is not None and provider is None:
            raise RequestError("call_id: the session has no provider; use engine.session(NAME)")
        with self._lock:
            turn = self._run_turn(query, asked_by_model=True)
            shown = turn.shown
            if call_id is None or provider is None or shown is None or shown.answer is None:
                return turn
            kind = provider.search_call if self.way == "search" else "function"
            call = ModelCall(call_id, SEARCH_TOOL.name, None, kind)
            answers = provider.answers([CallAnswer(call, shown.answer, ok=True)])
            append = (*answers, *turn.append)
            return replace(turn, messages=append, append=append)

    def _read_search(self, name: str, arguments: object) -> str | Verdict | None:
        """The query of a search of the model, or what is wrong with it; None for other calls."""
        has_search = self._provider is not None and self._provider.has_list
        if name != SEARCH_TOOL.name or not has_search or name in self._engine.catalog:
            return None
        return read_query(arguments)

    def check(
        self,
        name: str,
        arguments: object = None,
        *,
        by_script: bool = False,
        approved: bool = False,
        can_ask: bool = False,
    ) -> Verdict:
        """Whether a call by the model may run, and if not, what the model should change.

        The check records no call; `result` does. Arguments are changed only where the schema allows
        one reading: a `null` that it refuses means absent, and `"2"` may be a number. A call that
        passed and has no result yet may succeed: a rule that its success would break, such as "only
        once", denies further calls until the result is recorded.

        Args:
            name: the name in the model's call: an id, a provider's name, or a name that only one
                permitted tool has. For `call_tool`, the inner call is checked.
            arguments: the arguments as the provider gives them: an object, its JSON text, or None
                or an empty text if there are none. A text that is cut off is `invalid`.
            by_script: whether a script of the model calls, for which the model reads no verdict. So
                none is `promoted`.
            approved: whether a person has approved this call. Without it, a call for which a rule
                asks for approval is `unapproved`.
            can_ask: whether a person can be asked. Then a call of a tool with `destructiveHint`
                needs approval, too.

        Returns:
            A verdict. If it passed, call `verdict.tool.id` with `verdict.arguments` and report to
            `result`. Otherwise answer the model with `verdict.text`.

        Example:
            >>> from shortlist import Engine, Tool
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
            >>> session = engine.session()
            >>> turn = session.turn("list the invoices")
            >>> session.check("list_invoices", {}).status, session.check("list_invoice").nearest
            ('passed', ('billing/list_invoices',))
        """
        start = perf_counter()
        with self._lock:
            view = self.view()
            self._follow(view)
            if self._provider is not None and isinstance(name, str):
                name, arguments = self._tool_named(name, arguments)
            verdict = view.check(name, arguments, approved=approved)
            if verdict.status == "unknown" and self._provider is not None:
                verdict = own_tool_verdict(name, arguments) or verdict
            verdict = self._final_verdict(
                verdict, view, by_script=by_script, can_ask=can_ask and not approved
            )
            if self._events is not None:
                ms = (perf_counter() - start) * 1e3
                self._events.call(self.id, self._data.turn, verdict, ms=ms)
            return verdict

    def recheck(self, verdict: Verdict) -> Verdict:
        """Whether a call that passed `check` may still run.

        Permissions and definitions may change while a person is asked or a server starts. Call it
        directly before the call is sent, with no wait in between.

        Args:
            verdict: a verdict that passed.

        Returns:
            The verdict itself if the call may run. Otherwise answer the model with its `text`, and
            report to `result` that the call failed. It is `promoted` if the tool has another
            definition now.

        Raises:
            RequestError: the verdict has no tool.

        Example:
            >>> from shortlist import Engine, Tool
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
            >>> session = engine.session(must_offer=False)
            >>> verdict = session.check("billing/list_invoices", {})
            >>> engine.quarantine({"billing/list_invoices": "under review"})
            >>> session.recheck(verdict).status
            'denied'
        """
        start = perf_counter()
        view = self.view()
        present_verdict = view.recheck(verdict)
        if present_verdict is verdict:
            return verdict
        with self._lock:
            self._follow(view)
            present_verdict = self._promoted_if_unread(view, present_verdict)
            if self._events is not None:
                ms = (perf_counter() - start) * 1e3
                self._events.call(self.id, self._data.turn, present_verdict, ms=ms)
            return present_verdict

    def result(
        self,
        call: Verdict | str,
        content: object,
        *,
        ok: bool | None = True,
    ) -> Turn:
        """Record the result of a call, and search again with it.

        Only a successful call counts as made: it satisfies `after(...)`, reaches milestones, and
        puts the tool's server in use.

        Args:
            call: the verdict of a check that passed, or the id of its tool.
            content: the result of the call, a text or JSON. Only the beginning is used for the
                search.
            ok: whether the call succeeded; None if nobody knows, see `record_call`.

        Raises:
            RequestError: no call of this tool has passed `check` and waits for its result.

        Example:
            >>> from shortlist import Engine, Tool
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
            >>> session = engine.session()
            >>> turn = session.turn("list the invoices")
            >>> verdict = session.check("billing/list_invoices", {})
            >>> turn = session.result(verdict, "INV-7, INV-9")
            >>> session.state.called
            ('billing/list_invoices',)
        """
        with self._lock:
            tool_id = self.record_call(call, ok=ok)
            result_text = as_text(content).strip()[:CONTEXT_CHARS]
            conversation = self._data.conversation
            outcome = (tool_id, bool(ok))
            if not result_text:
                return self._run_turn(conversation.in_context, outcome)
            return self._run_turn(f"{conversation.request}\n{result_text}", outcome, _RESULT_WEIGHT)

    def record_call(self, call: Verdict | str, *, ok: bool | None = True) -> str:
        """Record the outcome of a call without a turn: nothing is searched, rendered or dropped.

        For hosts whose model searches by itself, such as the gateway. Otherwise use `result`.

        Args:
            call: as for `result`.
            ok: whether the call succeeded. Only then it counts as made, see `result`. None if its
                outcome is unknown, because it was cancelled or timed out: it unlocks nothing, and
                a rule that permits one call denies a second one.

        Returns:
            The id of the tool.

        Raises:
            RequestError: no call of this tool has passed `check` and waits for its result.

        Example:
            >>> from shortlist import Engine, Tool
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
            >>> session = engine.session(must_offer=False)
            >>> verdict = session.check("billing/list_invoices", {})
            >>> session.record_call(verdict)
            'billing/list_invoices'
            >>> session.state.called
            ('billing/list_invoices',)
        """
        with self._lock:
            data = self._data
            if not isinstance(ok, bool | None):
                raise RequestError(
                    f"ok: {ok!r:.80} is not True, False or None; say whether the call succeeded"
                )
            tool_id = self._waiting_tool_id(call)
            data.waiting_calls[tool_id] -= 1
            if ok is None:
                data.state = data.state.after_unknown_outcome(tool_id)
            elif ok:
                data.state = self._engine.after_call(data.state, tool_id)
                data.called_ids = tuple(dict.fromkeys((*data.called_ids, tool_id)))
                catalog = self._engine.catalog
                if tool_id in catalog:
                    self._record.note_called(catalog.get(tool_id))
            return tool_id

    def request(self, messages: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """The arguments of the next request to the model, as the provider takes them.

        Args:
            messages: the conversation so far, without a system prompt.

        Returns:
            `messages` and `tools` for OpenAI's chat completions; `instructions`, `input` and
            `tools` for its responses; `system`, `messages` and `tools` for Anthropic's messages,
            and `betas` with `tools="append"`. Keys without content are left out. A message with a
            quarantined definition is left out, too, or has a fixed sentence in its place.

        Raises:
            RequestError: the session has no provider, `messages` is no list, or a reply waits for a
                person's decision.

        Example:
            >>> from shortlist import Engine, Tool
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
            >>> session = engine.session("openai")
            >>> messages = [*session.turn("list the invoices").messages]
            >>> list(session.request(messages))
            ['messages', 'tools']
        """
        if self._provider is None:
            raise RequestError("request: the session has no provider; use engine.session(NAME)")
        if isinstance(messages, str | Mapping):
            raise RequestError("messages: a list of messages, such as session.turn(...).messages")
        with self._lock:
            self._require_no_pending()
            return self._present_record().request(
                [dict(message) for message in messages], self._engine.catalog.provider_tools
            )

    def compacted(self) -> None:
        """Say that messages about tools were removed from the conversation, to save tokens.

        What the model needs of them is appended again when a turn finds it.

        Example:
            >>> from shortlist import Engine, Tool
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
            >>> session = engine.session("openai", pass_through=0, pool_tokens=0)
            >>> first = session.turn("list the invoices").append
            >>> session.compacted()
            >>> session.turn("list the invoices again").append == first
            True
        """
        with self._lock:
            self._record.compacted()

    def handle(
        self,
        reply: object,
        run: ToolRunner,
        *,
        approve: Approve | None = None,
        steps: int = DEFAULT_STEPS,
        parallel: bool = True,
    ) -> list[dict[str, Any]]:
        """Do what a model's reply asks for: check its calls, run those that pass, and answer.

        Calls run at the same time. A call that a rule makes dependent on others waits for them.
        A tool that raises an exception counts as failed: the exception is logged, and the model
        reads a fixed sentence, or the message of a `ToolCallError`.

        Args:
            reply: a reply of OpenAI's chat completions or responses, or of Anthropic's messages,
                as the object of the provider's package or as a dict; of a stream, its final
                object.
            run: runs a tool: a function of the `Tool` and its arguments, or a mapping of ids or
                names to functions of the arguments. It returns a text, JSON, a result of the MCP
                SDK, or a list of the provider's content blocks. It may be async.
            approve: asks a person about a call for which a rule asks for approval, or whose tool
                has `destructiveHint`. It gets the call's `tool`, `arguments`, `rules` and `call_id`
                and returns True, False or `later`; it may be async. If it raises, the call is
                refused. Without it, a call for which a rule asks is refused.
            steps: replies with calls to one message of the user. The calls of a further one are not
                run: the model is told to answer.
            parallel: whether calls may run at the same time, in threads.

        Returns:
            The messages to add to the conversation: the reply, the answers to its calls, and
            definitions of newly found tools. Empty if the reply has no calls: its text is the
            answer, and the session remembers it. Empty also if a person decides about a call later:
            `pending` has the calls, and `finish` returns the messages.

        Raises:
            RequestError: another reply waits for a person's decision; it is no reply, not one of
                the session's provider, or `run` lacks the function of a tool that the reply calls.
                Nothing has run in these cases.
            StepLimitError: the model goes on calling after it was told to answer.

        Example:
            >>> from shortlist import Engine, Tool
            >>> def list_invoices() -> list[str]:
            ...     return ["INV-7"]
            >>> engine = Engine.from_tools([Tool.from_function(list_invoices)], tiers=["lexical"])
            >>> session = engine.session("openai")
            >>> messages = [*session.turn("list the invoices").messages]
            >>> function = {"name": "list_invoices", "arguments": "{}"}
            >>> call = {"id": "call_1", "type": "function", "function": function}
            >>> reply = {"role": "assistant", "content": None, "tool_calls": [call]}
            >>> messages += session.handle(reply, {"list_invoices": list_invoices})
            >>> messages[-1]["content"]
            '["INV-7"]'
        """
        begun = self._begin_reply(reply, run, approve, steps, parallel)
        return self._keep_pending(begun.handle()) if isinstance(begun, ReplyHandler) else begun

    async def ahandle(
        self,
        reply: object,
        run: ToolRunner,
        *,
        approve: Approve | None = None,
        steps: int = DEFAULT_STEPS,
        parallel: bool = True,
    ) -> list[dict[str, Any]]:
        """`handle` for event loops. Async functions run in the loop, others in threads.

        Example:
            >>> import asyncio
            >>> from shortlist import Engine, Tool
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
            >>> session = engine.session()
            >>> asyncio.run(session.ahandle({"role": "assistant", "content": "None."}, {}))
            []
        """
        begun = await asyncio.to_thread(self._begin_reply, reply, run, approve, steps, parallel)
        if isinstance(begun, ReplyHandler):
            return self._keep_pending(await begun.ahandle())
        return begun

    def finish(
        self,
        pending: Mapping[str, Any],
        decisions: Mapping[str, bool | Literal["later"]],
        run: ToolRunner,
        *,
        save: Callable[[dict[str, Any]], object] | None = None,
        parallel: bool = True,
    ) -> list[dict[str, Any]]:
        """Go on with a reply of which calls wait for a person's decision, also after `resume`.

        Each call is checked again, as it is now: a permission, a definition or a quarantine may
        have changed. A call that the person saw with another definition or other arguments waits
        again.

        Args:
            pending: the reply, as `pending` was when the person saw it, also as it comes from JSON.
            decisions: id of a waiting call to True or False. Calls without a decision go on
                waiting.
            run: as for `handle`.
            save: stores what it is given, the saved form of this session, directly before calls
                run. If the program stops while they run, the resumed session knows that they may
                have happened, and never runs them again. Without it, they could run twice.
            parallel: as for `handle`.

        Returns:
            The messages to add to the conversation, as of `handle`; none while calls still wait.

        Raises:
            RequestError: the session does not wait for this reply, or no longer; a decision is
                wrong; or `run` lacks the function of a tool.

        Example:
            >>> from shortlist import Engine, Gate, Rule, State, Tool
            >>> gate = Gate([Rule(tools="bank/pay", approval=True)])
            >>> engine = Engine.from_tools([Tool("pay", "bank")], gate=gate, tiers=["lexical"])
            >>> session = engine.session("openai")
            >>> turn = session.turn("pay the invoice")
            >>> function = {"name": "bank__pay", "arguments": "{}"}
            >>> call = {"id": "call_1", "function": function}
            >>> reply = {"role": "assistant", "tool_calls": [call]}
            >>> session.handle(reply, {}.get, approve=lambda call: "later")
            []
            >>> again = engine.resume(session.save(), state=State())
            >>> messages = again.finish(session.pending, {"call_1": False}, {}.get)
            >>> "did not approve" in messages[-1]["content"]
            True
        """
        handler = self._begin_finish(pending, decisions, run, save, parallel)
        try:
            return self._keep_pending(handler.handle())
        finally:
            self._is_finishing = False

    async def afinish(
        self,
        pending: Mapping[str, Any],
        decisions: Mapping[str, bool | Literal["later"]],
        run: ToolRunner,
        *,
        save: Callable[[dict[str, Any]], object] | None = None,
        parallel: bool = True,
    ) -> list[dict[str, Any]]:
        """`finish` for event loops. Async functions run in the loop, others in threads.

        Example:
            >>> import asyncio
            >>> from shortlist import Engine, Tool
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
            >>> try:
            ...     asyncio.run(engine.session().afinish({}, {}, {}))
            ... except Exception as error:
            ...     print(type(error).__name__)
            RequestError
        """
        handler = await asyncio.to_thread(
            self._begin_finish, pending, decisions, run, save, parallel
        )
        try:
            return self._keep_pending(await handler.ahandle())
        finally:
            self._is_finishing = False

    @property
    def pending(self) -> Pending | None:
        """The reply that waits for a person's decision; None if there is none."""
        pending = self._data.pending
        return None if pending is None else Pending(deepcopy(dict(pending)))

    def answered(self, text: str | None) -> None:
        """Remember the model's answer as context for follow-ups.

        Example:
            >>> from shortlist import Engine, Tool
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
            >>> session = engine.session()
            >>> turn = session.turn("list the invoices")
            >>> session.answered("There are two.")
            >>> session.save()["messages"][-1]
            {'role': 'assistant', 'content': 'There are two.'}
        """
        if not isinstance(text, str | None):
            raise RequestError(f"text: what the assistant said, not {type(text).__name__}")
        with self._lock:
            messages = [Message("assistant", (text or "").strip())]
            self._data.conversation = self._data.conversation.extended(messages)

    def save(self) -> dict[str, Any]:
        """A JSON form of the session, from which `Engine.resume` continues.

        It has the head of the requests, so that their bytes stay: some 15 kilobytes where the
        system prompt has a line for each tool.

        Example:
            >>> from shortlist import Engine, Tool
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
            >>> session = engine.session()
            >>> turn = session.turn("list the invoices")
            >>> engine.resume(session.save(), state=session.state).active == session.active
            True
        """
        with self._lock:
            return self._data.to_dict(self._settings, self._record.to_dict())

    def _keep_pending(self, outcome: Messages | Pending) -> Messages:
        """Remember the reply that waits now, if one does; otherwise returns the messages."""
        pending = outcome if isinstance(outcome, Pending) else None
        with self._lock:
            self._data.pending = pending
        return [] if isinstance(outcome, Pending) else outcome

    def _require_no_pending(self) -> None:
        if self._data.pending is not None:
            raise RequestError(
                "a reply of the model waits for a person's decision: first call "
                "session.finish(session.pending, decisions, run); False refuses a call"
            )

    def _begin_finish(
        self,
        pending: Mapping[str, Any],
        decisions: Mapping[str, bool | Literal["later"]],
        run: ToolRunner,
        save: Callable[[dict[str, Any]], object] | None,
        parallel: bool,
    ) -> ReplyHandler:
        """What goes on with the waiting reply. The session's own copy of it counts."""

        def note_start(started: Pending) -> None:
            with self._lock:
                self._data.pending = started
                if save is not None:
                    save(self.save())

        if not isinstance(pending, Mapping):
            raise RequestError(f"pending: what `session.pending` was, not {type(pending).__name__}")
        if save is not None and not callable(save):
            raise RequestError(f"save: a function, not {type(save).__name__}")
        with self._lock:
            waiting = self._data.pending
            if waiting is None or pending.get("id") != waiting["id"]:
                raise RequestError(
                    "pending: not the reply that waits in this session. It was finished already, "
                    "or the session was saved before `handle` had returned: save it afterwards"
                )
            if self._is_finishing:
                raise RequestError("pending: this reply is being finished in another thread")
            progress = CallProgress.of(waiting)
            handler = ReplyHandler(
                self,
                progress,
                run,
                parallel=parallel,
                decisions=checked_decisions(progress, decisions),
                note_start=note_start,
            )
            self._is_finishing = True
            return handler

    def _begin_reply(
        self, reply: object, run: ToolRunner, approve: Approve | None, steps: int, parallel: bool
    ) -> ReplyHandler | Messages:
        """What handles a reply; or the messages, if no call of it runs."""
        self._require_no_pending()
        if not isinstance(steps, int) or steps < 1:
            raise RequestError(f"steps: a number from 1, not {steps!r:.80}")
        read = read_reply(reply)
        expected = "openai" if self.provider == "text" else self.provider
        if expected is not None and read.provider != expected:
            raise RequestError(
                f"reply: of {read.provider!r}, but the session is for {self.provider!r}"
            )
        handler = ReplyHandler(self, CallProgress(read), run, parallel=parallel, approve=approve)
        if not read.calls and not read.is_paused:
            self.answered(read.text)
            return []
        with self._lock:
            self._data.replies += 1
            replies = self._data.replies
        if replies > steps + 1:
            raise StepLimitError(
                f"the model called tools in {replies} replies to one message, also after it was "
                f"told to answer; handle(steps={steps}) allows {steps}"
            )
        if not read.calls:
            return read.messages
        return handler if replies <= steps else handler.refuse()

    def _called_tool(self, name: str, arguments: object) -> CalledTool | None:
        """The tool that a call of the model names, before it is checked; None if there is none."""
        with self._lock:
            view = self.view()
            if self._provider is not None and isinstance(name, str):
                name, _ = self._tool_named(name, arguments)
            row = view.admission.find(name)
            if row is None:
                return None
            tool = view.admission.tools[row]
            return CalledTool(
                tool,
                is_permitted=view.admission.admits(tool.id),
                waits_for_calls=view.admission.waits_for_calls(tool.id),
                shares_name=len(view.catalog.named(tool.name)) > 1,
            )

    def _waiting_tool_id(self, call: Verdict | str) -> str:
        """The tool of a call that passed and waits for its result.

        Raises:
            RequestError: there is none.
        """
        tool_id: object = call
        if isinstance(call, Verdict):
            tool_id = call.tool.id if call.passed and call.tool is not None else call.called_name
        if isinstance(tool_id, str) and self._data.waiting_calls[tool_id] > 0:
            return tool_id
        raise RequestError(
            f"call: no call of {tool_id!r:.200} waits for a result; `check` the call first, and "
            "report each call that passed once, by its verdict or the id of its tool"
        )

    def _refusal_after_waiting_calls(self, view: View, verdict: Verdict) -> Refusal | None:
        """Why a call would be denied if the calls without a result succeeded; None if it would not.

        A call that passed just now is not among them.
        """
        tool = verdict.tool
        waiting_ids = [tool_id for tool_id, count in self._data.waiting_calls.items() if count]
        if verdict.status not in ("passed", "unapproved") or tool is None or not waiting_ids:
            return None
        if not view.admission.waits_for_calls(tool.id):
            return None
        state = self._data.state
        for tool_id in waiting_ids:
            state = self._engine.after_call(state, tool_id)
        later = self._engine.view(state, allowed=self._data.allowed, votes=self.votes)
        refusal = later.refusal(tool.id) if later.exists(tool.id) else None
        if refusal is None:
            return None
        reason = "an earlier call has no outcome yet, and if it succeeds this one is not permitted"
        return Refusal(tool.id, refusal.kind, reason)

    def _present_record(self) -> ReadRecord:
        """The record, as the present permissions, catalog and quarantine are."""
        with self._lock:
            self._follow(self.view())
            return self._record

    def _follow(self, view: View) -> None:
        """Follow the present permissions. The next turn reports what has changed."""
        if self._provider is not None and self.way is not None and self._record.head is not None:
            check_names(self._provider, self.way, view.catalog)
        changes = self._record.follow(view.admission)
        if changes.departures or changes.changed_ids:
            self._unreported_changes = Changes(
                (*self._unreported_changes.departures, *changes.departures),
                tuple(dict.fromkeys((*self._unreported_changes.changed_ids, *changes.changed_ids))),
            )

    def _tool_named(self, name: str, arguments: object) -> tuple[str, object]:
        """The tool id and the arguments of a call, from the name that the model used."""
        catalog = self._engine.catalog
        if name not in catalog:
            name, arguments = unwrapped_call(name, arguments)
        if name in catalog:
            return name, arguments
        tool_id = self._record.tool_id_of(name) or name.replace("__", "/", 1)
        return (tool_id if tool_id in catalog else name), arguments

    def _final_verdict(
        self,
        verdict: Verdict,
        view: View,
        *,
        by_script: bool,
        can_ask: bool = False,
    ) -> Verdict:
        """The final verdict on a call. If it passed, its result is awaited."""
        if not by_script:
            verdict = self._promoted_if_unread(view, verdict)
        if can_ask:
            verdict = _needing_approval(verdict)
        if refusal := self._refusal_after_waiting_calls(view, verdict):
            verdict = Verdict("denied", verdict.called_name, refusal=refusal)
        if verdict.passed and verdict.tool is not None:
            self._data.waiting_calls[verdict.tool.id] += 1
        return verdict

    def _promoted_if_unread(self, view: View, verdict: Verdict) -> Verdict:
        """The verdict on a call; `promoted` if the model has read too little of the tool.

        The answer to a promoted call has the definition, and the tool is offered.

        Args:
            view: the tools that may be used now.
            verdict: result of `View.check` or `View.recheck`.
        """
        tool = verdict.tool
        if tool is None:
            return verdict
        level = self._record.read.level(tool) or Level.NAME
        is_invalid = verdict.status == "invalid"
        if verdict.status == "promoted" or self._record.read.has_other_definition(tool):
            needs_definition = True
        elif level < Level.ARGUMENTS:
            needs_definition = self._settings.must_offer or is_invalid
        else:
            # After a line only, the schema says more than the problems do.
            needs_definition = level is Level.ARGUMENTS and is_invalid
        if not needs_definition:
            if verdict.passed and self._provider is None:
                # The host has shown it in its own way.
                self._record.read.note([tool], Level.ARGUMENTS)
            return verdict
        verdict = replace(verdict, status="promoted", refusal=None)
        self._record.note_answer(view.admission, tool, verdict.text)
        return verdict

    def _run_turn(
        self,
        in_context: str,
        outcome: tuple[str, bool] | None = None,
        context: float | None = None,
        asked_by_model: bool = False,
    ) -> Turn:
        """One turn: search, decide, update the active tools, render.

        Args:
            in_context: the message with its context.
            outcome: id of the tool that answered, and whether it succeeded; None for a user's
                message.
            context: weight of the search with context; computed from both searches when absent.
            asked_by_model: whether `in_context` is a query of the model, for which alone is
                searched.
        """
        start = perf_counter()
        view, record = self.view(), self._record
        self._follow(view)
        changes, self._unreported_changes = self._unreported_changes, Changes()
        conversation, k = self._data.conversation, self._k
        if asked_by_model:
            conversation = Conversation((Message("user", in_context),))
            in_context, k = conversation.request, self._settings.k or SEARCH_HITS
        called_id = None if outcome is None else outcome[0]
        is_users_turn = called_id is None and not asked_by_model
        results, offer = search_and_offer(
            view,
            conversation,
            in_context,
            k=k,
            settings=self._settings,
            max_lines=LINE_CANDIDATES if record.wants_lines and not asked_by_model else 0,
            shows_all=record.shows_whole_catalog,
            context_weight=context,
            called_ids=() if asked_by_model else self._data.called_ids,
            answered=called_id is not None,
        )
        self._data.turn += 1
        if is_users_turn:
            self._data.called_ids = ()
        offered_before = frozenset(record.offered)
        pinned = [view.catalog.get(name) for name in self._settings.pinned if view.permits(name)]
        new_pinned = [tool for tool in pinned if tool.id not in offered_before]
        found = [hit.tool for hit in offer.hits]
        if asked_by_model:
            summaries = shared_summaries(view.admission.index.summaries)
            nothing = no_tool_text([hit.tool for hit in offer.nearest], summaries)
            shown = record.show_in_answer(view.admission, found, nothing)
        else:
            also_found = () if offer.decision.abstained else results.ranked
            named = _tools_of_skill(view, called_id)
            shown = record.show(
                view.admission,
                list(dict.fromkeys((*new_pinned, *named, *found))),
                [hit.tool for hit in also_found],
            )
        turn = Turn(
            hits=offer.hits,
            results=results,
            messages=shown.messages,
            append=shown.messages,
            active=record.offered,
            left=changes.departures,
            changed=changes.changed_ids,
            abstained=offer.decision.abstained,
            reason=offer.decision.reason,
            shown=None if self._provider is None else shown,
        )
        if self._events is not None:
            session_ms = (perf_counter() - start) * 1e3 - results.search_ms
            self._events.turn(
                self.id,
                self._data.turn,
                turn,
                called=called_id,
                ok=None if outcome is None else outcome[1],
                added=tuple(name for name in record.offered if name not in offered_before),
                fits=offer.decision.fits,
                timings={"search": results.search_ms, "session": session_ms},
                warnings=view.admission.warnings(record.offered),
            )
        return turn


def resumed_session(
    engine: Views,
    saved: Mapping[str, Any],
    settings: Mapping[str, Any],
    *,
    state: State,
    allowed: Iterable[str] | EllipsisType | None = ...,
) -> Session:
    """A session that continues from the result of `save`; see `Engine.resume`."""
    if not isinstance(state, State):
        raise RequestError(f"state: a State, not {type(state).__name__}")
    try:
        data, before = SessionData.from_dict(saved)
        data.state = state.continuing(data.state)
        # Nobody reports the calls that ran when the session was saved.
        for tool_id, count in data.waiting_calls.items():
            data.state = data.state.after_unknown_outcome(tool_id) if count else data.state
        data.waiting_calls.clear()
        if not isinstance(allowed, EllipsisType):
            data.allowed = checked_allowed(allowed)
        base = engine.config.session.changed({**before, **settings})
        # Tools of the setting `pinned` that have left the catalog are left out.
        pinned = tuple(tool_id for tool_id in base.pinned if tool_id in engine.catalog)
        return Session(engine, base.changed({"pinned": pinned}), data)
    except ShortlistError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise RequestError(f"saved session: damaged: {error!r:.200}") from error


def _tools_of_skill(view: View, called_id: str | None) -> list[Tool]:
    """The permitted tools that a skill names in `allowed-tools`, if one was called."""
    if called_id is None or not view.exists(called_id):
        return []
    named = view.details(tools_of_skill(view.catalog.get(called_id)))
    return [tool for tool in named if isinstance(tool, Tool)]


def _needing_approval(verdict: Verdict) -> Verdict:
    """The verdict on a call where a person can be asked: one that may destroy is unapproved."""
    if not verdict.passed or verdict.tool is None or not is_destructive(verdict.tool):
        return verdict
    reason = "it needs a person's approval, because the tool may destroy something"
    return replace(
        verdict, status="unapproved", refusal=approval_refusal(verdict.called_name, reason)
    )
