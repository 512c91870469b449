"""Verdict: whether a model's call may run, and if not, what the model should change."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from ..catalog import Tool
from ..catalog.short_definition import ShortDefinition, short_definition
from ..errors import ShortlistError
from ..retrieval.refusal import Refusal

if TYPE_CHECKING:
    from ..catalog.arguments import ArgumentProblem

#: `passed`: make the call. `promoted`: permitted, but the model had not seen this definition; it
#: gets the definition now and calls again. `invalid`: the arguments do not fit the schema.
#: `unapproved`: permitted if a person approves. `denied`: not permitted. `unknown`: no such tool.
Status = Literal["passed", "promoted", "invalid", "unapproved", "denied", "unknown"]


#: What the model can do about a denied tool if no call makes it permitted, by kind of refusal.
_ADVICE_BY_KIND = {
    # The caller lacks a scope.
    "scope": "No call changes that: tell the user what is missing.",
    # A rule requires something first: a call, a milestone, a fact or a predicate.
    "precondition": "No call that you may make changes that: tell the user what is missing.",
    # A predicate of a rule failed.
    "predicate_error": "No call changes that: tell the user.",
    # The tool lacks an annotation that a rule requires, such as `readOnlyHint`.
    "annotation": "Use another tool.",
    # A rule denies calls with such an argument.
    "argument": "Call it with other arguments, or tell the user.",
    # A rule asks for a person's approval, which the call does not have.
    "approval": "It was not called: tell the user.",
    # The tool is not in the caller's `allowed`.
    "not_allowed": "Use another tool.",
    # The tool waits for an operator's approval.
    "quarantined": "Use another tool.",
    # The tool's server excluded it in this turn.
    "excluded": "Use another tool, or try again in a later turn.",
}

#: Maximum tokens of the definition in a `promoted` verdict. A server may send a definition that is
#: ten times as long.
MAX_DEFINITION_TOKENS = 3_500
_SHORTENED = " Its definition is long: parts of its description and schema are left out here."


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of checking a call by the model.

    Args:
        status: see `Status`.
        called_name: the name the model called.
        tool: the called tool; None if it is unknown or denied.
        refusal: why it is denied.
        nearest: ids of permitted tools with a similar name, if the tool is unknown.
        problems: problems of the arguments.
        arguments: the arguments for the tool, without each `null` that its schema does not allow.
        uses_model_names: whether texts name tools as the model calls them, such as
            `billing__get_invoice`, and not by their ids.
        ambiguous: whether the tool is unknown because several permitted tools have the name.
        approved: whether a person approved the call.

    Example:
        >>> from shortlist import Engine, Tool
        >>> view = Engine.from_tools([Tool("get_invoice", "billing")], tiers=["lexical"]).view()
        >>> verdict = view.check("get_invoise")
        >>> verdict.status, verdict.message
        ('unknown', "There is no tool 'get_invoise'. Nearest: billing/get_invoice.")
    """

    status: Status
    called_name: str
    tool: Tool | None = None
    refusal: Refusal | None = None
    nearest: tuple[str, ...] = ()
    problems: tuple[ArgumentProblem, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)
    uses_model_names: bool = False
    ambiguous: bool = False
    approved: bool = False

    def __repr__(self) -> str:
        return f"Verdict({self.status}: {' '.join(self.message.split()):.200})"

    @property
    def _definition(self) -> ShortDefinition:
        return ShortDefinition("", {}, False) if self.tool is None else _shown_definition(self.tool)

    @property
    def passed(self) -> bool:
        """Whether the call may run."""
        return self.status == "passed"

    @property
    def message(self) -> str:
        """Message for the model, in a few sentences: what is wrong, and how to correct it."""
        from ..catalog.arguments import problems_sentence

        name = self.called_name if self.uses_model_names or self.tool is None else self.tool.id
        if self.status == "passed":
            return f"{name} may be called."
        if self.status == "promoted":
            wrong = f"{problems_sentence(self.problems)} " if self.problems else ""
            return (
                f"{wrong}{name} was not called: you had not seen its present definition in full. "
                "You have it now: call it again with arguments that fit its input_schema."
            ) + (_SHORTENED if self._definition.shortened else "")
        if self.status == "invalid":
            return f"{problems_sentence(self.problems)} Correct them and call again."
        if self.refusal is not None:
            reason = self.refusal.reason.rstrip(".")
            return f"{self.refusal.shown_id} may not be used now: {reason}. {_advice(self.refusal)}"
        listed = ", ".join(self.nearest)
        if self.ambiguous:
            advice = f"Call one by its full name: {listed}."
            return f"Several tools are named {self.called_name!r}. {advice}"
        advice = f"Nearest: {listed}." if listed else "Call one of the tools that you were shown."
        return f"There is no tool {self.called_name!r}. {advice}"

    def with_model_names(self, name_of: Callable[[str], str]) -> Verdict:
        """A copy with the names that the model uses instead of ids.

        Args:
            name_of: id to name.

        Example:
            >>> from shortlist import Engine, Tool
            >>> view = Engine.from_tools([Tool("get_invoice", "billing")], tiers=["lexical"]).view()
            >>> view.check("get_invoise").with_model_names(lambda id: id.replace("/", "__")).nearest
            ('billing__get_invoice',)
        """
        return replace(
            self,
            refusal=None if self.refusal is None else _rename_refusal(self.refusal, name_of),
            nearest=tuple(map(name_of, self.nearest)),
            called_name=name_of(self.tool.id) if self.tool else self.called_name,
            uses_model_names=True,
        )

    @property
    def text(self) -> str:
        """The text to answer the model with, if the call did not pass: `to_dict` as JSON."""
        # A model may write half of a surrogate pair. No provider accepts that in a message.
        return json.dumps(self.to_dict(), ensure_ascii=False).encode("utf-8", "replace").decode()

    def to_dict(self) -> dict[str, Any]:
        """The answer for the model, as a JSON object.

        `{"error": "tool_not_available", ...}` for a tool that was not offered, is denied or does
        not exist, and `{"error": "invalid_arguments", ...}` for wrong arguments. Both say what to
        change; problems of the arguments come before a definition. The definition of a promoted
        tool takes at most about 4,000 tokens; `"shortened": true` means that parts of it are left
        out.
        """
        if self.status == "passed":
            return {"status": "passed", "tool": self.tool.id if self.tool else self.called_name}
        answer: dict[str, Any] = {
            "error": "invalid_arguments" if self.problems else "tool_not_available",
            "tool": self.called_name,
            "status": self.status,
            "message": self.message,
        }
        if self.tool is not None and not self.uses_model_names:
            answer["tool"] = self.tool.id
        if self.problems:
            answer["problems"] = [problem.to_dict() for problem in self.problems]
        if self.status == "promoted" and self.tool is not None:
            definition = self._definition
            answer["input_schema"] = definition.input_schema
            answer["description"] = definition.description
            if definition.shortened:
                answer["shortened"] = True
        if self.refusal is not None:
            answer |= self.refusal.to_dict()
        if self.status == "unknown":
            answer["nearest"] = list(self.nearest)
        return answer


