"""Recorded events of sessions and of the gateway: one model for each kind, and one reader.

Events have no text of messages, descriptions, arguments or results, unless `content` is requested.
For a denied tool they have only the id, the reason, and the tools that unlock it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    computed_field,
)

from ..catalog.text_cleaning import visible_line
from ..retrieval import Hit
from ..retrieval.refusal import Refusal

if TYPE_CHECKING:
    from ..gating.verdict import Verdict


#: Candidates an event names, best first.
MAX_CANDIDATES = 20
#: Characters of a name that a model made up.
_NAME_CHARACTERS = 200


def _valid_text(value: Any) -> Any:
    """A value from a model or a server, with halves of surrogate pairs replaced in its texts."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_valid_text(key): _valid_text(item) for key, item in value.items()}
    return [_valid_text(item) for item in value] if isinstance(value, list | tuple) else value


def _rounded(decimals: int) -> AfterValidator:
    return AfterValidator(lambda number: round(number, decimals))


_Milliseconds = Annotated[float, _rounded(3)]
_Content = Annotated[dict[str, Any], BeforeValidator(_valid_text)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True)


class FoundTool(_Model):
    """A tool that a search found, and its score; None for a score that is no number."""

    id: str
    score: Annotated[float, _rounded(6)] | None

    @classmethod
    def of(cls, hit: Hit) -> FoundTool:
        """The part of a hit that events have."""
        return cls(id=hit.id, score=hit.score if math.isfinite(hit.score) else None)


class DeniedTool(_Model):
    """A tool that is denied.

    Args:
        tool: its id.
        kind: kind of the refusal, or why an active tool was removed.
        reason: one sentence.
        unlocked_by: ids of permitted tools; a call of them makes this tool permitted.
    """

    tool: str
    kind: str
    reason: str
    unlocked_by: tuple[str, ...] = ()

    @classmethod
    def of(cls, refusal: Refusal) -> DeniedTool:
        """The part of a refusal that events have."""
        return cls(
            tool=refusal.shown_id,
            kind=refusal.kind,
            reason=refusal.reason,
            unlocked_by=refusal.unlocked_by,
        )


class DeniedTools(_Model):
    """How many tools are denied, and those that fit the query best."""

    count: int = 0
    nearest: tuple[DeniedTool, ...] = ()


class WrongArgument(_Model):
    """A wrong argument: its path, and what the schema expects there."""

    path: Annotated[str, BeforeValidator(_valid_text)]
    expected: Annotated[str, BeforeValidator(_valid_text)]


class Event(_Model):
    """Any recorded event. In JSON, a field that is None is left out.

    Args:
        kind: a fixed word for each class of events.
        session: id of the session; `gateway` for a server's state.
        turn: number of the turn in the session, from 1; 0 before the first. In the gateway, the
            number of searches so far.
        at: time of the decision, with time zone.

    Example:
        >>> from shortlist.session.event import ServerEvent
        >>> event = ServerEvent(server="a", state="started")
        >>> event.turn_id, '"state":"started"' in event.model_dump_json(exclude_none=True)
        ('gateway/0', True)
    """

    kind: str
    session: str
    turn: int = 0
    at: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))

    @computed_field  # type: ignore[prop-decorator]
    @property
    def turn_id(self) -> str:
        """Id of the turn, unique among all sessions: `session/turn`."""
        return f"{self.session}/{self.turn}"


