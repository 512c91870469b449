"""A person's approval of calls; which tools a script may call, and where data may flow."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..catalog import Tool
from ..catalog.pattern import Pattern
from ..catalog.python_function import is_async_function
from ..errors import ConfigError, RequestError
from ..view import View

#: `allow`: call it. `ask`: ask a person first. `deny`: do not call it.
Decision = Literal["allow", "ask", "deny"]
_DECISIONS = ("allow", "ask", "deny")


@dataclass(frozen=True, slots=True)
class Grant:
    """Decision about some tools in one script.

    Args:
        tools: an id, or a glob over ids.
        decision: what to do with a call.
        count: number of calls of each tool, in one script, for which it holds. Further calls need
            consent. None for no limit.

    Raises:
        RequestError: there is no such decision, no pattern, or `count` is not above 0.
    """

    tools: str
    decision: Decision = "allow"
    count: int | None = None

    def __post_init__(self) -> None:
        if self.decision not in _DECISIONS:
            decisions = ", ".join(_DECISIONS)
            raise RequestError(
                f"grant {self.tools!r:.80}: no decision {self.decision!r:.40}; {decisions}"
            )
        _check_glob("grant: tools", self.tools)
        if self.count is not None and (not isinstance(self.count, int) or self.count < 1):
            raise RequestError(f"grant {self.tools!r:.80}: count: must be a number above 0")

    @property
    def is_unlimited(self) -> bool:
        """Whether it allows any number of calls."""
        return self.decision == "allow" and self.count is None

    def matches(self, tool: Tool) -> bool:
        """Whether the grant matches a tool.

        A grant that allows matches exactly. It allows a tool with `destructiveHint` by its id, not
        by a glob. A grant that denies or asks ignores letter case and character width.
        """
        pattern = Pattern(self.tools)
        if self.decision != "allow":
            return pattern.denies(tool.id)
        return pattern.text == tool.id or (pattern.matches(tool.id) and not is_destructive(tool))


@dataclass(frozen=True, slots=True)
class Flow:
    """Two servers between which a script must not pass data.

    After an answer of `source`, also an error, the script may call no tool of `target`, with any
    arguments. Another script may. Data that the model read, or that a third server stored, is not
    tracked.

    Its globs ignore letter case and character width.

    Args:
        source: glob over names of servers; `tools` for tools without a server.
        target: glob over names of servers; `extract` is the small model of scripts.

    Raises:
        RequestError: one is no pattern.
    """

    source: str
    target: str

    def __post_init__(self) -> None:
        _check_glob("flow: source", self.source)
        _check_glob("flow: target", self.target)


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A call that needs a person's consent.

    Args:
        tool: the tool to call.
        arguments: arguments of the call, as they will be sent.
        code: the whole script; empty for a call that the model makes directly.
        rules: names of the rules that ask for approval.
        call_id: id of a direct call, under which it may wait.
    """

    tool: Tool
    arguments: Mapping[str, Any]
    code: str = ""
    rules: tuple[str, ...] = ()
    call_id: str = ""


#: A person's decision: True for consent, False for a refusal. `later`: there is none yet. A script
#: cannot wait, so that its call is refused.
Approval = bool | Literal["later"]
#: Asks a person; may be async. Raises RequestError if the call cannot be shown whole.
Approve = Callable[[ApprovalRequest], Approval | Awaitable[Approval]]


def is_destructive(tool: Tool) -> bool:
    """Whether a tool is annotated as destructive."""
    hints = tool.annotations or {}
    return hints.get("destructiveHint") is True and hints.get("readOnlyHint") is not True


async def ask(approve: Approve, request: ApprovalRequest) -> Approval:
    """A person's decision. A function that is not async runs in a thread.

    Args:
        approve: asks the person.
        request: the call.

    Raises:
        Exception: whatever `approve` raises; ValueError if it returns something else.
    """
    if is_async_function(approve):
        answer: object = approve(request)
    else:
        answer = await asyncio.to_thread(approve, request)
    return checked_approval(await answer if inspect.isawaitable(answer) else answer)


def checked_approval(answer: object) -> Approval:
    """The answer of an `Approve`.

    Raises:
        ValueError: it is none, so that nobody has approved anything.
    """
    if answer is True or answer is False:
        return answer
    if answer == "later":
        return "later"
    raise ValueError(f"approve: returned {answer!r:.80}; return True, False or 'later'")


def deciding_grant(tool: Tool, grants: tuple[Grant, ...], call_count: int) -> Grant:
    """The decision of the first matching grant; without one, only destructive tools need consent.

    Args:
        tool: the tool to call.
        grants: grants of the script, in order.
        call_count: number of calls of the tool so far.
    """
    for grant in grants:
        if grant.matches(tool):
            used_up = grant.count is not None and call_count >= grant.count
            return Grant(grant.tools, "ask") if used_up else grant
    return Grant(tool.id, "ask" if is_destructive(tool) else "allow")


def always_needs_approval(view: View, tool: Tool, grants: tuple[Grant, ...]) -> bool:
    """Whether every call of a tool by a script needs a person's approval.

    Args:
        view: the tools that may be used now, with the rules.
        tool: one of them.
        grants: grants of the script, in order.
    """
    grant = deciding_grant(tool, grants, 0)
    rules = view.admission.call_rules(tool.id)
    return grant.decision == "ask" or (
        grant.decision == "allow" and any(rule.approval and not rule.when for rule in rules)
    )


def _check_glob(label: str, glob: str) -> None:
    try:
        Pattern(glob)
    except ConfigError as error:
        raise RequestError(f"{label}: {error}") from None
