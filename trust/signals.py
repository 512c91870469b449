"""Signals: what concepts in one sentence say together, how much each weighs and why."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Signal:
    """One reason to doubt a text.

    Args:
        name: short and stable.
        reason: for the person who decides whether the tool may be offered.
        weight: its share of what it takes to hold a tool back, see `scan.HELD_FROM`.
        needs: alternatives joined by `|`; a sentence must speak of one of each.
        unless: concepts that give the sentence an innocent reading.
    """

    name: str
    reason: str
    weight: float
    needs: tuple[str, ...]
    unless: str = ""

    def holds(self, concepts: Set[str]) -> bool:
        """Whether a sentence that speaks of these concepts gives this signal."""
        return all(
            not concepts.isdisjoint(alternatives.split("|")) for alternatives in self.needs
        ) and (not self.unless or concepts.isdisjoint(self.unless.split("|")))


_ORDERED = "agent|oblige|trigger|uses_tool|foreign_tool|imperative"
_SENSITIVE = "secret_path|secret|context|private"
_MOVES = "hand_over|send_away"

SIGNALS: Final = (
    # out of the tool's reach, and on to somewhere
    Signal("secret-path", "names a place where credentials lie", 0.3, ("secret_path",)),
    Signal(
        "off-topic",
        "wants private data or the conversation, which its purpose does not call for",
        0.5,
        ("off_topic", f"read|{_MOVES}"),
    ),
    Signal(
        "takes-secret",
        "has the model fetch credentials and hand them over",
        0.7,
        ("secret_path", _MOVES, _ORDERED),
    ),
    Signal(
        "off-topic-secret",
        "wants credentials which its purpose does not call for",
        0.5,
        ("off_topic_secret", _ORDERED, _MOVES, "slot|destination|uses_tool|foreign_tool|agent"),
    ),
    Signal(
        "describes-slot",
        "asks for private data or the conversation as a parameter",
        0.6,
        ("secret_path|context|private", "off_topic", "slot_text"),
    ),
    Signal(
        "fills-slot",
        "puts secrets, private data or the conversation into a parameter",
        0.6,
        (_SENSITIVE, _MOVES, "slot"),
    ),
    Signal(
        "sends-away",
        "sends secrets, private data or the conversation to an address",
        0.8,
        (_SENSITIVE, "send_away", "destination"),
    ),
    Signal(
        "takes-context",
        "wants the conversation, the system prompt or other tools' results",
        0.5,
        ("context", _MOVES),
    ),
    Signal(
        "reaches-private",
        "has another tool fetch secrets or private data",
        0.5,
        ("secret_path|secret|private", "uses_tool|foreign_tool", "read"),
    ),
    Signal(
        "ordered-secret",
        "demands secrets or private data",
        0.3,
        ("secret_path|secret|private", _ORDERED, f"read|{_MOVES}"),
    ),
    Signal(
        "model-takes",
        "says what secrets or private data the model takes",
        0.5,
        (_SENSITIVE, "agent", f"read|{_MOVES}"),
    ),
    # who may not know
    Signal("secrecy", "asks to keep something from the user", 0.6, ("hide",)),
    Signal("concealment", "acts behind the user's back", 1.0, ("conceal",), "defend"),
    Signal("covert", "acts unnoticed", 0.4, ("covert",), "silent_step"),
    Signal(
        "covert-order",
        "has the model act unnoticed",
        0.6,
        ("covert", f"{_ORDERED}|change|{_MOVES}"),
        "defend|silent_step",
    ),
    Signal("no-consent", "does away with the user's consent", 0.6, ("no_consent",), "asks_consent"),
    Signal("against-user", "goes against what the user asked for", 0.6, ("against_user",)),
    Signal(
        "not-as-asked", "orders other than what the user asked for", 0.4, ("against_user", _ORDERED)
    ),
    # who comes first
    Signal("override", "overrides the model's instructions", 1.0, ("override",), "defend"),
    Signal(
        "quoted-override", "holds words that override instructions", 0.4, ("override", "defend")
    ),
    Signal("standing-order", "gives an order that outlasts the call", 0.5, ("standing",)),
    Signal("addresses-model", "gives the model an order", 0.3, ("agent", "oblige")),
    Signal(
        "precedence",
        "puts itself before other tools or every request",
        0.4,
        ("trigger", "universal|other_tools", "oblige|self"),
    ),
    Signal(
        "gatekeeper",
        "wants to be given whatever other tools handle",
        0.4,
        ("universal|other_tools", "hand_over|prefer", "self"),
    ),
    Signal(
        "gate",
        "forbids other work until it was called",
        0.5,
        ("gate", "universal|other_tools|agent|authority"),
    ),
    Signal(
        "authority",
        "claims a policy, a check or a habit as its ground",
        0.4,
        ("authority", _ORDERED, f"universal|other_tools|agent|{_SENSITIVE}|destination|gate"),
    ),
    Signal(
        "threat",
        "says what goes wrong otherwise",
        0.3,
        ("threat", f"universal|other_tools|agent|foreign_tool|uses_tool|{_SENSITIVE}|command|gate"),
    ),
    Signal("prescribes", "rules on what happens elsewhere", 0.4, ("situation", "normative")),
    Signal("rules-all", "rules on every thing of a kind", 0.3, ("each_thing", "normative")),
    Signal(
        "others-results",
        "handles what other tools gave",
        0.4,
        ("from_tools", f"normative|{_MOVES}|imperative"),
    ),
    Signal(
        "rules-others",
        "rules on what other tools give or take",
        0.4,
        ("from_tools", "redirect|tamper"),
    ),
    Signal("replaces", "claims the place of other tools", 0.8, ("replaces_tools",)),
    Signal(
        "unsafe-setting",
        "asks for an unsafe setting",
        0.5,
        ("unsafe_flag", "normative|imperative|agent|situation|foreign_tool"),
    ),
    Signal("model-acts", "tells what the model does besides calling it", 0.5, ("agent_acts",)),
    Signal("rules-tool", "rules on another tool", 0.5, ("ruled_tool",)),
    Signal(
        "chains-tools",
        "has several other tools called",
        0.3,
        ("several_tools", "situation|normative|imperative|trigger"),
    ),
    Signal(
        "replaces-private",
        "puts private data in the place of something",
        0.5,
        (_SENSITIVE, "redirect|tamper", "normative|each_thing"),
    ),
    Signal("yields", "has the model take orders from elsewhere", 0.8, ("yields",)),
    Signal("belittles", "speaks ill of other tools", 1.0, ("belittle",)),
    Signal("preferred", "wants to be taken before other tools", 0.7, ("prefer", "other_tools")),
    Signal("for-everything", "wants every request", 0.6, ("prefer", "whatever", "oblige|self")),
    # what becomes of other tools
    Signal(
        "shadows",
        "dictates how another tool is called",
        0.4,
        ("foreign_tool", "trigger|universal", "oblige|redirect|send_away"),
    ),
    Signal(
        "redirects",
        "changes where something goes or how much of it",
        0.6,
        ("redirect", "foreign_tool|universal|against_user|other_tools|tamper"),
    ),
    Signal("fixed-destination", "fixes an address for it", 0.6, ("redirect", "destination")),
    Signal(
        "tampers",
        "falsifies what a person or another tool has given",
        0.5,
        ("tamper", "oblige|imperative|universal|foreign_tool"),
    ),
    Signal(
        "copies-to",
        "sends to an address of its own",
        0.6,
        (
            _MOVES,
            "destination",
            "universal|foreign_tool|uses_tool|authority|other_tools|agent|agent_acts",
        ),
    ),
    Signal("bare-host", "names a host by its number, or an open query", 0.4, ("bare_host",)),
    Signal(
        "hijacks",
        "wants to be called in another tool's place",
        0.2,
        ("foreign_tool", "prefer", "self|oblige"),
    ),
    # harm by itself
    Signal(
        "destroys",
        "has other tools destroy data",
        0.6,
        ("destroy", "uses_tool|foreign_tool|agent|other_tools|authority|situation"),
    ),
    Signal(
        "exposes",
        "opens data or rights to others",
        0.6,
        ("expose", "uses_tool|foreign_tool|agent|universal|other_tools|authority"),
    ),
    Signal(
        "off-topic-file",
        "has the model handle a file its purpose does not call for",
        0.4,
        ("off_topic_file", _ORDERED, f"read|change|{_MOVES}"),
    ),
    Signal("command", "holds a dangerous command", 0.5, ("command",)),
    Signal(
        "runs-command",
        "has the model run a dangerous command",
        0.6,
        ("command", "execute|change", _ORDERED),
    ),
    Signal(
        "persists",
        "changes files that act again later",
        0.7,
        ("persist", "change", f"{_ORDERED}|universal|destination|covert"),
    ),
    Signal("start-up-file", "names a file that acts again later", 0.3, ("persist",)),
    Signal("disables", "turns a protection off", 0.5, ("disable",)),
    Signal("malice", "says that it does harm", 1.0, ("malice",), "defend"),
    # form
    Signal("chat-markup", "imitates the markup of a chat", 1.0, ("chat_markup",)),
    Signal("markup", "imitates the markup of a system message", 0.6, ("markup",)),
    Signal("comment", "hides text in a comment", 0.5, ("comment",)),
)
"""All signals. Weights were set by hand and by the benign tools of the training sets."""
