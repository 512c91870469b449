"""What the gateway and the adapters of frameworks do with a session beyond its public methods.

A host is code of this package whose model reads of tools elsewhere than in the session's messages:
in the gateway's answers, or in the messages that a framework keeps.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..catalog import Tool
from ..errors import RequestError
from ..gating import State
from ..gating.verdict import Verdict
from ..loaders.levels import Level
from ..view import View
from .session import Session


def accept(session: Session, verdict: Verdict, view: View, *, by_script: bool = False) -> Verdict:
    """The session's verdict on a call that `view.check` has judged; `Session.check` does both.

    Args:
        session: the conversation.
        verdict: the result of `view.check`, for the name as the host resolved it.
        view: a view that the session has just made.
        by_script: as for `Session.check`.
    """
    with session._lock:
        session._follow(view)
        return session._final_verdict(verdict, view, by_script=by_script)


def note_read(session: Session, tools: Iterable[Tool], level: Level) -> None:
    """Note that the model has read so much of tools, in a text that the session did not write."""
    with session._lock:
        session._record.read.note(tools, level)


def follow_state(session: Session, state: State) -> None:
    """Give the session the agent's present state, and keep the calls and milestones so far.

    In one step, so that no result is lost that another thread records meanwhile.
    """
    if not isinstance(state, State):
        raise RequestError(f"state: a State, not {type(state).__name__}")
    with session._lock:
        session._data.state = state.continuing(session._data.state)


def offer_again(session: Session, tool_ids: Iterable[str]) -> None:
    """Offer tools without a search, such as those of a conversation that was not saved.

    Args:
        session: the conversation.
        tool_ids: ids of the tools, the one used last at the end. Those that are not permitted now
            are left out.
    """
    with session._lock:
        view = session.view()
        session._follow(view)
        tools = [view.catalog.get(name) for name in tool_ids if view.permits(name)]
        session._record.show(view.admission, tools[::-1])
