"""The tools of an agent framework: what a conversation is offered, its searches and its calls.

Every adapter uses these. What an adapter adds is the framework's own types.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, Unpack

from ..catalog import Catalog, Tool
from ..engine import Engine
from ..errors import RequestError, ShortlistError
from ..gating import State
from ..gating.verdict import Verdict
from ..loaders.own_tools import SEARCH_TOOL
from ..loaders.providers import Way, provider_name
from ..session import Session
from ..session.hosting import follow_state, offer_again
from ..session.own_calls import read_query
from ..session.reply_handler import finish_in_thread

if TYPE_CHECKING:
    from ..setting_types import SessionSettings

__all__ = [
    "SEARCH_TOOL",
    "ApprovalNeeded",
    "CallRefused",
    "FrameworkSession",
    "FrameworkTools",
    "PastCall",
    "is_refusal",
]

MAX_SESSIONS = 1_000
"""Maximum number of conversations in memory; the least recently used one is dropped."""

_LIST_SETTINGS: SessionSettings = {"k": 12, "list_tokens": 3_000}
"""Of the way `list`: the model calls a tool without a definition only after a search."""

StateOf: TypeAlias = State | Callable[[Any], State]
"""The state of the agent, or a function from the framework's context to it."""

_NAME_IN_TEXT = re.compile(r"[\w-]+")


class CallRefused(ShortlistError):
    """A call that does not pass. Its text tells the model what to change."""


class ApprovalNeeded(CallRefused):
    """A call for which a rule asks for a person's approval. The framework may ask, and try again.

    Args:
        verdict: the verdict on the call.
        text: what the model reads where nobody can be asked.
    """

    def __init__(self, verdict: Verdict, text: str) -> None:
        super().__init__(text)
        self.verdict = verdict

    @property
    def rules(self) -> list[str]:
        """Names of the rules that ask."""
        refusal = self.verdict.refusal
        return [] if refusal is None else list(refusal.detail.get("rules", ()))


class PastCall(NamedTuple):
    """A call in the messages of a conversation.

    Attributes:
        name: the name that the model called.
        answer: the text that answered it; empty if nothing did.
        ok: whether it succeeded; None if nobody knows.
    """

    name: str
    answer: str = ""
    ok: bool | None = False


class FrameworkTools:
    """The tools of a framework, with a session for each conversation. Thread-safe.

    Args:
        engine: finds the tools; None to make one over the tools of the first `follow_tools`.
        state: the state of the agent, or a function from the framework's context to it.
        way: how found tools reach the model. With `list`, the model calls each by its own name,
            so that approvals, limits and traces of the framework hold.
        settings: settings of `SessionConfig`, such as `k`, `list_tokens` and `events`.

    Raises:
        ConfigError: an unknown setting, or a wrong value.
    """

    def __init__(
        self,
        engine: Engine | None,
        state: StateOf | None,
        way: Way = "list",
        **settings: Unpack[SessionSettings],
    ) -> None:
        self._way = way
        # Most frameworks have no place for lines about tools.
        defaults = unless_set(engine, _LIST_SETTINGS if way == "list" else {})
        self._settings: SessionSettings = {"pool_tokens": 0, **defaults, **settings}
        self._state = State() if state is None else state
        self._sessions: OrderedDict[str, FrameworkSession] = OrderedDict()
        self._lock = Lock()
        self._engine = engine
        self._is_own_engine = engine is None
        self._tool_fingerprints: tuple[str, ...] | None = None
        self._tool_names: frozenset[str] = frozenset()
        self._allowed_ids_cache: tuple[Catalog | None, frozenset[str], list[str] | None]
        self._allowed_ids_cache = None, self._tool_names, None
        if engine is not None:
            # Raises now if a setting is wrong.
            engine.session("openai", tools=way, **self._settings)

    @property
    def engine(self) -> Engine:
        """The engine; before the first `follow_tools`, it needs to have been given."""
        if self._engine is None:
            raise CallRefused("the engine is made when the agent first lists its tools")
        return self._engine

    def follow_tools(self, tools: Sequence[Tool]) -> None:
        """Follow the tools that the framework has now.

        A given engine keeps its catalog; sessions may use those of its tools that have a name among
        these.

        Raises:
            RequestError: a tool has the name of the search that models are offered.
        """
        names = frozenset(tool.name for tool in tools)
        if SEARCH_TOOL.name in names:
            raise RequestError(
                f"tools: one is named {SEARCH_TOOL.name!r}, as the search that the model is "
                "offered; give it another name, or leave it out"
            )
        fingerprints = tuple(sorted(tool.fingerprint for tool in tools))
        with self._lock:
            self._tool_names = names
            if not self._is_own_engine or fingerprints == self._tool_fingerprints:
                return
            if self._engine is None:
                self._engine = Engine.from_tools(tools)
            else:
                self._engine.replace(tools)
            self._tool_fingerprints = fingerprints

    @property
    def allowed_ids(self) -> list[str] | None:
        """Ids of the tools that the framework can run; None if it can run the whole catalog."""
        catalog, names, allowed = self._allowed_ids_cache
        if catalog is not self.engine.catalog or names is not self._tool_names:
            catalog, names = self.engine.catalog, self._tool_names
            ids = [tool.id for tool in catalog if tool.name in names]
            allowed = None if len(ids) == len(catalog) else ids
            self._allowed_ids_cache = catalog, names, allowed
        return allowed

    def session_in_memory(self, key: str) -> Session | None:
        """The session of a conversation; None if it is not in memory."""
        with self._lock:
            framework_session = self._sessions.get(key)
        return None if framework_session is None else framework_session.session

    def session(
        self, key: str, context: Any, past_calls: Iterable[PastCall] = ()
    ) -> FrameworkSession:
        """The session of a conversation, with the agent's present state.

        Args:
            key: identifies the conversation.
            context: the framework's context, for the function `state`.
            past_calls: the calls in the messages of the conversation. They are read if the session
                is new: the conversation was resumed, or its session was dropped.
        """
        state = self._state(context) if callable(self._state) else self._state
        with self._lock:
            framework_session = self._sessions.get(key)
            is_new = framework_session is None
            if framework_session is None:
                session = self.engine.session(
                    "openai", tools=self._way, session_id=key, **self._settings
                )
                framework_session = self._sessions[key] = FrameworkSession(session, self.engine)
            self._sessions.move_to_end(key)
            if len(self._sessions) > MAX_SESSIONS:
                self._sessions.popitem(last=False)
            session = framework_session.session
            follow_state(session, state)
            session.allowed = self.allowed_ids
            if is_new:
                framework_session.take_over(past_calls)
        return framework_session