class TurnEvent(Event):
    """Event: the tools that a turn offers, with the reasons.

    Args:
        query: hash of the user's message, hexadecimal; see `Recorder.hashed`.
        called: id of the tool whose result was recorded; None for a user's message.
        ok: whether that call succeeded; None for a user's message.
        searches: texts searched for.
        intents: number of intents in the message.
        context: weight of the earlier conversation, from 0 to 1.
        tier: the tier that ran; None if there was no search.
        tier_asked: the tier asked for.
        tier_reason: why another tier ran.
        catalog: fingerprint of the catalog version.
        candidates: the tools considered, best first, at most `MAX_CANDIDATES`.
        offered: ids of the offered tools, best first.
        denied: number of denied tools, and those that fit the query best.
        added: ids newly active.
        active: ids of all active tools, in the order they came.
        left: tools that are no longer active.
        changed: ids of active tools with a new definition.
        abstained: whether no tool is offered because none fits.
        reason: why it abstained.
        fits: probability that any tool fits the query; None without a decision.
        dropped: number of tools found that the tier's threshold dropped.
        head_tokens: tokens of the system prompt and the list of tools; None without a provider.
        message_tokens: tokens of all messages about tools in the conversation; None without a
            provider.
        head_is_new: whether the system prompt or the list of tools differs from the last turn's.
        levels: id to the name of the level, for each tool that the turn shows the model.
        timings: milliseconds: totals `search` and `session`, and each stage of the searches.
        warnings: active tools that a scan warns about: id to codes, never the text.
        content: `queries`, `descriptions` of candidates, and `quotes`: servers' reasons for
            excluded tools. If requested.

    Example:
        >>> from shortlist import Engine, Tool
        >>> from shortlist.session import Recorder
        >>> events = []
        >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
        >>> session = engine.session("openai", events=Recorder(events.append))
        >>> turn = session.turn("list the invoices")
        >>> events[0].kind, events[0].offered
        ('turn', ('billing/list_invoices',))
    """

    kind: Literal["turn"] = "turn"
    query: str
    called: str | None = None
    ok: bool | None = None
    searches: int = 0
    intents: int = 1
    context: Annotated[float, _rounded(3)] = 0.0
    tier: str | None = None
    tier_asked: str | None = None
    tier_reason: str | None = None
    catalog: str | None = None
    candidates: tuple[FoundTool, ...] = ()
    offered: tuple[str, ...] = ()
    denied: DeniedTools = DeniedTools()
    added: tuple[str, ...] = ()
    active: tuple[str, ...] = ()
    left: tuple[DeniedTool, ...] = ()
    changed: tuple[str, ...] = ()
    abstained: bool = False
    reason: str | None = None
    fits: Annotated[float, _rounded(4)] | None = None
    dropped: int = 0
    head_tokens: int | None = None
    message_tokens: int | None = None
    head_is_new: bool | None = None
    levels: dict[str, str] | None = None
    timings: dict[str, _Milliseconds] = {}
    warnings: dict[str, tuple[str, ...]] = {}
    content: _Content | None = None

    @property
    def prompt_tokens(self) -> dict[str, int] | None:
        """Tokens about tools in the next request: of the `head`, of `messages`; None if unknown."""
        if self.head_tokens is None or self.message_tokens is None:
            return None
        return {"head": self.head_tokens, "messages": self.message_tokens}

    @property
    def query_text(self) -> str | None:
        """The message, if events have content."""
        match self.content:
            case {"queries": [str(query), *_]}:
                return query
        return None


