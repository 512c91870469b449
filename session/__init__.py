"""Sessions: the tools, checks and events of one conversation."""

from ..catalog.arguments import ArgumentProblem
from ..gating.verdict import Verdict
from ..loaders import Departure
from .conversation import Conversation, Message
from .event import CallEvent, Event, TurnEvent
from .event_usage import RecordedUsage, usage_of_events
from .pending import Pending
from .recorder import EventSink, JsonLines, Recorder, read_events
from .session import Session
from .turn import Turn

__all__ = [
    "ArgumentProblem",
    "CallEvent",
    "Conversation",
    "Departure",
    "Event",
    "EventSink",
    "JsonLines",
    "Message",
    "Pending",
    "RecordedUsage",
    "Recorder",
    "Session",
    "Turn",
    "TurnEvent",
    "Verdict",
    "read_events",
    "usage_of_events",
]
