"""Signals: what concepts in one sentence say together, how much each weighs and why."""

from __future__ import annotations

from typing import Final

from .signal import Signal

_ORDERED = "agent|oblige|trigger|uses_tool|foreign_tool|imperative"
_SENSITIVE = "secret_path|secret|context|private"
_MOVES = "hand_over|send_away"

SIGNALS: Final = (
    # out of the tool's reach, and on to somewhere
    Signal("secret-path", "names a place where credentials lie", 0.2, ("secret_path",)),
    Signal(
        "off-topic",
        "wants private data or the conversation, which its purpose does not call for",
        0.55,
        ("off_topic", f"read|{_MOVES}"),
    ),
    Signal(
        "takes-secret",
        "has the model fetch credentials and hand them over",
        0.6,
        ("secret_path", _MOVES, _ORDERED),
    ),
    Signal(
        "off-topic-secret",
        "wants credentials which its purpose does not call for",
        0.6,
        ("off_topic_secret", _ORDERED, _MOVES, "slot|destination|uses_tool|foreign_tool|agent"),
    ),
    Signal(
        "describes-slot",
        "asks for private data or the conversation as a parameter",
        0.65,
        ("secret_path|context|private", "off_topic", "slot_text"),
    ),
    Signal(
        "fills-slot",
        "puts secrets, private data or the conversation into a parameter",
        0.3,
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
        0.15,
        ("context", _MOVES),
        "usage",
    ),
    Signal(
        "reaches-private",
        "has another tool fetch secrets or private data",
        0.35,
        ("secret_path|secret|private", "uses_tool|foreign_tool", "read"),
    ),
    Signal(
        "ordered-secret",
        "demands secrets or private data",
        0.1,
        ("secret_path|secret|private", _ORDERED, f"read|{_MOVES}"),
    ),
    Signal(
        "model-takes",
        "says what secrets or private data the model takes",
        0.3,
        (_SENSITIVE, "agent", f"read|{_MOVES}"),
    ),
    # who may not know
    Signal("secrecy", "asks to keep something from the user", 0.35, ("hide",)),
    Signal("concealment", "acts behind the user's back", 0.9, ("conceal",), "defend"),
    Signal("covert", "acts unnoticed", 0.35, ("covert",), "silent_step"),
    Signal(
        "covert-order",
        "has the model act unnoticed",
        0.6,
        ("covert", f"{_ORDERED}|change|{_MOVES}"),
        "defend|silent_step",
    ),
    Signal(
        "no-consent",
        "does away with the user's consent",
        0.5,
        (
            "no_consent",
            "oblige|imperative|normative|agent|acts|is_acted|foreign_tool|other_tools|owned|"
            "situation|foreign_name",
        ),
        "asks_consent",
    ),
    Signal("against-user", "goes against what the user asked for", 0.8, ("against_user",)),
    Signal(
        "not-as-asked",
        "orders other than what the user asked for",
        0.25,
        ("against_user", _ORDERED),
    ),
    # what the model is to say and whom it is to obey
    Signal(
        "dictates",
        "dictates what the model says",
        0.5,
        ("says", "oblige|imperative|trigger|despite|agent"),
    ),
    Signal(
        "despite",
        "wants it whatever the facts are or the user says",
        0.55,
        ("despite", "says|oblige|imperative|rules_replies|left_out|redirect|tamper"),
    ),
    Signal("rules-replies", "rules on every reply", 0.4, ("rules_replies",)),
    Signal("left-out", "has something left out of the reply", 0.6, ("left_out",), "hide"),
    Signal("unbound", "frees the model of its rules", 1.0, ("unbound",), "defend"),
    Signal("obeys", "has found text obeyed, or obeys none but itself", 0.8, ("obeys",), "defend"),
    Signal("endless", "goes on without end or spreads", 0.85, ("endless", "oblige|imperative")),
    Signal("speaks-to-model", "speaks to the model, not of the tool", 0.4, ("to_model",), "markup"),
    Signal(
        "first-person",
        "speaks as somebody",
        0.3,
        ("us", "normative|imperative|hand_over"),
        "illustrates",
    ),
    Signal(
        "fixes-value",
        "fixes a value of what is elsewhere",
        0.2,
        ("fixed_value", "situation|foreign_tool|other_tools|universal|each_thing|against_user"),
        "illustrates",
    ),
    Signal(
        "own-address",
        "names an address in an order",
        0.1,
        ("destination", "normative|imperative"),
        "illustrates",
    ),
    Signal(
        "act-with",
        "orders an act with another tool",
        0.2,
        ("foreign_name|other_tools|uses_tool", "acts|is_acted"),
        "learns|usage|own_server|own_call",
    ),
    Signal(
        "act-on-owned",
        "orders an act on what is the user's",
        0.1,
        ("owned|person", "acts|is_acted", "hand_over|send_away|read|change"),
    ),
    Signal(
        "act-elsewhere",
        "orders an act at another time",
        0.1,
        ("situation|universal|each_thing|from_tools|standing", "acts|is_acted", "elsewhere"),
        "usage|own_server|own_call",
    ),
    Signal(
        "act-to-address",
        "orders an act with an address",
        0.6,
        ("destination|expose|command", "acts|is_acted|imperative"),
        "illustrates",
    ),
    Signal(
        "act-of-model",
        "orders the model to act",
        0.4,
        ("agent|agent_acts", "acts|is_acted"),
        "usage",
    ),
    Signal(
        "act-then-slot",
        "has something fetched and put into a parameter",
        0.35,
        ("owned|foreign_name|private|context|secret|secret_path|path", "read", "hand_over", "slot"),
    ),
    Signal("owned-ruled", "rules on what is the user's", 0.15, ("owned", "normative|imperative")),
    # who comes first
    Signal("override", "overrides the model's instructions", 0.9, ("override",), "defend"),
    Signal(
        "quoted-override", "holds words that override instructions", 0.25, ("override", "defend")
    ),
    Signal(
        "standing-order",
        "gives an order that outlasts the call",
        0.55,
        ("standing", "normative|oblige|imperative|agent|acts"),
    ),
    Signal(
        "addresses-model",
        "gives the model an order",
        0.1,
        ("agent", "oblige"),
        "usage",
    ),
    Signal(
        "precedence",
        "puts itself before other tools or every request",
        0.1,
        ("trigger", "universal|other_tools", "oblige|self"),
        "own_server",
    ),
    Signal(
        "gatekeeper",
        "wants to be given whatever other tools handle",
        0.3,
        ("universal|other_tools", "hand_over|prefer", "self"),
        "own_server",
    ),
    Signal(
        "gate",
        "forbids other work until it was called",
        0.85,
        ("gate", "universal|other_tools|agent|authority"),
        "own_server",
    ),
    Signal(
        "authority",
        "claims a policy, a check or a habit as its ground",
        0.6,
        ("authority", _ORDERED, f"universal|other_tools|agent|{_SENSITIVE}|destination|gate"),
        "usage|own_server",
    ),
    Signal(
        "threat",
        "says what goes wrong otherwise",
        0.45,
        ("threat", f"universal|other_tools|agent|foreign_tool|uses_tool|{_SENSITIVE}|command|gate"),
        "own_call",
    ),
    Signal(
        "prescribes",
        "rules on what happens elsewhere",
        0.25,
        ("situation", "normative"),
        "usage|own_call",
    ),
    Signal("rules-all", "rules on every thing of a kind", 0.25, ("each_thing", "normative")),
    Signal(
        "others-results",
        "handles what other tools gave",
        0.45,
        ("from_tools", f"normative|{_MOVES}|imperative"),
        "usage|learns",
    ),
    Signal(
        "rules-others",
        "rules on what other tools give or take",
        0.4,
        ("from_tools", "redirect|tamper"),
    ),
    Signal("replaces", "claims the place of other tools", 1.0, ("replaces_tools",)),
    Signal(
        "unsafe-setting",
        "asks for an unsafe setting",
        1.0,
        ("unsafe_flag", "normative|imperative|agent|situation|foreign_tool"),
    ),
    Signal("model-acts", "tells what the model does besides calling it", 0.85, ("agent_acts",)),
    Signal("rules-tool", "rules on another tool", 0.7, ("ruled_tool",), "own_server"),
    Signal(
        "chains-tools",
        "has several other tools called",
        0.5,
        ("several_tools", "situation|normative|imperative|trigger"),
    ),
    Signal(
        "replaces-private",
        "puts private data in the place of something",
        0.5,
        (_SENSITIVE, "redirect|tamper", "normative|each_thing"),
    ),
    Signal("yields", "has the model take orders from elsewhere", 1.0, ("yields",)),
    Signal("belittles", "speaks ill of other tools", 1.0, ("belittle",)),
    Signal(
        "preferred",
        "wants to be taken before other tools",
        0.45,
        ("prefer", "other_tools"),
        "learns|own_server",
    ),
    Signal("for-everything", "wants every request", 0.45, ("prefer", "whatever", "oblige|self")),
    # what becomes of other tools
    Signal(
        "shadows",
        "dictates how another tool is called",
        0.2,
        ("foreign_tool", "trigger|universal", "oblige|redirect|send_away"),
        "learns|usage|own_call",
    ),
    Signal(
        "redirects",
        "changes where something goes or how much of it",
        0.7,
        ("redirect", "foreign_tool|universal|against_user|other_tools|tamper"),
    ),
    Signal(
        "fixed-destination",
        "fixes an address for it",
        0.6,
        ("redirect", "destination"),
        "illustrates",
    ),
    Signal(
        "tampers",
        "falsifies what a person or another tool has given",
        0.95,
        ("tamper", "oblige|imperative|universal|foreign_tool"),
    ),
    Signal(
        "copies-to",
        "sends to an address of its own",
        0.7,
        (
            _MOVES,
            "destination",
            "universal|foreign_tool|uses_tool|authority|other_tools|agent|agent_acts",
        ),
        "illustrates",
    ),
    Signal(
        "own-contact",
        "names a mailbox, number, wallet or channel",
        0.45,
        ("contact", "hand_over|send_away|normative|imperative|redirect|path|slot"),
        "illustrates",
    ),
    Signal(
        "led-to",
        "leads to an address",
        0.2,
        ("led_to", "normative|situation|universal"),
        "illustrates",
    ),
    Signal("bare-host", "names a host by its number, or an open query", 0.45, ("bare_host",)),
    # harm by itself
    Signal(
        "destroys",
        "has other tools destroy data",
        0.8,
        ("destroy", "uses_tool|foreign_tool|agent|other_tools|authority|situation"),
        "learns",
    ),
    Signal(
        "exposes",
        "opens data or rights to others",
        0.65,
        ("expose", "uses_tool|foreign_tool|agent|universal|other_tools|authority"),
    ),
    Signal(
        "off-topic-file",
        "has the model handle a file its purpose does not call for",
        0.25,
        ("off_topic_file", _ORDERED, f"read|change|{_MOVES}"),
    ),
    Signal("command", "holds a dangerous command", 0.25, ("command",)),
    Signal(
        "runs-command",
        "has the model run a dangerous command",
        0.85,
        ("command", "execute|change", _ORDERED),
    ),
    Signal(
        "persists",
        "changes files that act again later",
        0.65,
        ("persist", "change", f"{_ORDERED}|universal|destination|covert"),
    ),
    Signal("start-up-file", "names a file that acts again later", 0.25, ("persist",)),
    Signal("disables", "turns a protection off", 0.75, ("disable",)),
    Signal("malice", "says that it does harm", 1.0, ("malice",), "defend"),
    # form
    Signal("chat-markup", "imitates the markup of a chat", 1.0, ("chat_markup",)),
    Signal("markup", "imitates the markup of a system message", 0.3, ("markup",)),
    Signal("comment", "hides text in a comment", 0.5, ("comment",)),
)
"""All signals; weights set by hand, then fitted on the project's own cases, see ADR 0012."""
