"""LangChain: a middleware that offers an agent the tools each turn needs.

It finds them, keeps them for the conversation, and answers a call that may not go ahead with what
would mend it. Needs the extra `langchain`.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from threading import Lock
from typing import TYPE_CHECKING, Any

from ..catalog import Tool
from ..errors import MissingExtraError
from ..gating import Admission, State
from ..loaders.counting import bundled_counter
from ..loaders.detail import definition_text
from ..loaders.passing import costs_at_most
from ..loaders.pool import Pool, PoolWriter
from ..loaders.recent import Recent
from ..session import Budget, PromptEvent, Session, Turn
from ..session.event import Place

try:
    from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest
    from langchain.tools.tool_node import ToolCallRequest
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
    from langchain_core.messages import ToolMessage as Answer
    from langchain_core.tools import BaseTool
    from langgraph.config import get_config
    from langgraph.types import Command
except ImportError as missing:
    raise MissingExtraError("the middleware for LangChain", "langchain") from missing

from .langchain_tools import AgentTools, catalog_of

if TYPE_CHECKING:
    from ..engine import Engine
    from ..session.deciding import Decides
    from ..session.events import Recorder

__all__ = ["ShortlistMiddleware", "catalog_of"]

CONVERSATIONS = 1_000
"""Conversations remembered; one that is forgotten starts again with what its messages tell."""
PASS_THROUGH_TOKENS = 6_000
"""Tokens of a catalog that is shown whole, by default: 3 % of a context of 200,000."""

_COSTS = 4_096
#: Refusals that no call in a conversation lifts: these tools are not even told of.
_LASTING = ("scope", "quarantined", "not_allowed")


@dataclass(slots=True)
class _Conversation:
    """One conversation: its session, and how far its messages were read."""

    session: Session
    passes_through: bool
    read: str | None = None
    pool_for: tuple[str, frozenset[str], bytes] | None = None
    pool: Pool | None = None
    lock: Lock = field(default_factory=Lock)


class ShortlistMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Offers the model the tools a turn needs, out of many; registers all of them with the agent.

    Conversations are told apart by their `thread_id`, or without one by their first message. Tools
    that the agent has from elsewhere are left alone.

    Args:
        tools: of which the model is offered those it needs.
        engine: over `catalog_of(tools)`, where rules, a tier or an encoder of one's own are wanted.
        state: what the agent holds; or what gives that from the run's context.
        tier: name of the tier that searches, the engine's default when absent.
        k: tools found per turn at most, the engine's number when absent.
        decider: abstains where nothing fits.
        cut: whether the decider also says how many tools are offered.
        budget: what the active tools may amount to.
        always: names or ids of tools that are offered in every turn.
        pool: writes the lines that tell of all tools at the end of the system message.
        pass_through_tokens: a catalog that takes no more is offered whole.
        events: records what is decided.

    Raises:
        RequestError: two tools of one name, or an engine over tools that are not among them.
        UnknownToolError: one that is always offered is not there.
    """

    def __init__(
        self,
        tools: Sequence[BaseTool],
        *,
        engine: Engine | None = None,
        state: State | Callable[[Any], State] | None = None,
        tier: str | None = None,
        k: int | None = None,
        decider: Decides | None = None,
        cut: bool = False,
        budget: Budget | None = None,
        always: Sequence[str] = (),
        pool: PoolWriter | None = None,
        pass_through_tokens: int = PASS_THROUGH_TOKENS,
        events: Recorder | None = None,
    ) -> None:
        super().__init__()
        self.tools = list(tools)
        self._ours = AgentTools(self.tools, engine)
        self.engine = self._ours.engine
        self._state = State() if state is None else state
        self._session = partial(
            Session, self.engine, tier=tier, k=k, decider=decider, cut=cut, events=events
        )
        self._events = events
        self._budget = budget or Budget(cost=self._cost)
        self._always = tuple(
            self._ours.id_of(name) or self.engine.catalog.get(name).id for name in always
        )
        self._pool = PoolWriter() if pool is None else pool
        self._pass_through_tokens = pass_through_tokens
        self._conversations: OrderedDict[str, _Conversation] = OrderedDict()
        self._costs: Recent[str, int] = Recent(_COSTS)
        self._lock = Lock()

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Any]
    ) -> Any:
        """Offer the tools of this turn to the model."""
        return handler(self._offered(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[Any]]
    ) -> Any:
        """The same without blocking the event loop."""
        return await handler(await asyncio.to_thread(self._offered, request))

    def wrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Answer | Command[Any]],
    ) -> Answer | Command[Any]:
        """Let a call go ahead, or answer it with what would mend it."""
        checked = self._checked(request)
        return checked if isinstance(checked, Answer) else handler(checked)

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[Answer | Command[Any]]],
    ) -> Answer | Command[Any]:
        """The same without blocking the event loop."""
        checked = await asyncio.to_thread(self._checked, request)
        return checked if isinstance(checked, Answer) else await handler(checked)

    def session(self, thread_id: str) -> Session | None:
        """The session of a conversation, None where it is not remembered."""
        with self._lock:
            held = self._conversations.get(thread_id)
        return None if held is None else held.session

    def _offered(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """The request with the tools of this turn, after those that are not ours."""
        with self._conversation(request) as conversation:
            session = conversation.session
            turn = self._read(conversation, request.messages)
            admission = self.engine.admission(session.state, allowed=self._ours.allowed())
            active = [tool_id for tool_id in session.active if admission.admits(tool_id)]
            pool = (
                None if conversation.passes_through else _told(self._pool, conversation, admission)
            )
        if turn is not None and self._events is not None:
            self._events(_shown(session.id, turn, pool))
        others = [
            tool
            for tool in request.tools
            if isinstance(tool, dict) or self._ours.by_name.get(tool.name) is not tool
        ]
        tools = [*others, *self._ours.runnable(active)]
        if pool is None or not pool.text:
            return request.override(tools=tools)
        return request.override(tools=tools, system_message=_system_message(request, pool.text))

    def _checked(self, request: ToolCallRequest) -> ToolCallRequest | Answer:
        """The call as it may go ahead, or the answer to one that may not."""
        call = request.tool_call
        if call["name"] not in self._ours.by_name and request.tool is not None:
            return request  # a tool from elsewhere
        with self._conversation(request) as conversation:
            verdict = conversation.session.check(
                call["name"], call["args"], allowed=self._ours.allowed()
            )
        if verdict.passed and verdict.tool is not None:
            name = verdict.tool.name
            return request.override(tool=self._ours.by_name[name], tool_call={**call, "name": name})
        return Answer(
            # A model may write half of a surrogate pair, which no provider takes back.
            json.dumps(self._ours.told_of(verdict), ensure_ascii=False)
            .encode("utf-8", "replace")
            .decode(),
            name=call["name"],
            tool_call_id=call["id"],
            status="error",
        )

    @contextmanager
    def _conversation(
        self, request: ModelRequest[Any] | ToolCallRequest
    ) -> Iterator[_Conversation]:
        """The conversation of a run, alone, with what the agent holds now."""
        messages, context = request.state["messages"], request.runtime.context
        thread = get_config().get("configurable", {}).get("thread_id")
        first = messages[0].id if messages else None
        key = str(first if thread is None else thread)
        given = self._state(context) if callable(self._state) else self._state
        with self._lock:
            held = self._conversations.get(key)
            if held is None:
                held = self._conversations[key] = self._begun(key, messages, given)
            self._conversations.move_to_end(key)
            if len(self._conversations) > CONVERSATIONS:
                self._conversations.popitem(last=False)
        with held.lock:
            held.session.state = _with_history(given, held.session.state)
            yield held

    def _begun(self, key: str, messages: Sequence[BaseMessage], given: State) -> _Conversation:
        """A new conversation; tools that answered before count as called."""
        for message in messages:
            if isinstance(message, Answer) and (tool_id := self._answering(message)):
                given = self.engine.after_call(given, tool_id)
        catalog = self.engine.catalog
        whole = costs_at_most(catalog, self._pass_through_tokens)
        shown = [tool.id for tool in catalog] if whole else self._always
        pinned = [tool_id for tool_id in shown if tool_id in catalog]
        budget = replace(self._budget, tools=max(self._budget.tools, len(pinned)))
        return _Conversation(
            self._session(session_id=key, state=given, budget=budget, pinned=pinned), whole
        )

    def _read(self, conversation: _Conversation, messages: Sequence[BaseMessage]) -> Turn | None:
        """Take what is new in the messages: what the user says, or what tools answered.

        Returns:
            The last turn that came of it, None where there was nothing new.
        """
        last = messages[-1] if messages else None
        if last is None or (last.id is not None and last.id == conversation.read):
            return None
        session, turn = conversation.session, None
        said = _said(messages)
        begins = isinstance(last, HumanMessage) and bool(last.text.strip())
        if begins or (said and not session.conversation.request):
            turn = session.turn(said, allowed=self._ours.allowed())
        for message in _answers(messages):
            if tool_id := self._answering(message):
                turn = session.observe(tool_id, message.text, allowed=self._ours.allowed())
        conversation.read = last.id
        return turn

    def _answering(self, message: Answer) -> str | None:
        """Id of the tool that did what was asked of it; None if it failed or is not ours."""
        return None if message.status == "error" else self._ours.id_of(message.name or "")

    def _cost(self, tool: Tool) -> int:
        if (known := self._costs.get(tool.fingerprint)) is not None:
            return known
        text = definition_text(tool.id, tool.description, tool.input_schema)
        return self._costs.put(tool.fingerprint, bundled_counter().count(text))


def _told(writer: PoolWriter, conversation: _Conversation, admission: Admission) -> Pool:
    """The pool; the same text as long as catalog and lasting refusals are the same."""
    catalog = admission.index.catalog
    mask = b"" if admission.mask is None else admission.mask.tobytes()
    now = (catalog.fingerprint, admission.state.scopes, mask)
    if conversation.pool is None or conversation.pool_for != now:
        lasting = (refusal for refusal in admission.refusals if refusal.kind in _LASTING)
        withheld = frozenset(refusal.tool_id for refusal in lasting)
        conversation.pool = writer.write(catalog, withheld=withheld)
        conversation.pool_for = now
    return conversation.pool


def _shown(session: str, turn: Turn, pool: Pool | None) -> PromptEvent:
    """What a turn's tools take; those of a catalog that is shown whole are there from the start."""
    tokens = turn.tokens or 0
    first, second = (tokens, 0) if pool is None else (pool.tokens, tokens)
    details = dict.fromkeys(turn.active, "full")
    return PromptEvent(Place.now(session, turn.number), first, second, details=details)


def _with_history(given: State, was: State) -> State:
    """What the agent holds with what the conversation came to."""
    return State(
        given.scopes,
        (*was.called, *given.called),
        was.milestones | given.milestones,
        given.facts,
    )


def _said(messages: Sequence[BaseMessage]) -> list[Mapping[str, str]]:
    """What was said up to the last words of the user."""
    told: list[Mapping[str, str]] = []
    until = 0
    for message in messages:
        if isinstance(message, HumanMessage | AIMessage) and message.text.strip():
            user = isinstance(message, HumanMessage)
            told.append({"role": "user" if user else "assistant", "content": message.text})
            until = len(told) if user else until
    return told[:until]


def _answers(messages: Sequence[BaseMessage]) -> list[Answer]:
    """What tools answered to the model's last message, in order."""
    tail = takewhile(lambda message: isinstance(message, Answer), reversed(messages))
    return [message for message in tail if isinstance(message, Answer)][::-1]


def _system_message(request: ModelRequest[Any], pool: str) -> SystemMessage:
    """The agent's own system message and the pool, up to which a provider may cache."""
    given = request.system_message
    anthropic = request.model._llm_type == "anthropic-chat"
    if given is not None and isinstance(given.content, str) and not anthropic:
        return SystemMessage(f"{given.content}\n\n{pool}")
    block: dict[str, Any] = {"type": "text", "text": pool}
    if anthropic:
        block["cache_control"] = {"type": "ephemeral"}
    if given is None:
        return SystemMessage([block] if anthropic else pool)
    content = given.content
    own: list[Any] = [{"type": "text", "text": content}] if isinstance(content, str) else [*content]
    return SystemMessage([*own, block])
