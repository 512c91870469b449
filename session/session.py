"""A conversation's tools, from turn to turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from threading import RLock
from time import perf_counter
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from ..catalog import Catalog, Tool
from ..errors import RequestError
from ..gating import Admission, State, Votes
from .active import Active, Budget, Departure
from .arguments import problems
from .check import Verdict, unresolved
from .closing import asks_nothing
from .conversation import CONTEXT_CHARS, Conversation, Message
from .deciding import Decides, Offer, offer
from .finding import find
from .turn import Turn

if TYPE_CHECKING:
    from ..engine import Engine
    from .events import Recorder

_VERSION = 1
#: Weight of the search that reads an observation, beside the one for the request alone.
_OBSERVED = 0.5


class Session:
    """A conversation and the tools it holds. Safe to use from several threads.

    The active tools are appended to and never reordered; one leaves only at the start of a turn:
    to keep the budget, or because it is gone from the catalog or held back by the gate.

    Args:
        engine: searched, and asked what may be used.
        state: what the agent holds; nothing when absent.
        tier: name of the tier that searches, the engine's default when absent.
        k: tools found per turn at most, the engine's number when absent.
        decider: abstains where nothing fits.
        cut: whether the decider also says how many tools are offered, at most `k`; if not, `k` are.
        budget: what the active tools may amount to.
        pinned: ids of tools that are active from the first turn on and never evicted.
        standing: ids of tools whose arguments always stand in the prompt, see `Prompt.standing`: a
            call of one that fits passes although no turn has offered it.
        events: is told of every turn and every check.
        session_id: names the session in events; random when absent.

    Raises:
        RequestError: an argument of the wrong type or out of range, or no such tier.
        UnknownToolError: no such pinned tool.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        state: State | None = None,
        tier: str | None = None,
        k: int | None = None,
        decider: Decides | None = None,
        cut: bool = False,
        budget: Budget | None = None,
        pinned: Iterable[str] = (),
        standing: Iterable[str] = (),
        events: Recorder | None = None,
        session_id: str | None = None,
    ) -> None:
        if tier is not None and tier not in engine.tiers:
            raise RequestError(f"tier: no {tier!r}; there are: {', '.join(engine.tiers)}")
        if k is not None and (isinstance(k, bool) or not isinstance(k, int) or k < 1):
            raise RequestError(f"k: {k!r}; a whole number of tools, at least 1")
        self.id = uuid4().hex if session_id is None else session_id
        self._events = events
        self._engine = engine
        self._tier = tier
        self._k = engine.config.k if k is None else k
        self._decider = decider
        self._cut = cut
        self._budget = Budget() if budget is None else budget
        self._state = State() if state is None else state
        self._conversation = Conversation()
        self._turn = 0
        self._called: tuple[str, ...] = ()
        self._active = Active()
        self._lock = RLock()
        self._pinned = tuple(pinned)
        self._standing = frozenset(standing)
        for tool_id in self._pinned:
            engine.catalog.get(tool_id)

    @property
    def state(self) -> State:
        """What the agent holds; assigned anew, it counts from the next turn or check on."""
        return self._state

    @state.setter
    def state(self, state: State) -> None:
        if not isinstance(state, State):
            raise RequestError(f"state: a State, not {type(state).__name__}")
        with self._lock:
            self._state = state

    @property
    def standing(self) -> frozenset[str]:
        """Ids of tools whose arguments stand in the prompt; `Prompt.standing` after each turn."""
        return self._standing

    @standing.setter
    def standing(self, ids: Iterable[str]) -> None:
        with self._lock:
            self._standing = frozenset(ids)

    @property
    def active(self) -> tuple[str, ...]:
        """Ids of the active tools, in the order they came."""
        with self._lock:
            return self._active.ids

    @property
    def conversation(self) -> Conversation:
        """What was said, as far as it is remembered."""
        return self._conversation

    def turn(
        self,
        messages: str | Iterable[Mapping[str, Any] | Message],
        *,
        allowed: Iterable[str] | None = None,
        votes: Votes | None = None,
    ) -> Turn:
        """Find the tools for what the user says.

        Args:
            messages: what the user says, added to the conversation; or the whole conversation up
                to what the user says, in place of what is remembered.
            allowed: ids this turn may use, all when absent.
            votes: what servers say of their tools for this turn.

        Raises:
            RequestError: no text and no messages, or the user says nothing in them.
        """
        with self._lock:
            if isinstance(messages, str):
                said = self._conversation.extended([Message("user", messages.strip())])
                if not messages.strip():
                    raise RequestError("messages: the user says nothing")
            else:
                said = Conversation.of(messages)
                if not said.request:
                    raise RequestError("messages: none with words is from the user")
            self._conversation = said
            return self._taken(said.in_context, None, allowed, votes)

    def observe(
        self,
        tool_id: str,
        text: str,
        *,
        allowed: Iterable[str] | None = None,
        votes: Votes | None = None,
    ) -> Turn:
        """Look again after a tool was called and answered.

        Args:
            tool_id: the tool; it counts as called.
            text: what it answered; its beginning is read beside the request.
            allowed: ids this turn may use, all when absent.
            votes: what servers say of their tools for this turn.

        Raises:
            RequestError: the text is none, or nothing was asked yet.
        """
        if not isinstance(text, str):
            raise RequestError(f"text: what the tool answered, not {type(text).__name__}")
        with self._lock:
            request = self._conversation.request
            if not request:
                raise RequestError("observe: nothing was asked yet; start with `turn`")
            self._mark_called(tool_id)
            seen = text.strip()[:CONTEXT_CHARS]
            within = f"{request}\n{seen}" if seen else request
            return self._taken(within, _OBSERVED, allowed, votes, called=tool_id)

    def answered(self, text: str) -> None:
        """Remember what the assistant said, so that a follow-up can be understood from it."""
        with self._lock:
            self._conversation = self._conversation.extended([Message("assistant", text.strip())])

    def check(
        self,
        name: str,
        arguments: object = None,
        *,
        allowed: Iterable[str] | None = None,
        votes: Votes | None = None,
    ) -> Verdict:
        """Whether a call the model wants to make may go ahead, and if not, what would mend it.

        A tool that may be used but was not offered is made active, and the verdict carries its
        schema. A call that passes counts as made.

        Args:
            name: id of a tool, or a name that only one has.
            arguments: the call's; None where the call has none.
            allowed: ids that may be used, all when absent.
            votes: what servers say of their tools for this turn.
        """
        start = perf_counter()
        with self._lock:
            admission = self._engine.admission(self._state, allowed=allowed, votes=votes)
            verdict = self._checked(admission, name, arguments)
            if self._events is not None:
                took = (perf_counter() - start) * 1e3
                self._events.call(self.id, self._turn, verdict, ms=took)
            return verdict

    def to_dict(self) -> dict[str, Any]:
        """JSON form: everything but the engine, the decider and the budget's cost function."""
        with self._lock:
            return {
                "version": _VERSION,
                "id": self.id,
                "tier": self._tier,
                "k": self._k,
                "cut": self._cut,
                "turn": self._turn,
                "called": list(self._called),
                "budget": {"tools": self._budget.tools, "tokens": self._budget.tokens},
                "state": self._state.to_dict(),
                "messages": self._conversation.to_dict(),
                "active": self._active.to_dict(),
                "pinned": list(self._pinned),
                "standing": sorted(self._standing),
            }

    @classmethod
    def from_dict(
        cls,
        engine: Engine,
        values: Mapping[str, Any],
        *,
        decider: Decides | None = None,
        budget: Budget | None = None,
        events: Recorder | None = None,
    ) -> Self:
        """A session from its JSON form.

        Args:
            engine: where it goes on; its catalog may be another version.
            values: what `to_dict` gave.
            decider: as for a new session.
            budget: in place of the saved one; needed where that counts tokens, as its cost
                function is not saved.
            events: as for a new session.

        Raises:
            RequestError: it is damaged or of another version.
        """
        if not isinstance(values, Mapping) or values.get("version") != _VERSION:
            raise RequestError(f"session: no saved session of version {_VERSION}")
        try:
            saved = values["budget"]
            session = cls(
                engine,
                state=State.from_dict(values["state"]),
                tier=values["tier"],
                k=values["k"],
                cut=bool(values["cut"]),
                decider=decider,
                events=events,
                session_id=str(values["id"]),
                budget=budget or Budget(saved["tools"], saved["tokens"]),
            )
            session._conversation = Conversation.of(values["messages"])
            session._active = Active.from_dict(values["active"])
            session._turn = int(values["turn"])
            session._called = tuple(map(str, values["called"]))
            session._pinned = tuple(map(str, values["pinned"]))
            session._standing = frozenset(map(str, values.get("standing", ())))
        except (KeyError, TypeError, ValueError) as error:
            raise RequestError(f"session: damaged: {error!r}") from error
        return session

    def _taken(
        self,
        in_context: str,
        context: float | None,
        allowed: Iterable[str] | None,
        votes: Votes | None,
        called: str | None = None,
    ) -> Turn:
        """One turn: search, decide, and settle what is active."""
        start = perf_counter()
        admission = self._engine.admission(self._state, allowed=allowed, votes=votes)
        request, found = self._conversation.request, None
        if called is None and asks_nothing(request, self._conversation.answered):
            offered = Offer((), True, "the user asks for nothing more")
        else:
            found = find(
                self._engine,
                request,
                in_context,
                admission=admission,
                tier=self._tier,
                k=self._k,
                context=context,
                called=self._called,
            )
            offered = offer(found, self._decider, self._k, cut=self._cut)
        self._turn += 1
        if called is None:
            self._called = ()
        left, changed, added = self._settled(admission, [hit.tool for hit in offered.hits], called)
        search_ms = found.search_ms if found else 0.0
        turn = Turn(
            number=self._turn,
            queries=found.queries if found else (request,),
            selections=found.selections if found else (),
            hits=offered.hits,
            ranked=found.merged.hits if found else (),
            called=called,
            intents=found.intents if found else (),
            context=found.context if found else 0.0,
            added=added,
            active=self._active.ids,
            left=left,
            changed=changed,
            abstained=offered.abstained,
            reason=offered.reason,
            fits=offered.fits,
            cut=offered.cut,
            tokens=self._tokens(admission.index.catalog),
            timings={"search": search_ms, "session": (perf_counter() - start) * 1e3 - search_ms},
        )
        if self._events is not None:
            self._events.turn(self.id, turn)
        return turn

    def _checked(self, admission: Admission, name: str, arguments: object) -> Verdict:
        found = admission.resolve(name)
        if not isinstance(found, Tool):
            return unresolved(name, found)
        given = {} if arguments is None else arguments
        wrong = problems(found.input_schema or {}, given)
        if found.id not in self._active and (wrong or found.id not in self._standing):
            self._active.append([found], self._turn)
            return Verdict("promoted", name, found)
        if wrong:
            return Verdict("invalid", name, found, problems=wrong)
        self._active.append([found], self._turn)
        self._mark_called(found.id)
        return Verdict("passed", name, found)

    def _mark_called(self, tool_id: str) -> None:
        self._state = self._engine.after_call(self._state, tool_id)
        self._called = tuple(dict.fromkeys((*self._called, tool_id)))

    def _settled(
        self, admission: Admission, wanted: list[Tool], called: str | None
    ) -> tuple[tuple[Departure, ...], tuple[str, ...], tuple[str, ...]]:
        """Follow the catalog and the gate, keep the budget, append; who left, changed, came."""
        catalog, turn = admission.index.catalog, self._turn
        gone, changed = self._active.settle(admission)
        pinned = [catalog.get(tool_id) for tool_id in self._pinned if admission.admits(tool_id)]
        came = self._active.append(pinned, turn, pinned=True)
        if called is not None and called in self._active:
            self._active.append([catalog.get(called)], turn)
        evicted, fitting = self._active.make_room(wanted, self._budget, catalog, turn - 1)
        return gone + evicted, changed, came + self._active.append(fitting, turn)

    def _tokens(self, catalog: Catalog) -> int | None:
        if self._budget.cost is None:
            return None
        return sum(self._budget.spent(catalog.get(tool_id)) for tool_id in self._active.ids)