class CallRefusedError(ShortlistError):
    """A call passed its check, but did not pass the same check directly before it was sent.

    Args:
        verdict: the result of the second check.
    """

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.message)
        self.verdict = verdict


def _advice(refusal: Refusal) -> str:
    """What the model can do about a denied tool, as a sentence."""
    tool_ids = ", ".join(refusal.unlocked_by)
    if not tool_ids:
        return _ADVICE_BY_KIND.get(refusal.kind, "Use another tool.")
    if len(refusal.unlocked_by) == 1:
        return f"Call {tool_ids} first."
    if len(refusal.detail.get("unmet", ())) == 1:
        return f"Call one of these first: {tool_ids}."
    return f"Calls of these tools change that: {tool_ids}."


def _rename_refusal(refusal: Refusal, name_of: Callable[[str], str]) -> Refusal:
    """A refusal with names in place of ids, in its reason and its detail, too."""
    reason, unmet = refusal.reason, []
    for condition in refusal.detail.get("unmet", ()):
        renamed = dict(condition)
        if isinstance(after := condition.get("after"), str):
            renamed["after"] = name_of(after)
            reason = reason.replace(repr(after), repr(renamed["after"]))
        if "unlocked_by" in condition:
            renamed["unlocked_by"] = list(map(name_of, condition["unlocked_by"]))
        unmet.append(renamed)
    return replace(
        refusal,
        tool_id=name_of(refusal.tool_id),
        reason=reason,
        unlocked_by=tuple(map(name_of, refusal.unlocked_by)),
        detail={**refusal.detail, "unmet": unmet} if unmet else refusal.detail,
    )


@lru_cache(64)
def _shown_definition(tool: Tool) -> ShortDefinition:
    from ..models import TokenCounter

    return short_definition(tool, MAX_DEFINITION_TOKENS, TokenCounter().count)
