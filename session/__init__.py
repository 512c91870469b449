"""A conversation: what it asks for, and the tools it keeps."""

from .active import Budget, Departure
from .arguments import Problem
from .check import Verdict
from .conversation import Conversation, Message
from .session import Session
from .turn import Turn

__all__ = [
    "Budget",
    "Conversation",
    "Departure",
    "Message",
    "Problem",
    "Session",
    "Turn",
    "Verdict",
]
