"""The meta-tool `run_code`: runs a client's script over the client's permitted tools."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, cast

import anyio
import mcp.types as types

from ...catalog import Tool
from ...catalog.text_cleaning import written_out
from ...codemode import ApprovalRequest, CodeResult, CodeRunner
from ...codemode.grants import Grant, deciding_grant, is_destructive
from ...codemode.monty import MAX_RUNNING_SCRIPTS
from ...errors import RequestError, ShortlistError, ToolCallError
from ...gating.verdict import CallRefusedError, Verdict
from ...view import View
from ..observe.call_recorder import CallRecorder
from ..observe.observer import Observer
from ..profiles.client_sessions import ClientCaller, ClientSession
from ..profiles.long_results import ResultSource
from ..profiles.remembered_approvals import RememberedApprovals
from ..relay.forwarding import send_in_rounds, state_for_server
from ..relay.resources import public_result
from ..upstream.fleet import Fleet
from ..upstream.server_connection import UpstreamError
from ..upstream.shown_questions import MAX_QUESTION_CHARS
from .meta_tool_answers import unready_reasons
from .tool_calls import ToolCall

#: Most characters of a call's arguments and the script in a question to the user. The question has
#: a few hundred more.
_MAX_CALL_AND_SCRIPT_CHARS = MAX_QUESTION_CHARS - 1_000
#: Most scripts of one client that run at the same time, of `MAX_RUNNING_SCRIPTS` of all clients.
_MAX_SCRIPTS_OF_CLIENT = MAX_RUNNING_SCRIPTS // 2
#: Places that only profiles without a running script may take: two profiles cannot keep all.
_RESERVED_PLACES = 2
#: Seconds that a script waits for a place.
_MAX_WAIT_FOR_PLACE_S = 60.0


class CodeMode:
    """Runs scripts, each with the permissions of its client.

    Args:
        fleet: the servers.
        observer: records each call of a script like a direct call.
        remembered: approvals that hold for more than one call; None for none.

    Raises:
        MissingExtraError: the extra `code` is not installed.
    """

    def __init__(
        self, fleet: Fleet, observer: Observer, remembered: RememberedApprovals | None
    ) -> None:
        self._fleet = fleet
        self._observer = observer
        self._remembered = remembered
        self._runner = CodeRunner()
        self._places = ScriptPlaces()

    async def run(
        self, caller: ClientCaller, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """The answer of `run_code`, or a question to the client.

        Args:
            caller: the client's request.
            params: parameters of the request.

        Raises:
            RequestError: the client answered a question that was not asked.
        """
        code = str((params.arguments or {})["code"])
        run = partial(self._run_in_place, caller, code)
        if not caller.is_modern:
            return await run()
        subject = f" run_code {code}"

        async def run_first_round() -> types.CallToolResult:
            state_for_server(params, subject)
            return await run()

        outcome = await self._fleet.pending_calls.answer(
            self._fleet.background, caller, subject, params, run_first_round
        )
        return cast("types.CallToolResult | types.InputRequiredResult", outcome)

    async def _run_in_place(self, caller: ClientCaller, code: str) -> types.CallToolResult:
        async with self._places.place(caller.client):
            return await self._run_script(caller, code)

    async def _run_script(self, caller: ClientCaller, code: str) -> types.CallToolResult:
        client, profile = caller.client, caller.client.profile
        calls = _ScriptCalls(self._fleet, self._observer, caller, self._remembered)
        capabilities = caller.context.session.client_capabilities
        can_ask = capabilities is not None and capabilities.elicitation is not None
        # The client's cancellation reaches this task again and again, and would interrupt the
        # script's own cleaning up.
        running = asyncio.ensure_future(
            self._runner.run(
                calls,
                code,
                calls.call,
                grants=profile.grants,
                flows=profile.flows,
                extract=profile.extract_command,
                approve=calls.approve if can_ask else None,
                missing_servers=unready_reasons(self._fleet, client, client.view()),
            )
        )
        try:
            result = await asyncio.shield(running)
        except asyncio.CancelledError:
            running.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([running])
            raise
        return await anyio.to_thread.run_sync(_code_answer, client, result)

    def stubs(self, grants: Iterable[Grant], view: View, tools: Iterable[Tool]) -> str:
        """The stubs of permitted tools, for scripts.

        Args:
            grants: what scripts of the client may call.
            view: the view that the tools come from.
            tools: permitted tools.
        """
        return self._runner.stubs(view, tools, grants)

    async def aclose(self) -> None:
        """End the sandbox's processes."""
        await self._runner.aclose()


