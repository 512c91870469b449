"""Pending: a reply of the model of which some calls wait for a person's decision."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any
from uuid import uuid4

from ..catalog import Tool
from ..codemode.grants import ApprovalRequest
from ..errors import RequestError
from ..gating.verdict import Verdict
from ..loaders.providers import CallAnswer, Messages, ModelCall, Reply


class Pending(dict[str, Any]):
    """A reply of the model that is not answered yet, because a person has to decide about calls.

    `Session.pending` has it, and `Session.finish` goes on with it. It is plain JSON: store it as
    it is, and pass what `json.loads` gives. The session has a copy, which counts: whoever changes
    the stored form changes no call.

    Keys:
        id: identifies it.
        waiting: the calls to decide about, each with `id`, `tool` (the tool's id), `arguments` as
            they will be sent, and `rules`, the names of the rules that ask.
        results: the answers to calls that have ended.
        reply: the messages of the reply.

    Example:
        >>> from shortlist import Engine, Gate, Rule, Tool
        >>> gate = Gate([Rule(tools="bank/pay", approval=True)])
        >>> engine = Engine.from_tools([Tool("pay", "bank")], gate=gate, tiers=["lexical"])
        >>> session = engine.session("openai")
        >>> turn = session.turn("pay the invoice")
        >>> function = {"name": "bank__pay", "arguments": "{}"}
        >>> reply = {"role": "assistant", "tool_calls": [{"id": "call_1", "function": function}]}
        >>> session.handle(reply, {"pay": lambda: "paid"}, approve=lambda call: "later")
        []
        >>> [call["tool"] for call in session.pending.waiting]
        ['bank/pay']
        >>> messages = session.finish(session.pending, {"call_1": True}, {"pay": lambda: "paid"})
        >>> messages[-1]["content"]
        'paid'
    """

    @property
    def waiting(self) -> list[dict[str, Any]]:
        """The calls to decide about."""
        waiting: list[dict[str, Any]] = self["waiting"]
        return waiting


class CallProgress:
    """How far the calls of a reply are.

    Args:
        reply: the reply.

    Attributes:
        id: id of the `Pending` that it becomes.
        answers: place of a call to its answer.
        waiting: place of a call to its row in `Pending.waiting`.
        started: places of calls that may have begun to run.
        about_tools: messages about tools that follow the answers.
    """

    def __init__(self, reply: Reply) -> None:
        self.id = uuid4().hex
        self.reply = reply
        self.answers: dict[int, CallAnswer] = {}
        self.waiting: dict[int, dict[str, Any]] = {}
        self.started: set[int] = set()
        self.about_tools: Messages = []

    def decision_id(self, place: int) -> str:
        """The id under which a person decides about a call: the call's own, if it is unique."""
        calls = self.reply.calls
        call_id = calls[place].id
        unique = sum(call.id == call_id for call in calls) == 1
        return call_id if unique else f"{call_id}#{place}"

    def request(self, place: int, verdict: Verdict, tool: Tool) -> ApprovalRequest:
        """What a person is asked about an unapproved call."""
        detail = {} if verdict.refusal is None else verdict.refusal.detail
        return ApprovalRequest(
            tool=tool,
            arguments=verdict.arguments,
            rules=tuple(detail.get("rules", ())),
            call_id=self.decision_id(place),
        )

    def wait(self, place: int, request: ApprovalRequest) -> None:
        """Note that a person decides about a call later."""
        self.waiting[place] = {
            "id": request.call_id,
            "tool": request.tool.id,
            "arguments": dict(request.arguments),
            "rules": list(request.rules),
            "fingerprint": request.tool.fingerprint,
        }

    def pending(self) -> Pending:
        """The form in which it is stored."""
        reply = self.reply
        values = {
            "id": self.id,
            "waiting": [{"place": place, **row} for place, row in self.waiting.items()],
            "results": [
                {"place": place, "content": answer.content, "ok": answer.ok}
                for place, answer in sorted(self.answers.items())
            ],
            "started": sorted(self.started),
            "reply": reply.messages,
            "provider": reply.provider,
            "calls": [asdict(call) for call in reply.calls],
            "about_tools": self.about_tools,
        }
        # A copy: a stored form never changes afterwards.
        return Pending(json.loads(json.dumps(values)))

    @classmethod
    def of(cls, pending: Mapping[str, Any]) -> CallProgress:
        """The progress that was stored."""
        calls = tuple(ModelCall(**call) for call in pending["calls"])
        progress = cls(Reply(pending["provider"], list(pending["reply"]), calls, ""))
        progress.id = pending["id"]
        progress.about_tools = list(pending["about_tools"])
        progress.started = set(pending["started"])
        for row in pending["waiting"]:
            progress.waiting[row["place"]] = {key: row[key] for key in row if key != "place"}
        for row in pending["results"]:
            answer = CallAnswer(calls[row["place"]], row["content"], row["ok"])
            progress.answers[row["place"]] = answer
        return progress


def shows_same_call(row: Mapping[str, Any], request: ApprovalRequest) -> bool:
    """Whether a call is the one that the person saw: tool, definition and arguments."""
    return bool(
        row["tool"] == request.tool.id
        and row["fingerprint"] == request.tool.fingerprint
        and row["arguments"] == json.loads(json.dumps(dict(request.arguments)))
    )


def checked_decisions(progress: CallProgress, decisions: object) -> dict[str, bool]:
    """The decisions about waiting calls, without those that are made later.

    A decision about a call that waits no longer is left out: a program that stopped gives it again.

    Raises:
        RequestError: it is no mapping of ids of calls to True, False or `later`.
    """
    ids = [row["id"] for row in progress.waiting.values()]
    expected = f"decisions: a mapping of {', '.join(ids)} to True, False or 'later'"
    if not isinstance(decisions, Mapping):
        raise RequestError(f"{expected}, not {type(decisions).__name__}")
    all_ids = [progress.decision_id(place) for place in range(len(progress.reply.calls))]
    for call_id, decision in decisions.items():
        if call_id not in all_ids:
            raise RequestError(f"{expected}; the reply has no call {call_id!r:.80}")
        if not isinstance(decision, bool) and decision != "later":
            raise RequestError(f"{expected}; of {call_id!r:.80} it is {decision!r:.80}")
    return {
        call_id: decisions[call_id] for call_id in ids if decisions.get(call_id) in (True, False)
    }