class CallEvent(Event):
    """Event: a call by the model: its check, and in the gateway also its outcome.

    Args:
        tool: id of the tool; for an unknown tool, the beginning of the name in the call.
        status: status of the verdict, see `Status`.
        denied: why the tool is denied.
        nearest: ids of permitted tools with a similar name, for an unknown tool.
        problems: the wrong arguments.
        ms: milliseconds the check took.
        fingerprint: fingerprint of the tool's definition, if the call passed.
        client: gateway: name of the client's profile.
        server: gateway: server of the tool; "" if there is no such tool.
        outcome: gateway: `ok`; `tool_error`, the tool answered with an error; `server_error`, the
            server did not answer or refused; `cancelled`; else the status of the check.
        ok: gateway: whether the outcome is `ok`.
        run_ms: gateway: milliseconds that the server took, None if it was not called.
        sent: gateway: characters of the arguments as JSON.
        received: gateway: characters of the result's content.
        content: `got`, the wrong arguments, and `quotes`, a server's reason for an excluded tool;
            or in the gateway `arguments` and `result`. If requested.

    Example:
        >>> from shortlist import Engine, Tool
        >>> from shortlist.session import Recorder
        >>> events = []
        >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
        >>> session = engine.session("openai", events=Recorder(events.append))
        >>> verdict = session.check("list_invoice")
        >>> events[0].status, events[0].nearest
        ('unknown', ('billing/list_invoices',))
    """

    kind: Literal["call"] = "call"
    tool: str
    status: str
    denied: DeniedTool | None = None
    nearest: tuple[str, ...] = ()
    problems: tuple[WrongArgument, ...] = ()
    ms: _Milliseconds = 0.0
    fingerprint: str | None = None
    client: str | None = None
    server: str | None = None
    outcome: str | None = None
    ok: bool | None = None
    run_ms: _Milliseconds | None = None
    sent: int | None = None
    received: int | None = None
    content: _Content | None = None

    @classmethod
    def of(
        cls,
        verdict: Verdict,
        *,
        ms: float,
        content: bool = False,
        texts: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> CallEvent:
        """The event of a verdict.

        Args:
            verdict: the result of the check.
            ms: milliseconds the check took.
            content: whether to include texts.
            texts: the texts; by default the wrong arguments and a server's reason.
            fields: the session, the turn, and in the gateway the outcome.

        Example:
            >>> from shortlist.session import CallEvent, Verdict
            >>> CallEvent.of(Verdict("unknown", "list_invoice"), ms=0.1, session="42").tool
            'list_invoice'
        """
        refusal = verdict.refusal
        if verdict.tool is not None:
            tool = verdict.tool.id
        else:
            tool = _printable_name(verdict.called_name) if refusal is None else refusal.shown_id
        if texts is None:
            texts = {"got": [problem.got for problem in verdict.problems]}
            texts |= {} if refusal is None else quotes_of([refusal])
        return cls(
            tool=tool,
            status=verdict.status,
            denied=None if refusal is None else DeniedTool.of(refusal),
            nearest=verdict.nearest,
            problems=tuple(
                WrongArgument(path=problem.path, expected=problem.expected)
                for problem in verdict.problems
            ),
            ms=ms,
            fingerprint=verdict.tool.fingerprint
            if verdict.tool is not None and verdict.status == "passed"
            else None,
            content=dict(texts) if content else None,
            **fields,
        )


class ListEvent(Event):
    """Event of the gateway: a client was given its list of tools; recorded once per session.

    Args:
        client: name of its profile.
        shown: how many tools it sees.
        tokens: tokens of their definitions.
        permitted: how many tools it may use.
        permitted_tokens: tokens of the definitions of all permitted tools.
        catalog: fingerprint of the catalog version.
    """

    kind: Literal["list"] = "list"
    client: str
    shown: int
    tokens: int
    permitted: int
    permitted_tokens: int
    catalog: str | None = None


class CatalogEvent(Event):
    """Event of the gateway: the tools of a catalog version.

    It is recorded with each profile's first list or search in the version.

    Args:
        client: name of the profile; None in files of the gateway's version 0.1.
        catalog: fingerprint of the version.
        tools: id of each tool that is not quarantined, to the tokens of its definition.
        profile_tools: ids of those tools that exist for the profile; None for all.
    """

    kind: Literal["catalog"] = "catalog"
    client: str | None = None
    catalog: str
    tools: dict[str, int]
    profile_tools: tuple[str, ...] | None = None


class SearchEvent(Event):
    """Event of the gateway: a client searched for tools.

    Args:
        client: name of its profile.
        query: hash of the query, hexadecimal; see `Recorder.hashed`.
        server: the one server searched, None for all.
        tier: the tier that ran; "" if the arguments were wrong.
        outcome: `found`, `nothing`, `abstained` or `invalid`.
        found: the tools found, best first.
        reason: why it abstained.
        starting: how many servers were not ready.
        quarantined: how many tools waited for approval.
        tokens: tokens of the answer.
        ms: milliseconds.
        content: the `query`, if requested.
    """

    kind: Literal["search"] = "search"
    client: str
    query: str
    server: str | None = None
    tier: str
    outcome: str
    found: tuple[FoundTool, ...]
    reason: str | None = None
    starting: int = 0
    quarantined: int = 0
    tokens: int
    ms: _Milliseconds
    content: _Content | None = None

    @property
    def query_text(self) -> str | None:
        """The query, if events have content."""
        query = (self.content or {}).get("query")
        return query if isinstance(query, str) else None


class DetailsEvent(Event):
    """Event of the gateway: a client asked for definitions.

    Args:
        client: name of its profile.
        found: ids of the tools described.
        denied: how many of the names are not permitted.
        unknown: how many of the names are unknown.
        tokens: tokens of the answer.
        ms: milliseconds.
    """

    kind: Literal["details"] = "details"
    client: str
    found: tuple[str, ...]
    denied: int
    unknown: int
    tokens: int
    ms: _Milliseconds


class ScriptEvent(Event):
    """Event of the gateway: a client ran a script. Its calls have events of their own.

    Args:
        client: name of its profile.
        outcome: `ok`, the kind of the error, such as `type` for one that did not start, or
            `refused` without a script or a place for it.
        calls: how many calls it made.
        received: characters of the answer.
        ms: milliseconds.
    """

    kind: Literal["script"] = "script"
    client: str
    outcome: str
    calls: int
    received: int
    ms: _Milliseconds


class ServerEvent(Event):
    """Event of the gateway: a server started, changed its list, stopped or failed.

    Args:
        server: name.
        state: its new state.
        ms: milliseconds of the start, None if it did not start now.
        tools: how many of its tools are known.
        problem: the problem without secrets, if there is one.
    """

    kind: Literal["server"] = "server"
    session: str = "gateway"
    server: str
    state: str
    ms: _Milliseconds | None = None
    tools: int = 0
    problem: str | None = None


RecordedEvent = Annotated[
    TurnEvent
    | CallEvent
    | ListEvent
    | CatalogEvent
    | SearchEvent
    | DetailsEvent
    | ScriptEvent
    | ServerEvent,
    Field(discriminator="kind"),
]
#: Reads an event of any kind.
EVENT_READER: TypeAdapter[RecordedEvent] = TypeAdapter(RecordedEvent)


def quotes_of(refusals: Iterable[Refusal]) -> dict[str, Any]:
    """The servers' reasons for tools that they exclude, if there are any."""
    quotes = {refusal.shown_id: refusal.quote for refusal in refusals if refusal.quote}
    return {"quotes": quotes} if quotes else {}


def _printable_name(name: str) -> str:
    """A name from a model, made safe for a log and a terminal."""
    return visible_line(str(name)[:_NAME_CHARACTERS])
