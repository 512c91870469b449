"""The tools of an agent framework: what a conversation is offered, its searches and its calls.

Every adapter uses these. What an adapter adds is the framework's own types.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

from ..catalog import Catalog, Tool
from ..engine import Engine
from ..errors import RequestError, ShortlistError
from ..gating import State
from ..gating.verdict import Verdict
from ..loaders.render import SEARCH_TOOL
from ..loaders.render.provider_tools import provider_name
from ..session import Session
from ..session.session_prompt import read_query

if TYPE_CHECKING:
    from ..setting_types import SessionSettings

__all__ = ["SEARCH_TOOL", "CallRefused", "FrameworkSession", "FrameworkTools", "OfferedDefinition"]

MAX_SESSIONS = 1_000
"""Maximum number of conversations in memory; the least recently used one is dropped."""

StateOf: TypeAlias = State | Callable[[Any], State]
"""The state of the agent, or a function from the framework's context to it."""


_NAME_IN_TEXT = re.compile(r"[\w-]+")


class CallRefused(ShortlistError):
    """A call that does not pass. Its text tells the model what to change."""


@dataclass(frozen=True, slots=True)
class OfferedDefinition:
    """A tool as the session shows it to the model.

    Args:
        name: the framework's name of the tool.
        description: its description, shortened where the token budget is small.
        argument_schema: the schema of its arguments.
    """

    name: str
    description: str
    argument_schema: dict[str, Any]


class FrameworkTools:
    """The tools of a framework, with a session for each conversation. Thread-safe.

    Args:
        engine: finds the tools; None to make one over the tools of the first `follow_tools`.
        state: the state of the agent, or a function from the framework's context to it.
        format: the format of the sessions. Frameworks turn definitions of `openai` into those of
            any provider.
        settings: settings of `SessionConfig`, such as `k`, `schema_tokens` and `events`.

    Raises:
        ConfigError: an unknown setting, or a wrong value.
    """

    def __init__(
        self,
        engine: Engine | None,
        state: StateOf | None,
        format: str = "openai",  # noqa: A002 - the field's word
        **settings: Unpack[SessionSettings],
    ) -> None:
        self._format = format
        # A framework calls tools by their names, so those without a definition have only a summary.
        self._settings: SessionSettings = {"pool": "summaries", **settings}
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
            engine.session(format=format, **self._settings)

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

    def session(self, key: str, context: Any, called: Sequence[str] = ()) -> FrameworkSession:
        """The session of a conversation, with the agent's present state.

        Args:
            key: identifies the conversation.
            context: the framework's context, for the function `state`.
            called: names of the tools that the conversation called with success, if the session is
                new: a conversation that was resumed.
        """
        state = self._state(context) if callable(self._state) else self._state
        with self._lock:
            framework_session = self._sessions.get(key)
            if framework_session is None:
                past = State()
                for name in called:
                    if (tool_id := tool_id_of_name(self.engine, name)) is not None:
                        past = self.engine.after_call(past, tool_id)
                session = self.engine.session(
                    format=self._format, state=past, session_id=key, **self._settings
                )
                framework_session = self._sessions[key] = FrameworkSession(session, self.engine)
            self._sessions.move_to_end(key)
            if len(self._sessions) > MAX_SESSIONS:
                self._sessions.popitem(last=False)
        session = framework_session.session
        session.follow_state(state)
        session.allowed = self.allowed_ids
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

    def offer(self, dialogue: Sequence[tuple[str, str]]) -> list[OfferedDefinition]:
        """The tools of a model call.

        Args:
            dialogue: role and text of the messages of the user and the assistant so far.
        """
        messages = [{"role": role, "content": text} for role, text in dialogue if text.strip()]
        while messages and messages[-1]["role"] != "user":
            messages.pop()
        if messages and messages != self._last_messages:
            self._last_messages = messages
            self.session.turn(messages)
        self.session.refresh()
        return self._offered()

    @property
    def offered_names(self) -> frozenset[str]:
        """The framework's names of the tools that are offered now."""
        return frozenset(tool.name for tool in self._offered())

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
        return _NAME_IN_TEXT.sub(lambda word: names.get(word[0], word[0]), str(turn.answer))

    async def call(
        self, name: str, arguments: Any, run: Callable[[Tool, dict[str, Any]], Awaitable[Any]]
    ) -> Any:
        """Check a call, run it, and record its outcome.

        Args:
            name: the name that the model called.
            arguments: the arguments, as the framework has them.
            run: runs a tool with checked arguments.

        Raises:
            CallRefused: the call does not pass.
        """
        verdict, tool = await asyncio.to_thread(self.check, name, arguments)
        is_ok, content = False, None
        try:
            content = await run(tool, dict(verdict.arguments))
            is_ok = True
        finally:
            await self.session.aresult(verdict, content if is_ok else "", ok=is_ok)
        return content

    def check(self, name: str, arguments: Any) -> tuple[Verdict, Tool]:
        """The verdict on a call that passes, and its tool. Give the outcome to `session.result`.

        Args:
            name: the name that the model called.
            arguments: the arguments, as the framework has them.

        Raises:
            CallRefused: the call does not pass.
        """
        verdict = self.session.check(tool_id_of_name(self._engine, name) or name, arguments)
        if not verdict.passed or verdict.tool is None:
            raise CallRefused(verdict.with_model_names(self.name_of).text)
        return verdict, verdict.tool

    def _offered(self) -> list[OfferedDefinition]:
        """The list of tools in the session's prompt, in its order, under the framework's names."""
        session, shown = self.session, self.session.shown
        if shown is None:
            return []
        shown_ids = list(shown.details)
        if session.shows_whole_catalog:
            shown_ids = [tool.id for tool in session.view().tools()]
        id_by_provider_name = {provider_name(tool_id): tool_id for tool_id in shown_ids}
        functions = [tool["function"] for tool in shown.rendered.tools]
        return [
            OfferedDefinition(
                name=self.name_of(id_by_provider_name.get(function["name"], function["name"])),
                description=function["description"],
                argument_schema=function["parameters"],
            )
            for function in functions
        ]

    def name_of(self, tool_id: str) -> str:
        """The framework's name of a tool."""
        catalog = self._engine.catalog
        return catalog.get(tool_id).name if tool_id in catalog else tool_id


def tool_id_of_name(engine: Engine, name: str) -> str | None:
    """Id of the tool with a name; None if there is none."""
    catalog = engine.catalog
    return next((catalog[row].id for row in catalog.named(name)), None)