class ScriptPlaces:
    """The places for running scripts. The last ones are for profiles without a running script.

    A script keeps its place while it waits: for a tool, for a person, or asleep. A further script
    waits for a place.
    """

    def __init__(self) -> None:
        #: ("client", session id) or ("profile", name) to the number of its running scripts.
        self._places_taken: Counter[tuple[str, str]] = Counter()
        self._place_freed = anyio.Condition()

    @asynccontextmanager
    async def place(self, client: ClientSession) -> AsyncIterator[None]:
        """Take a place for the block.

        Args:
            client: session of the client whose script runs.

        Raises:
            RequestError: no place became free in time.
        """
        # A place counts for the client and for its profile.
        owners = ("client", client.id), ("profile", client.profile.name)
        with anyio.move_on_after(_MAX_WAIT_FOR_PLACE_S) as wait:
            async with self._place_freed:
                while not self._may_run_another(*owners):
                    await self._place_freed.wait()
                self._places_taken.update(owners)
        if wait.cancelled_caught:
            raise RequestError(
                f"run_code: {_MAX_SCRIPTS_OF_CLIENT} scripts of this client, or "
                f"{MAX_RUNNING_SCRIPTS} of all, are running and none ended; run it again later"
            )
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                async with self._place_freed:
                    self._places_taken.subtract(owners)
                    self._places_taken += Counter()  # without owners that have no place
                    self._place_freed.notify_all()

    def _may_run_another(self, client: tuple[str, str], profile: tuple[str, str]) -> bool:
        """Whether a further script of a client and its profile may run."""
        script_count = sum(
            count for (kind, _), count in self._places_taken.items() if kind == "profile"
        )
        max_scripts = (
            MAX_RUNNING_SCRIPTS - _RESERVED_PLACES
            if self._places_taken[profile]
            else MAX_RUNNING_SCRIPTS
        )
        return self._places_taken[client] < _MAX_SCRIPTS_OF_CLIENT and script_count < max_scripts


class _ScriptCalls:
    """The calls of one script: checked by the client's session, sent and recorded like others.

    Args:
        fleet: the servers.
        observer: records each call.
        caller: the request of the script. Its client approves calls and answers questions.
        remembered: approvals that hold for more than one call; None for none.
    """

    def __init__(
        self,
        fleet: Fleet,
        observer: Observer,
        caller: ClientCaller,
        remembered: RememberedApprovals | None,
    ) -> None:
        self._remembered = remembered
        self._fleet = fleet
        self._observer = observer
        self._client = caller.client
        self._caller = caller
        #: Verdicts of calls that passed, by the arguments object, which the script's broker sends.
        self._passed: dict[int, Verdict] = {}

    def view(self) -> View:
        """The tools that the client may use now."""
        return self._client.view()

    def check(
        self,
        name: str,
        arguments: object = None,
        *,
        by_script: bool = False,
        approved: bool = False,
    ) -> Verdict:
        """The verdict on a call. A refusal is recorded."""
        verdict = self._client.check(name, arguments, by_script=by_script, approved=approved)
        if verdict.passed:
            self._passed[id(verdict.arguments)] = verdict
        else:
            with self._recorded(verdict):
                pass
        return verdict

    def recheck(self, verdict: Verdict) -> Verdict:
        """The verdict on a call that passed, after a wait."""
        return self._client.recheck(verdict)

    def record_call(self, call: str, *, ok: bool | None = True) -> None:
        """Record the outcome of a call; None for an unknown one."""
        self._client.record_call(call, ok=ok)

    async def call(self, tool: Tool, arguments: Mapping[str, Any]) -> Any:
        """The result of a call that passed `check`, and a person's approval if it needs one.

        Raises:
            ToolCallError: the tool or its server failed.
            CallRefusedError: the call may not be sent any more.
        """
        # Each call has its own time limit.
        caller = ClientCaller(self._caller.context, self._client)
        caller.question_channel = self._caller.question_channel
        call = ToolCall(self._fleet, caller, tool.id, arguments)
        verdict = self._passed.pop(id(arguments))
        call.use_verdict(verdict)
        with self._recorded(verdict) as call_recorder:
            try:
                result = await self._fleet.start_by_call(tool)
                result = result or await send_in_rounds(self._fleet, call)
            except CallRefusedError:
                raise
            except (UpstreamError, ShortlistError) as error:
                raise ToolCallError(
                    str(error), "no_answer" if call.was_sent else "not_sent"
                ) from None
            call_recorder.record_result(result)
        return script_value(public_result(call.server, result))

    async def approve(self, request: ApprovalRequest) -> bool:
        """Whether the client's user approves a call, or has approved all such calls."""
        if await anyio.to_thread.run_sync(self._is_remembered, request):
            return True
        answer = await self._caller.ask(_question(request))
        return isinstance(answer, types.ElicitResult) and answer.action == "accept"

    def _is_remembered(self, request: ApprovalRequest) -> bool:
        """Whether a remembered approval covers a call. It never replaces what a grant asks for."""
        tool, profile = request.tool, self._client.profile
        if self._remembered is None or not deciding_grant(tool, profile.grants, 0).is_unlimited:
            return False
        rules = self._client.view().admission.call_rules(tool.id, request.arguments)
        return self._remembered.covers(profile.name, tool, rules)

    @contextmanager
    def _recorded(self, verdict: Verdict) -> Iterator[CallRecorder]:
        """Record a call in the gateway's events. It ends with the block."""
        call_recorder = CallRecorder()
        call_recorder.record_check(verdict)
        name = verdict.called_name if verdict.tool is None else verdict.tool.id
        params = types.CallToolRequestParams(name=name, arguments=dict(verdict.arguments))
        with self._observer.recorded_request(self._caller, params, call_recorder):
            try:
                yield call_recorder
            except CallRefusedError as error:
                call_recorder.record_refusal(error.verdict)
                raise
            except Exception:
                call_recorder.record_failure()
                raise


