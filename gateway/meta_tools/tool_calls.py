"""A client's call of a tool: decided once, checked again before it is sent, recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import mcp.types as types

from ...catalog import Tool
from ...catalog.text_cleaning import written_out
from ...errors import CatalogError, RequestError
from ...gating.rules import Rule
from ...gating.verdict import CallRefusedError, Verdict
from ..observe.call_recorder import CallRecorder
from ..profiles.approval_states import QUESTION_KEY
from ..profiles.client_sessions import ClientCaller
from ..profiles.profile import CALL_TOOL, READ_TOOL
from ..profiles.remembered_approvals import RememberedApprovals
from ..relay.forwarding import relay
from ..relay.resources import result_for_client
from ..upstream.call import Call, forwarded_meta, unsupported_reason
from ..upstream.fleet import Fleet
from ..upstream.server_tasks import TOOL_ANSWER, CreatedTask
from ..upstream.shown_questions import MAX_QUESTION_CHARS
from .meta_tool_answers import named_unready_server
from .meta_tool_definitions import ToolEffect, effect_of
from .shown_tools import covers_annotations_of

#: Room for the words of a question to the user beside the arguments.
_QUESTION_TEXT_CHARS = 1_000
#: Field of the question that makes the approval hold for later calls.
_REMEMBER = "remember"


class ToolCall(Call[types.CallToolResult]):
    """A client's call of a tool: directly, with a meta-tool, by a script, or by a search.

    Args:
        fleet: the servers.
        caller: who asks, and how the client is asked back.
        name: id, `server__tool`, name of a tool shown directly, or a name that is unique.
        arguments: arguments of the tool.
        meta: `_meta` of the client's request; None for none.
        via_meta_tool: name of the meta-tool; None for any other call.
        remembered: approvals that hold for more than one call; None for none.

    Attributes:
        name: the argument `name`.
        verdict: the decision about the call; None before `decide`.
    """

    answer_type = TOOL_ANSWER
    caller: ClientCaller

    def __init__(
        self,
        fleet: Fleet,
        caller: ClientCaller,
        name: str,
        arguments: object,
        *,
        meta: Mapping[str, Any] | None = None,
        via_meta_tool: str | None = None,
        remembered: RememberedApprovals | None = None,
    ) -> None:
        super().__init__(caller)
        self.name = name
        self.verdict: Verdict | None = None
        self._fleet = fleet
        self._client = caller.client
        self._arguments = arguments
        self._meta = meta
        self._via_meta_tool = via_meta_tool
        self._remembered = remembered
        self._is_by_interface = False

    def decide(self, *, approved: bool = False) -> Verdict:
        """Resolve the name, and decide whether the tool may be called with the arguments.

        Args:
            approved: whether the client's user has approved the call.

        Raises:
            RequestError: this meta-tool may not call the tool.
        """
        verdict = self._app_tool_verdict() or self._client.check(
            self.name, self._arguments, approved=approved, require=self._require_meta_tool
        )
        self.use_verdict(verdict)
        return verdict

    def use_verdict(self, verdict: Verdict) -> None:
        """Take over a decision about the call. It is checked again before each sending."""
        self.verdict, tool = verdict, verdict.tool
        if tool is not None:
            self.server = tool.server or ""
            self.operation = tool.id
            self.subject = f"{tool.id} {json.dumps(verdict.arguments, sort_keys=True)}"
            self.timeout_s = self._fleet.timeout_for(tool.id)
            self.reads_only = (tool.annotations or {}).get("readOnlyHint") is True

    def check_before_sending(self) -> None:
        """Check the decision again, as of now.

        Raises:
            CallRefusedError: the call may not be sent any more.
        """
        assert self.verdict is not None
        if self._is_by_interface:
            present_verdict = self._client.app_view().recheck(self.verdict)
        else:
            present_verdict = self._client.recheck(self.verdict)
        if not present_verdict.passed:
            raise CallRefusedError(present_verdict)

    def request(
        self, answers: types.InputResponses | None, state: str | None
    ) -> types.CallToolRequest:
        """The request for the server, with the arguments that were checked.

        Raises:
            CatalogError: the server no longer has the tool.
        """
        assert self.verdict is not None
        assert self.verdict.tool is not None
        name = self._fleet.listed_tools.name_at_server(self.verdict.tool)
        if name is None:
            raise CatalogError(
                f"tool {self.verdict.tool.id!r}: server {self.server!r} no longer has this tool"
            )
        params = types.CallToolRequestParams(
            name=name,
            arguments=dict(self.verdict.arguments),
            input_responses=answers,
            request_state=state,
            _meta=forwarded_meta(self._meta, self.caller),
        )
        # Not `Client.call_tool`, which raises if a result does not match the output schema.
        return types.CallToolRequest(params=params)

    def record(self, *, ok: bool | None) -> None:
        """Record the outcome in the client's session; None for an unknown one."""
        if self.verdict is not None and self.verdict.tool is not None and not self._is_by_interface:
            self._client.record_call(self.verdict.tool.id, ok=ok)

    async def ask_user(
        self, params: types.CallToolRequestParams
    ) -> types.CallToolRequestParams | types.InputRequiredResult | None:
        """Ask the client's user to approve the call.

        Args:
            params: parameters of the client's request, with its answers and state.

        Returns:
            For an approved call the parameters, without the approval's state; nobody is asked if a
            remembered approval covers the call. The question, for a client of the newer protocol.
            None if the user refuses, or the client cannot be asked.

        Raises:
            RequestError: the state is not one of this call.
            PinsError: the approval cannot be remembered.
        """
        is_first_round = params.request_state is None and not params.input_responses
        rules = await anyio.to_thread.run_sync(self._asking_rules)
        if is_first_round and await anyio.to_thread.run_sync(self._is_remembered, rules):
            return params
        question = self._question_to_user(rules)
        if question is None:
            return None
        if not self.caller.is_modern:
            answer = await self.caller.ask(question)
            approved = params if _accepts(answer) else None
        else:
            approvals = self._client.approvals
            if is_first_round:
                return await self._client.run_step(
                    partial(approvals.question, self._approval_text, question)
                )
            read = partial(approvals.read, self._approval_text, params)
            approved = await self._client.run_step(read)
            answer = None
            if approved is not None and approved.input_responses is None:
                # Otherwise these are answers to a server, which may have the same key.
                answer = (params.input_responses or {}).get(QUESTION_KEY)
        if _accepts(answer, _REMEMBER):
            await anyio.to_thread.run_sync(self._remember, rules)
        return approved

    def _is_remembered(self, rules: Sequence[Rule]) -> bool:
        """Whether the user has approved all calls that these rules ask for."""
        tool = None if self.verdict is None else self.verdict.tool
        name = self._client.profile.name
        return (
            tool is not None
            and self._remembered is not None
            and self._remembered.covers(name, tool, rules)
        )

    def _remember(self, rules: Sequence[Rule]) -> None:
        """Remember the approval for all calls that these rules ask for, if that is possible.

        Raises:
            PinsError: the file cannot be read or written.
        """
        tool = None if self.verdict is None else self.verdict.tool
        if (
            tool is not None
            and self._remembered is not None
            and self._remembered.can_remember(rules)
        ):
            self._remembered.remember(self._client.profile.name, tool, rules)

    def _asking_rules(self) -> Sequence[Rule]:
        """The rules for which a person has to approve the call."""
        verdict = self.verdict
        if verdict is None or verdict.tool is None or self._is_by_interface:
            return ()
        admission = self._client.view().admission
        return admission.call_rules(verdict.tool.id, verdict.arguments)

    async def for_client(self, result: types.InputRequiredResult) -> types.InputRequiredResult:
        """A server's questions. The approval of the call holds for the repeated request, too."""
        if self.verdict is None or not self.verdict.approved:
            return result
        approvals = self._client.approvals
        return await self._client.run_step(partial(approvals.approved, self._approval_text, result))

    @property
    def _approval_text(self) -> str:
        """All that the user approves: another call has another text."""
        assert self.verdict is not None
        assert self.verdict.tool is not None
        profile = self._client.profile.fingerprint
        return f"{profile} {self.verdict.tool.fingerprint} {self.subject}"

    def _question_to_user(self, rules: Sequence[Rule]) -> types.ElicitRequest | None:
        """The question to the client's user; None if the client cannot be asked.

        Args:
            rules: the rules for which a person has to approve the call.
        """
        verdict = self.verdict
        if verdict is None or verdict.tool is None or self._is_by_interface:
            return None
        arguments = written_out(json.dumps(verdict.arguments, ensure_ascii=False))
        if len(arguments) > MAX_QUESTION_CHARS - _QUESTION_TEXT_CHARS:
            return None
        message = f"The agent wants to call {verdict.tool.id} with {arguments}. Accept to allow it."
        fields: dict[str, Any] = {}
        if self._remembered is not None and self._remembered.can_remember(rules):
            title = f"Do not ask again for {self._remembered.days:g} days"
            fields[_REMEMBER] = {"type": "boolean", "title": title, "default": False}
        params = types.ElicitRequestFormParams(
            message=message, requested_schema={"type": "object", "properties": fields}
        )
        question = types.ElicitRequest(params=params)
        capabilities = self.caller.context.session.client_capabilities
        return None if unsupported_reason(question, capabilities) else question

    def _app_tool_verdict(self) -> Verdict | None:
        """The verdict on a call of a tool for user interfaces alone; None for any other call."""
        if self._via_meta_tool is not None or not self._fleet.listed_tools.app_only_ids:
            return None
        view = self._client.app_view()
        tool = view.details([self._client.tool_id(self.name, view)])[0]
        if not isinstance(tool, Tool) or self._client.view().permits(tool.id):
            return None
        self._is_by_interface = True
        return view.check(tool.id, self._arguments)

    def _require_meta_tool(self, tool: Tool) -> None:
        """Raise RequestError if the meta-tool may not call this permitted tool."""
        used = self._via_meta_tool
        if used is None:
            return
        effect = effect_of(tool.annotations)
        if used == READ_TOOL and effect is not ToolEffect.READ:
            raise RequestError(
                f"{tool.id} is not read-only by its annotations: call it with {CALL_TOOL}."
            )
        if not covers_annotations_of(self._client, tool):
            raise RequestError(
                f"{tool.id} is a {effect} tool, and {used} is annotated as more harmless than "
                "that: call the tool by its own name if it is listed, or list the tools again."
            )


