"""Recorded events: tools offered, what the model reads of them, and checks of calls.

Events have no text of messages or of descriptions, unless `content` is requested. For a denied tool
they have only the id, the reason, and the tools that unlock it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ..catalog.text_cleaning import visible_line
from ..retrieval import Hit
from ..retrieval.refusal import Refusal

if TYPE_CHECKING:
    from ..gating.verdict import Verdict
    from ..loaders import Shown
    from .turn import Turn


#: Candidates an event names, best first.
MAX_CANDIDATES = 20
#: Fields of events that are no keys of their own in the JSON form, and decimals of others.
_FIELDS_LEFT_OUT = frozenset(("origin", "refusals", "content"))
_DECIMALS = {"context": 3, "fits": 4, "timings": 3, "ms": 3}
#: Characters of a name that a model made up.
_NAME_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class EventOrigin:
    """Where and when a decision was made.

    Args:
        session: id of the session.
        turn: number of the turn in the session, from 1; 0 before the first.
        at: time of the decision, with time zone.
    """

    session: str
    turn: int
    at: datetime

    @classmethod
    def now(cls, session: str, turn: int) -> EventOrigin:
        """The origin of a decision made now."""
        return cls(session, turn, datetime.now(UTC))

    @property
    def turn_id(self) -> str:
        """Id of the turn, unique among all sessions: `session/turn`."""
        return f"{self.session}/{self.turn}"

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "turn_id": self.turn_id,
            "session": self.session,
            "turn": self.turn,
            "at": self.at.isoformat(timespec="milliseconds"),
        }


@dataclass(frozen=True, slots=True)
class DeniedTool:
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
        return cls(refusal.shown_id, refusal.kind, refusal.reason, refusal.unlocked_by)

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        form: dict[str, Any] = {"tool": self.tool, "kind": self.kind, "reason": self.reason}
        return form | ({"unlocked_by": list(self.unlocked_by)} if self.unlocked_by else {})


@dataclass(frozen=True, slots=True)
class TurnEvent:
    """Event: the tools that a turn offers, with the reasons.

    Args:
        origin: session, turn and time.
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
        candidates: id and score of the tools considered, best first, at most `MAX_CANDIDATES`.
        offered: ids of the offered tools, best first.
        denied: number of denied tools.
        refusals: the denied tools that fit the query best.
        added: ids newly active.
        active: ids of all active tools, in the order they came.
        left: tools that are no longer active.
        changed: ids of active tools with a new definition.
        abstained: whether no tool is offered because none fits.
        reason: why it abstained.
        fits: probability that any tool fits the query; None without a decision.
        dropped: number of tools found that the tier's threshold dropped.
        tokens: tokens of all text about tools in the prompt; None without a provider.
        timings: milliseconds: totals `search` and `session`, and each stage of the searches.
        content: queries, descriptions of candidates, and servers' reasons for excluded tools, if
            requested.
        warnings: active tools that a scan warns about: id to codes, never the text.

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

    kind: ClassVar[str] = "turn"

    origin: EventOrigin
    query: str
    called: str | None
    ok: bool | None
    searches: int
    intents: int
    context: float
    tier: str | None
    tier_asked: str | None
    tier_reason: str | None
    catalog: str | None
    candidates: tuple[tuple[str, float], ...]
    offered: tuple[str, ...]
    denied: int
    refusals: tuple[DeniedTool, ...]
    added: tuple[str, ...]
    active: tuple[str, ...]
    left: tuple[DeniedTool, ...]
    changed: tuple[str, ...]
    abstained: bool
    reason: str | None
    fits: float | None
    dropped: int
    tokens: int | None
    timings: Mapping[str, float]
    content: Mapping[str, Any] | None = None
    warnings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, turn: Turn, origin: EventOrigin, *, query: str, content: bool = False) -> TurnEvent:
        """The event of a turn.

        Args:
            turn: the result of the turn.
            origin: session, turn and time.
            query: hash of the message.
            content: whether to include texts.

        Example:
            >>> from shortlist import Engine, Tool
            >>> from shortlist.session import TurnEvent
            >>> from shortlist.session.event import EventOrigin
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
            >>> turn = engine.session().turn("list the invoices")
            >>> TurnEvent.of(turn, EventOrigin.now("42", turn.number), query="").offered
            ('billing/list_invoices',)
        """
        results = turn.results
        first_selection = results.selections[0] if results.selections else None
        candidates = results.ranked[:MAX_CANDIDATES]
        refusals = first_selection.denied.nearest() if first_selection else ()
        stages: dict[str, float] = dict(turn.timings)
        for selection in results.selections:
            for stage, ms in selection.timings.items():
                name = f"search.{stage}"
                stages[name] = stages.get(name, 0.0) + ms
        return cls(
            origin=origin,
            query=query,
            called=turn.called,
            ok=turn.ok,
            searches=len(results.selections),
            intents=len(results.intents) or 1,
            context=results.context_weight,
            tier=first_selection.tier if first_selection else None,
            tier_asked=first_selection.tier_asked if first_selection else None,
            tier_reason=first_selection.tier_reason if first_selection else None,
            catalog=first_selection.catalog if first_selection else None,
            candidates=tuple((hit.id, hit.score) for hit in candidates),
            offered=turn.ids,
            denied=len(first_selection.denied) if first_selection else 0,
            refusals=tuple(map(DeniedTool.of, refusals)),
            added=turn.added,
            active=turn.active,
            left=tuple(
                DeniedTool(departure.tool_id, departure.kind, departure.reason)
                for departure in turn.left
            ),
            changed=turn.changed,
            abstained=turn.abstained,
            reason=turn.reason,
            fits=turn.fits,
            dropped=len(results.merged_selection.dropped),
            tokens=None if turn.shown is None else turn.shown.tokens,
            timings=stages,
            content=_query_texts(results.queries, candidates) | _quotes(refusals)
            if content
            else None,
            warnings=turn.warnings,
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return _event_form(
            self,
            candidates=[
                {"id": tool_id, "score": rounded(score)} for tool_id, score in self.candidates
            ],
            denied={
                "count": self.denied,
                "nearest": [refusal.to_dict() for refusal in self.refusals],
            },
        )


@dataclass(frozen=True, slots=True)
class CallEvent:
    """Event: the check of a call by the model.

    Args:
        origin: session, last turn before the call, and time.
        tool: id of the tool; for an unknown tool, the beginning of the name in the call.
        status: status of the verdict, see `Status`.
        denied: why the tool is denied.
        nearest: ids of permitted tools with a similar name, for an unknown tool.
        problems: path and expected value of each wrong argument.
        ms: milliseconds the check took.
        fingerprint: fingerprint of the tool's definition, if the call passed.
        content: wrong arguments, and a server's reason for an excluded tool, if requested.

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

    kind: ClassVar[str] = "call"

    origin: EventOrigin
    tool: str
    status: str
    denied: DeniedTool | None
    nearest: tuple[str, ...]
    problems: tuple[tuple[str, str], ...]
    ms: float
    fingerprint: str | None = None
    content: Mapping[str, Any] | None = None

    @classmethod
    def of(
        cls, verdict: Verdict, origin: EventOrigin, *, ms: float, content: bool = False
    ) -> CallEvent:
        """The event of a verdict.

        Args:
            verdict: the result of the check.
            origin: session, turn and time.
            ms: milliseconds the check took.
            content: whether to include wrong arguments.

        Example:
            >>> from shortlist.session import CallEvent, Verdict
            >>> from shortlist.session.event import EventOrigin
            >>> origin = EventOrigin.now("42", 1)
            >>> CallEvent.of(Verdict("unknown", "list_invoice"), origin, ms=0.1).tool
            'list_invoice'
        """
        refusal = verdict.refusal
        if verdict.tool is not None:
            tool = verdict.tool.id
        else:
            tool = _printable_name(verdict.called_name) if refusal is None else refusal.shown_id
        details: dict[str, Any] = {"got": [problem.got for problem in verdict.problems]}
        if refusal is not None:
            details |= _quotes([refusal])
        return cls(
            origin=origin,
            tool=tool,
            status=verdict.status,
            denied=None if refusal is None else DeniedTool.of(refusal),
            nearest=verdict.nearest,
            problems=tuple((problem.path, problem.expected) for problem in verdict.problems),
            ms=ms,
            fingerprint=verdict.tool.fingerprint
            if verdict.tool is not None and verdict.status == "passed"
            else None,
            content=details if content else None,
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        problems = [{"path": path, "expected": expected} for path, expected in self.problems]
        return _event_form(self, problems=problems)


@dataclass(frozen=True, slots=True)
class PromptEvent:
    """Event: what a turn shows the model of its tools.

    Args:
        origin: session, turn and time.
        head_tokens: tokens of the system prompt and the list of tools.
        message_tokens: tokens of all messages about tools in the conversation.
        head_is_new: whether the system prompt or the list of tools differs from the last turn's.
        levels: id to the name of the level, for each tool that the turn shows.
        missing: id to reason, for each tool whose definition could not be loaded.

    Example:
        >>> from shortlist import Engine, Tool
        >>> from shortlist.session import Recorder
        >>> events = []
        >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
        >>> session = engine.session("openai", events=Recorder(events.append))
        >>> turn = session.turn("list the invoices")
        >>> events[1].kind, events[1].head_tokens > 0
        ('prompt', True)
    """

    kind: ClassVar[str] = "prompt"

    origin: EventOrigin
    head_tokens: int
    message_tokens: int
    head_is_new: bool = False
    levels: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, shown: Shown, origin: EventOrigin) -> PromptEvent:
        """The event of what a turn shows.

        Example:
            >>> from shortlist import Engine, Tool
            >>> from shortlist.session import PromptEvent
            >>> from shortlist.session.event import EventOrigin
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
            >>> turn = engine.session("openai").turn("list the invoices")
            >>> PromptEvent.of(turn.shown, EventOrigin.now("42", turn.number)).head_tokens > 0
            True
        """
        return cls(
            origin=origin,
            head_tokens=shown.head_tokens,
            message_tokens=shown.message_tokens,
            head_is_new=shown.head_is_new,
            levels={tool_id: level.label for tool_id, level in shown.levels.items()},
            missing={definition.tool_id: definition.reason for definition in shown.missing},
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return _event_form(self)


class Event(Protocol):
    """Any recorded event, of a session or of the gateway."""

    kind: ClassVar[str]

    @property
    def origin(self) -> EventOrigin: ...  # noqa: D102
    def to_dict(self) -> dict[str, Any]: ...  # noqa: D102


def rounded(value: float | None, digits: int = 6) -> float | None:
    """A number for JSON: rounded; None if it is infinite or not a number."""
    return None if value is None or not math.isfinite(value) else round(value, digits)


def json_value(value: Any, digits: int) -> Any:
    """A field in its JSON form; numbers in it are rounded."""
    if isinstance(value, DeniedTool):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {key: json_value(item, digits) for key, item in value.items()}
    if isinstance(value, tuple):
        return [json_value(item, digits) for item in value]
    return rounded(value, digits) if isinstance(value, float) else value


def _event_form(event: TurnEvent | CallEvent | PromptEvent, **replaced: Any) -> dict[str, Any]:
    """JSON form of an event: its fields, numbers rounded, with some of them replaced."""
    form = {"kind": event.kind, **event.origin.to_dict()}
    for event_field in fields(event):
        if event_field.name not in _FIELDS_LEFT_OUT:
            form[event_field.name] = json_value(
                getattr(event, event_field.name), _DECIMALS.get(event_field.name, 6)
            )
    content = getattr(event, "content", None)
    return form | replaced | ({} if content is None else {"content": dict(content)})


def _query_texts(queries: tuple[str, ...], hits: tuple[Hit, ...]) -> dict[str, Any]:
    return {
        "queries": list(queries),
        "descriptions": {hit.id: hit.tool.description for hit in hits},
    }


def _quotes(refusals: Iterable[Refusal]) -> dict[str, Any]:
    quotes = {refusal.shown_id: refusal.quote for refusal in refusals if refusal.quote}
    return {"quotes": quotes} if quotes else {}


def _printable_name(name: str) -> str:
    """A name from a model, made safe for a log and a terminal."""
    return visible_line(str(name)[:_NAME_CHARACTERS])
