"""Checks, approves, makes and records the calls of a script, like direct calls."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from ..catalog import Tool
from ..catalog.pattern import any_denies
from ..errors import RequestError, ToolCallError
from ..gating.verdict import CallRefusedError, Verdict
from ..untrusted import MAX_MESSAGE_BYTES, MAX_MESSAGE_VALUES
from ..untrusted.value_count import is_small
from ..view import View
from .diagnostics import name_hint
from .grants import ApprovalRequest, Approve, Flow, Grant, ask, deciding_grant
from .sandbox import NotJsonError, as_json
from .script_names import EXTRACT_NAME, NAMESPACE_WITHOUT_SERVER, ToolNames, identifier, nearest
from .stubs import argument_names, has_wrapped_result

_LOG = logging.getLogger("shortlist.codemode")
Result = TypeVar("Result")
#: Most characters of a tool's error message in a script.
_MAX_ERROR_CHARACTERS = 4_000
NOBODY_TO_ASK = (
    "needs a person's approval, and nobody can be asked here; call it directly, or ask the "
    "operator to grant it by name"
)


class CallChecks(Protocol):
    """Checks and records calls. A `Session` does this."""

    def view(self) -> View:
        """The tools that may be used now."""
        ...

    def check(
        self,
        name: str,
        arguments: object = None,
        *,
        by_script: bool = False,
        approved: bool = False,
    ) -> Verdict:
        """The verdict on a call."""
        ...

    def recheck(self, verdict: Verdict) -> Verdict:
        """The verdict on a call that passed, after a wait."""
        ...

    def record_call(self, call: str, *, ok: bool | None = True) -> object:
        """Record the outcome of a call; None for an unknown one."""
        ...


#: Calls a tool: returns its result as JSON, or raises `ToolCallError` with the tool's error
#: message and the outcome, or `CallRefusedError` if the call is not permitted any more.
CallTool = Callable[[Tool, Mapping[str, Any]], Awaitable[Any]]


@dataclass(slots=True)
class CallRecord:
    """One call of a script; complete when it has ended.

    Args:
        tool_id: id of the tool.
        ok: whether it succeeded.
        ms: milliseconds from the check to the end.
        result_chars: characters of the result as JSON.
        may_have_changed: whether the tool was called and is not read-only.
        status: `ok`, `tool_error`, `server_error`, `no_answer`, `cancelled`, or why it was not
            called.
        arguments: arguments of the call.
    """

    tool_id: str
    ok: bool = False
    ms: float = 0.0
    result_chars: int = 0
    may_have_changed: bool = False
    status: str = "server_error"
    arguments: Mapping[str, Any] = field(default_factory=dict)


class Broker:
    """Makes the calls of one script.

    Args:
        checks: the session of the script.
        names: names of the tools in scripts.
        call: function that calls a tool.
        code: the script, which is shown to the person who approves.
        grants: which tools the script may call. The first matching grant decides.
        flows: pairs of servers between which the script must not pass data.
        approve: function that asks a person; None if nobody can be asked.
        call_limit: most calls.
        missing_servers: server whose tools are not known, to the reason, for models.

    Attributes:
        calls: the calls that have ended, in the order of their end.
    """

    def __init__(
        self,
        checks: CallChecks,
        names: ToolNames,
        call: CallTool,
        *,
        code: str,
        grants: tuple[Grant, ...] = (),
        flows: tuple[Flow, ...] = (),
        approve: Approve | None = None,
        call_limit: int,
        missing_servers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._checks = checks
        self._names = names
        self._call = call
        self._code = code
        self._grants = grants
        self._flows = flows
        self._approve = approve
        self._call_limit = call_limit
        self._missing_servers = missing_servers
        self._calls_by_tool: Counter[str] = Counter()
        self._servers_with_data_read: set[str] = set()
        self._call_count = 0
        self.calls: list[CallRecord] = []

    async def call(
        self, namespace: str, function: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call a tool by the name of its function.

        Raises:
            AttributeError: no such function.
            TypeError: arguments without names.
            ValueError: arguments that do not match the schema.
            PermissionError: the call is denied, or not approved.
            RuntimeError: the tool or its server failed, or too many calls were made.
        """
        tool = self._names.tool_called(namespace, function)
        if tool is None:
            raise AttributeError(self.explain_unknown(namespace, function, ""))
        if args:
            raise TypeError(f"{namespace}.{function}: give the arguments by name, not by position")
        if self._call_count >= self._call_limit:
            raise RuntimeError(
                f"more than {self._call_limit:,} tool calls in one script; use another script for "
                "the rest"
            )
        self._call_count += 1
        record, start = CallRecord(tool.id), perf_counter()
        try:
            return await self._run_call(record, tool, f"{namespace}.{function}", kwargs)
        except asyncio.CancelledError:
            record.status = "cancelled"
            raise
        finally:
            record.ms = (perf_counter() - start) * 1e3
            self.calls.append(record)

    async def _run_call(
        self, record: CallRecord, tool: Tool, name: str, kwargs: dict[str, Any]
    ) -> Any:
        schema_names = {
            python_name: schema_name for schema_name, python_name in argument_names(tool).items()
        }
        given = {schema_names.get(key, key): argument for key, argument in kwargs.items()}
        try:
            arguments = await _apart_if_large(given, partial(as_json, given, strict=True))
        except NotJsonError as error:
            record.status = "invalid"
            raise ValueError(f"{name}: an argument cannot be sent: {error}") from None
        record.arguments = arguments
        # For small arguments, a thread would take longer than the check.
        verdict = await _apart_if_large(
            arguments, partial(self._checks.check, tool.id, arguments, by_script=True)
        )
        if verdict.tool is None or verdict.status not in ("passed", "unapproved"):
            record.status = verdict.status
            error_type: type[Exception] = (
                ValueError if verdict.status == "invalid" else PermissionError
            )
            raise error_type(f"{name}: {verdict.message}")
        tool = verdict.tool
        is_asked_for = verdict.status == "unapproved"
        if is_asked_for:
            # The call does not count as running while a person is asked.
            self._asks_by_grant(record, name, tool)
            await self._ask_person(record, name, verdict)
            verdict = await _apart_if_large(
                arguments,
                partial(self._checks.check, tool.id, arguments, by_script=True, approved=True),
            )
            if not verdict.passed:
                raise self._refused(record, name, verdict)
        ok: bool | None = False
        try:
            if is_asked_for:
                _require_same_tool(name, tool, verdict)
            elif self._asks_by_grant(record, name, tool):
                await self._ask_person(record, name, verdict)
                self._recheck(record, name, verdict)
            record.may_have_changed = (tool.annotations or {}).get("readOnlyHint") is not True
            value = await self._send_call(record, name, tool, verdict.arguments)
            ok = True
        except asyncio.CancelledError:
            ok = None
            raise
        except Exception:
            if record.status == "no_answer" and record.may_have_changed:
                ok = None
            raise
        finally:
            # Each call that passed the check is reported, with any outcome.
            recorded = asyncio.to_thread(self._checks.record_call, tool.id, ok=ok)
            await asyncio.shield(asyncio.ensure_future(recorded))
        record.result_chars = await _apart_if_large(value, partial(_json_chars, value))
        record.status, record.ok = "ok", True
        return value

    def _recheck(self, record: CallRecord, name: str, verdict: Verdict) -> None:
        """PermissionError if the call is not permitted any more."""
        present_verdict = self._checks.recheck(verdict)
        if not present_verdict.passed:
            raise self._refused(record, name, present_verdict)

    def _asks_by_grant(self, record: CallRecord, name: str, tool: Tool) -> bool:
        """Whether a grant has a person asked. PermissionError if a flow or a grant forbids it."""
        target = tool.server or NAMESPACE_WITHOUT_SERVER
        if (source := self._server_forbidden_for(target)) is not None:
            record.status = "flow"
            raise PermissionError(
                f"{name}: data from {source!r} may not be sent to {target!r}; call "
                f"{target!r} in another script"
            )
        grant = deciding_grant(tool, self._grants, self._calls_by_tool[tool.id])
        self._calls_by_tool[tool.id] += 1
        if grant.decision == "deny":
            record.status = "denied"
            raise PermissionError(f"{name}: scripts may not call it; call it directly")
        return grant.decision == "ask"

    async def _ask_person(self, record: CallRecord, name: str, verdict: Verdict) -> None:
        """Ask about a call. PermissionError if nobody approves it."""
        tool, refusal = verdict.tool, verdict.refusal
        if tool is None:
            raise PermissionError(f"{name}: {verdict.message}")
        record.status = "unapproved"
        if self._approve is None:
            raise PermissionError(f"{name}: {NOBODY_TO_ASK}")
        rules = () if refusal is None else tuple(refusal.detail.get("rules", ()))
        request = ApprovalRequest(
            tool=tool, arguments=verdict.arguments, code=self._code, rules=rules
        )
        try:
            approved = await ask(self._approve, request) is True
        except RequestError as error:
            raise PermissionError(f"{name}: {error}") from None
        except Exception as error:  # noqa: BLE001 - the function is the user's
            _LOG.warning("asking for approval of %s failed", tool.id, exc_info=True)
            problem = f"the question failed ({type(error).__name__})"
            raise PermissionError(f"{name}: {problem}") from None
        if not approved:
            raise PermissionError(f"{name}: the call was not approved")

    def require_extract_permission(self) -> None:
        """Raise PermissionError if a flow forbids `extract` for data that the script has read."""
        if (source := self._server_forbidden_for(EXTRACT_NAME)) is not None:
            raise PermissionError(f"extract: data from {source!r} may not be given to it")

    def _server_forbidden_for(self, target: str) -> str | None:
        """A server that the script has read from, and whose data may not go to the target."""
        rules = [flow.source for flow in self._flows if any_denies(target, [flow.target])]
        for server in sorted(self._servers_with_data_read - {target}):
            if any_denies(server, rules):
                return server
        return None

    async def _send_call(
        self, record: CallRecord, name: str, tool: Tool, arguments: Mapping[str, Any]
    ) -> Any:
        record.status = "server_error"
        try:
            result = await self._call(tool, arguments)
            value = await _apart_if_large(
                result,
                partial(
                    as_json,
                    result,
                    strict=False,
                    max_values=MAX_MESSAGE_VALUES,
                    max_chars=MAX_MESSAGE_BYTES,
                ),
            )
            is_wrapped = (
                has_wrapped_result(tool) and isinstance(value, dict) and value.keys() == {"result"}
            )
            return value["result"] if is_wrapped else value
        except CallRefusedError as error:
            record.may_have_changed = False
            raise self._refused(record, name, error.verdict) from None
        except ToolCallError as error:
            record.status = "tool_error" if error.outcome == "failed" else error.outcome
            if error.outcome == "not_sent":
                record.may_have_changed = False
            raise RuntimeError(f"{name}: {str(error)[:_MAX_ERROR_CHARACTERS]}") from None
        except Exception as error:  # noqa: BLE001 - the function is the user's
            # Its text is for whoever runs the host: it may hold paths, addresses or keys.
            _LOG.warning("a script's call of %s failed", tool.id, exc_info=True)
            raise RuntimeError(f"{name}: the call failed ({type(error).__name__})") from None
        finally:
            # The text of an error is data of the server too.
            self._servers_with_data_read.add(tool.server or NAMESPACE_WITHOUT_SERVER)

    def _refused(self, record: CallRecord, name: str, verdict: Verdict) -> PermissionError:
        """The error of a call that passed its check and is not permitted any more."""
        record.status = verdict.status
        return PermissionError(f"{name}: {verdict.message}")

    def explain_unknown(self, namespace: str, function: str, argument: str) -> str:
        """The message for a name that cannot be used: why it is denied, or the nearest name.

        Args:
            namespace: namespace of the server.
            function: function of the tool.
            argument: argument of the function; empty if the function itself is unknown.
        """
        view = self._checks.view()
        tool = self._names.tool_called(namespace, function)
        if tool is not None and argument:
            return _unknown_argument_message(
                f"{namespace}.{function}", argument, argument_names(tool).values()
            )
        if tool is not None and (verdict := view.check(tool.id, {})).status == "denied":
            return f"{namespace}.{function}: {verdict.message}"
        # A tool that was added since the script began has no name in it.
        permitted = {
            self._names.function_of(tool.id) for tool in view.tools() if tool.id in self._names
        }
        spaces = sorted({space for space, _ in permitted})
        if namespace not in spaces:
            for server, reason in self._missing_servers.items():
                if namespace in (server, identifier(server)):
                    return f"{namespace} has no functions now: the server {server!r} is {reason}"
            similar = nearest(namespace, spaces)
            hint = f"; did you mean {similar}?" if similar else name_hint(namespace)
            return f"no server, variable or import {namespace!r:.60}{hint}"
        similar = nearest(function, sorted(name for space, name in permitted if space == namespace))
        hint = (
            f"; did you mean {namespace}.{similar}?" if similar else "; search for a tool that fits"
        )
        return f"{namespace} has no function {function!r:.60}{hint}"


def _require_same_tool(name: str, tool: Tool, verdict: Verdict) -> None:
    """PermissionError if the definition is not the one that the person was asked about."""
    if verdict.tool != tool:
        raise PermissionError(f"{name}: its definition changed while a person was asked")


async def _apart_if_large(value: object, work: Callable[[], Result]) -> Result:
    """The result of work on a value, in a thread if the value is large."""
    return work() if is_small(value) else await asyncio.to_thread(work)


def _json_chars(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False, default=str))


def _unknown_argument_message(function: str, argument: str, parameters: Iterable[str]) -> str:
    similar = nearest(argument, parameters)
    takes = (
        f"did you mean {similar}?" if similar else f"it takes: {', '.join(parameters) or 'none'}"
    )
    return f"{function} has no argument {argument!r:.60}; {takes}"