def _accepts(answer: object, field: str | None = None) -> bool:
    """Whether a user accepts a question, and a field in it."""
    if not isinstance(answer, types.ElicitResult) or answer.action != "accept":
        return False
    return field is None or (answer.content or {}).get(field) is True


async def make_call(
    fleet: Fleet,
    call: ToolCall,
    params: types.CallToolRequestParams,
    call_recorder: CallRecorder,
) -> types.CallToolResult | types.InputRequiredResult | CreatedTask:
    """The server's answer to a call that is permitted and whose arguments are valid.

    Args:
        fleet: the servers.
        call: the client's call.
        params: parameters of the client's request, with its answers and state.
        call_recorder: records the check and the result for the operator.

    Raises:
        UpstreamError: the server is gone, does not answer in time, or refuses.
        TaskRunsError: it made a task that still runs, and the client takes none.
        ShortlistError: the call may not be made like this.
    """
    client = call.caller.client
    if (server := named_unready_server(fleet, client, call.name)) is not None:
        # Waits for a start. If it fails, the error says so.
        await fleet.upstream(server).connect()
    verdict = await client.run_step(call.decide)
    approved = await call.ask_user(params) if verdict.status == "unapproved" else None
    if isinstance(approved, types.InputRequiredResult):
        return approved
    if approved is not None:
        # The same call that the user saw: its definition may have changed meanwhile.
        params, asked_about = approved, verdict.tool
        verdict = await client.run_step(partial(call.decide, approved=True))
        if verdict.passed and verdict.tool != asked_about:
            await client.run_step(partial(call.record, ok=False))
            return error_result(f"{call.name}: its definition changed, so it was not called.")
    call_recorder.record_check(verdict)
    if verdict.tool is None or not verdict.passed:
        return error_result(refusal_text(verdict, call.name))
    ok: bool | None = None  # stays if the client cancels
    try:
        result: Any = await fleet.start_by_call(verdict.tool) or await relay(fleet, call, params)
        ok = None if isinstance(result, CreatedTask) else False
        if isinstance(result, types.CallToolResult):
            ok = not result.is_error
            call_recorder.record_result(result)
    except CallRefusedError as error:
        ok = False
        call_recorder.record_refusal(error.verdict)
        return error_result(refusal_text(error.verdict, call.name))
    except Exception:
        ok = None if call.may_have_had_effect else False
        raise
    finally:
        await client.run_step(partial(call.record, ok=ok))
    if isinstance(result, types.InputRequiredResult):
        return await call.for_client(result)
    if isinstance(result, CreatedTask):
        return result
    shown = partial(result_for_client, fleet, client, call.server, call.operation, result)
    return await client.run_step(shown)


def refusal_text(verdict: Verdict, name: str) -> str:
    """The answer to a refused call.

    It uses the client's name of the tool. It never quotes rules, because they may name other tools.

    Args:
        verdict: result of the check.
        name: the client's name of the tool.
    """
    if verdict.refusal is None:
        return verdict.text
    fields = replace(verdict, refusal=replace(verdict.refusal, tool_id=name)).to_dict()
    code = fields.pop("detail").get("code", verdict.refusal.kind)
    text = json.dumps({**fields, "tool": name, "code": code}, ensure_ascii=False)
    return text.encode("utf-8", "replace").decode()


def error_result(text: str) -> types.CallToolResult:
    """An error result with a message for the model."""
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)