class FrameworkSession:
    """One conversation of a framework.

    Args:
        session: its session.
        engine: the engine of the session.
    """

    def __init__(self, session: Session, engine: Engine) -> None:
        self.session = session
        self._engine = engine
        self._last_messages: list[dict[str, str]] = []
        #: An object of the framework that has to live as long as the session.
        self.kept_alive: object = None

    def take_over(self, past_calls: Iterable[PastCall]) -> None:
        """Continue a conversation: its calls count as made, its tools are offered again.

        A tool that this session has shown stays as it is: its definition may have changed since.
        """
        state, names = self.session.state, list[str]()
        for call in past_calls:
            if call.name == SEARCH_TOOL.name:
                names += _names_listed(call.answer)
            elif (tool_id := tool_id_of_name(self._engine, call.name)) is not None:
                names.append(call.name)
                if call.ok is None:
                    state = state.after_unknown_outcome(tool_id)
                elif call.ok:
                    state = self._engine.after_call(state, tool_id)
        self.session.state = state
        tool_ids = dict.fromkeys(tool_id_of_name(self._engine, name) for name in reversed(names))
        new_ids = [name for name in tool_ids if name is not None and not self.session.level(name)]
        if new_ids:
            offer_again(self.session, reversed(new_ids))

    def offer(self, dialogue: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
        """The tools of a model call, the search among them, as OpenAI's function tools.

        Args:
            dialogue: role and text of the messages of the user and the assistant so far.
        """
        messages = [{"role": role, "content": text} for role, text in dialogue if text.strip()]
        while messages and messages[-1]["role"] != "user":
            messages.pop()
        if messages and messages != self._last_messages:
            self._last_messages = messages
            self.session.turn(messages)
        return self._offered()

    @property
    def offered_names(self) -> frozenset[str]:
        """The framework's names of the tools that are offered now, with the search."""
        return frozenset(tool["function"]["name"] for tool in self._offered())

    def search(self, arguments: object) -> str:
        """The answer to a search of the model; the tools are offered from the next model call.

        Args:
            arguments: the arguments of the call.

        Raises:
            CallRefused: there is no query.
        """
        query = read_query(arguments)
        if isinstance(query, Verdict):
            raise CallRefused(query.text)
        turn = self.session.search(query)
        names = {provider_name(tool_id): self.name_of(tool_id) for tool_id in turn.ids}
        answer = "" if turn.shown is None else str(turn.shown.answer)
        return _NAME_IN_TEXT.sub(lambda word: names.get(word[0], word[0]), answer)

    async def call(
        self,
        name: str,
        arguments: Any,
        run: Callable[[Tool, dict[str, Any]], Awaitable[Any]],
        *,
        approved: bool = False,
    ) -> Any:
        """Check a call, run it, and record its outcome.

        Args:
            name: the name that the model called.
            arguments: the arguments, as the framework has them.
            run: runs a tool with checked arguments.
            approved: whether a person has approved the call.

        Raises:
            CallRefused: the call does not pass; `ApprovalNeeded` if a person may approve it.
        """
        passed: list[Verdict] = []
        with self.recording_exceptions(passed):
            tool = await finish_in_thread(
                lambda: self.check(name, arguments, passed, approved=approved)
            )
            content = await run(tool, dict(passed[0].arguments))
        await finish_in_thread(lambda: self.session.result(passed[0], content))
        return content

    def check(
        self, name: str, arguments: Any, passed: list[Verdict], *, approved: bool = False
    ) -> Tool:
        """The tool of a call that passes. Give the outcome to `session.result`.

        Args:
            name: the name that the model called.
            arguments: the arguments, as the framework has them.
            passed: the verdict is added to it.
            approved: whether a person has approved the call.

        Raises:
            CallRefused: the call does not pass; `ApprovalNeeded` if a person may approve it.
        """
        tool_id = tool_id_of_name(self._engine, name) or name
        verdict = self.session.check(tool_id, arguments, approved=approved)
        if not verdict.passed or verdict.tool is None:
            text = verdict.with_model_names(self.name_of).text
            needs_approval = verdict.status == "unapproved"
            raise ApprovalNeeded(verdict, text) if needs_approval else CallRefused(text)
        passed.append(verdict)
        return verdict.tool

    @contextmanager
    def recording_exceptions(self, passed: Sequence[Verdict]) -> Iterator[None]:
        """Record the outcome of a call that passed, if it ends with an exception.

        It has failed, also if the framework interrupts it, to run it again later. If it is
        cancelled, nobody knows its outcome.
        """
        try:
            yield
        except BaseException as error:
            ok = False if isinstance(error, Exception) else None
            for verdict in passed:
                self.session.record_call(verdict, ok=ok)
            raise

    def refusal(self, name: str, arguments: Any = None) -> str:
        """The answer to a call of a name that the framework does not run now.

        Such a call never runs, whatever it means: the framework's approvals and limits would not
        see the tool by its own name. If the tool is permitted, it is offered from now on.

        Args:
            name: the name that the model called.
            arguments: the arguments, as the framework has them.
        """
        passed: list[Verdict] = []
        try:
            tool = self.check(name, arguments, passed)
        except CallRefused as refusal:
            return str(refusal)
        self.session.record_call(passed[0], ok=False)
        offer_again(self.session, [tool.id])
        return Verdict("promoted", name, tool).with_model_names(self.name_of).text

    def _offered(self) -> list[dict[str, Any]]:
        """The session's list of tools, in its order, under the framework's names."""
        names = _names_of_tools(self._engine.catalog)
        functions = [tool["function"] for tool in self.session.tools if "function" in tool]
        return [
            {"type": "function", "function": {**function, "name": names.get(name, name)}}
            for function in functions
            for name in [function["name"]]
        ]

    def name_of(self, tool_id: str) -> str:
        """The framework's name of a tool."""
        catalog = self._engine.catalog
        return catalog.get(tool_id).name if tool_id in catalog else tool_id


def unless_set(engine: Engine | None, settings: SessionSettings) -> SessionSettings:
    """These settings, without those that the configuration of the engine sets."""
    names = frozenset() if engine is None else engine.config.session.model_fields_set
    kept: Any = {name: value for name, value in settings.items() if name not in names}
    return kept  # type: ignore[no-any-return]


@lru_cache(8)
def _names_of_tools(catalog: Catalog) -> dict[str, str]:
    """The name of each tool for the session's provider to its name in the framework."""
    return {provider_name(tool.id): tool.name for tool in catalog}


def tool_id_of_name(engine: Engine, name: str) -> str | None:
    """Id of the tool with a name; None if there is none."""
    catalog = engine.catalog
    return next((catalog[row].id for row in catalog.named(name)), None)


def is_refusal(answer: str) -> bool:
    """Whether the answer to a call is that of a call that did not pass."""
    return answer.startswith('{"error": "') and '"status": "' in answer


def _names_listed(answer: str) -> list[str]:
    """The names in the answer to a search: each line is a label, a colon and names."""
    return [name for line in answer.splitlines() for name in line.partition(": ")[2].split(", ")]