def _question(request: ApprovalRequest) -> types.ElicitRequest:
    """The question to the user, with the whole call and the whole script.

    Raises:
        RequestError: they are too long to be shown whole.
    """
    arguments = written_out(json.dumps(request.arguments, ensure_ascii=False))
    code = written_out(request.code)
    chars = len(arguments) + len(code)
    if chars > _MAX_CALL_AND_SCRIPT_CHARS:
        raise RequestError(
            f"needs a person's approval, and its arguments and the script have {chars:,} "
            f"characters; a person is asked about at most {_MAX_CALL_AND_SCRIPT_CHARS:,}: write a "
            "shorter script, or call the tool directly"
        )
    warning = ", which says that it may destroy something," if is_destructive(request.tool) else ""
    message = (
        f"A script wants to call {request.tool.id}{warning} with {arguments}. Accept to allow this "
        f"call.\n\nThe script ({len(code):,} characters):\n{code}"
    )
    params = types.ElicitRequestFormParams(
        message=message, requested_schema={"type": "object", "properties": {}}
    )
    return types.ElicitRequest(params=params)


def script_value(result: types.CallToolResult) -> Any:
    """The value that a script gets: the structured content, the only text, or the content blocks.

    Raises:
        ToolCallError: the tool reported an error; the message is the tool's.
    """
    texts = [part.text for part in result.content if isinstance(part, types.TextContent)]
    if result.is_error:
        raise ToolCallError("\n".join(texts) or "the tool failed and gave no message")
    if result.structured_content is not None:
        return result.structured_content
    if len(result.content) == 1 and texts:
        return texts[0]
    return [
        part.model_dump(mode="json", by_alias=True, exclude_none=True) for part in result.content
    ]


def _code_answer(client: ClientSession, result: CodeResult) -> types.CallToolResult:
    """The answer to the client. A long result is stored."""
    tokens = client.profile.result_tokens
    shortened = result.to_dict(tokens=tokens)
    whole = result.to_dict()
    if shortened["result"] != whole["result"] or shortened["output"] != whole["output"]:
        tools = tuple(dict.fromkeys(call.tool_id for call in result.calls if call.ok))
        text = json.dumps(whole["result"], ensure_ascii=False)
        text = f"{whole['output']}\n{text}" if whole["output"] else text
        result_id = client.stored_results.store(
            text, ResultSource(tool_ids=tools, profile_fingerprint=client.profile.fingerprint)
        )
        shortened["whole"] = f'read_result {{"id": "{result_id}"}}'
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=json.dumps(shortened, ensure_ascii=False))],
        structured_content=shortened,
        is_error=not result.ok,
    )
