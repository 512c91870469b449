"""Tasks of servers for clients: their ids, and the wait for a result.

A client that declares tasks gets the task, with an id of the gateway. For any other client, and
for scripts, the gateway waits. An id of the gateway is signed and has the server, the tool and the
server's own id. So it needs no store: it holds at every replica and after a restart, and nobody can
make one.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from secrets import token_hex
from typing import TYPE_CHECKING, cast

import anyio
import mcp.types as types
from pydantic import TypeAdapter

from ...catalog.text_file import locked, replace_file
from ...errors import ConfigError, RequestError
from ..connections.user_folders import state_folder
from ..upstream.call import (
    Answer,
    Caller,
    CheckedRequest,
)
from ..upstream.fleet import Fleet
from ..upstream.safe_texts import safe_message
from ..upstream.server_connection import ServerError, UpstreamError
from ..upstream.server_tasks import (
    TASKS_EXTENSION,
    Task,
    TaskParams,
    TaskRequest,
    UpdateTaskParams,
)
from .client_requests import ask_client, questions_for_client

if TYPE_CHECKING:
    from ...retrieval.postgres.stored_texts import StoredTexts

_ID_PREFIX = "task_"
_SIGNATURE_BYTES = 16
#: Least and most seconds between two polls, and seconds if the server names none.
_MIN_POLL_S, _MAX_POLL_S, _USUAL_POLL_S = 0.05, 5.0, 0.5
#: Most questions of a task.
_MAX_QUESTIONS = 20
#: Seconds for the cancellation of a task whose client is gone.
_CANCEL_S = 2.0


class TaskRunsError(UpstreamError):
    """The time limit ended, and the task still runs.

    Attributes:
        task: the task.
    """

    def __init__(self, task: ServerTask) -> None:
        super().__init__(f"server {task.server!r}: the task still runs, after the time limit")
        self.task = task


@dataclass(frozen=True, slots=True)
class ServerTask:
    """A task at its server.

    Args:
        server: name of the server.
        tool_id: id of the called tool.
        task_id: the server's id.
    """

    server: str
    tool_id: str
    task_id: str


class TaskIds:
    """Makes and reads the gateway's ids of tasks. Each is valid for the clients of one profile.

    Args:
        key: the secret of this gateway and its replicas.
    """

    def __init__(self, key: str) -> None:
        self._key = key.encode()

    def id_of(self, task: ServerTask, profile: str) -> str:
        """The id of a task for the clients of a profile."""
        text = json.dumps([task.server, task.tool_id, task.task_id]).encode()
        signed = self._signature(text, profile) + text
        return _ID_PREFIX + base64.urlsafe_b64encode(signed).decode().rstrip("=")

    def read(self, task_id: str, profile: str) -> ServerTask:
        """The task with an id.

        Raises:
            RequestError: no client of this profile was given the id.
        """
        encoded = task_id.removeprefix(_ID_PREFIX)
        try:
            signed = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
        except ValueError:
            signed = b""
        signature, text = signed[:_SIGNATURE_BYTES], signed[_SIGNATURE_BYTES:]
        is_own = self.is_id(task_id) and hmac.compare_digest(
            signature, self._signature(text, profile)
        )
        if not is_own:
            raise RequestError(f"no task {task_id!r:.40}; call the tool again")
        return ServerTask(*json.loads(text))

    @staticmethod
    def is_id(text: str) -> bool:
        """Whether a text has the form of an id."""
        return text.startswith(_ID_PREFIX)

    def _signature(self, text: bytes, profile: str) -> bytes:
        signed = profile.encode(errors="surrogatepass") + b"\0" + text
        return hmac.digest(self._key, signed, hashlib.sha256)[:_SIGNATURE_BYTES]


def read_task_key(shared: StoredTexts | None) -> str:
    """The secret of the ids of tasks, made at the first start: of all replicas, or of this user.

    Raises:
        ConfigError: the file cannot be read or written.
        StoreError: the shared state cannot be reached.
    """
    if shared is not None:
        shared.change("task_key", "", lambda key: key or json.dumps(token_hex(32)))
        return shared.read("task_key", "") or ""
    path = state_folder() / "task.key"
    try:
        with locked(path, error=ConfigError):
            if not path.exists():
                replace_file(path, [token_hex(32).encode()])
        key = path.read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read or written: {error.strerror}") from None
    if len(key) != 64:
        raise ConfigError(f"{path}: is no key of this gateway; delete it")
    return key


def takes_tasks(caller: Caller) -> bool:
    """Whether a client declares that it takes a task for a result."""
    capabilities = caller.context.session.client_capabilities
    extensions = (capabilities and capabilities.extensions) or {}
    return caller.is_modern and TASKS_EXTENSION in extensions


class TaskRequests:
    """Requests of one client about one task.

    Args:
        fleet: the servers.
        caller: the client's request.
        task: the task.
        check: raises ShortlistError if the client may not have the task any more.
    """

    def __init__(
        self, fleet: Fleet, caller: Caller, task: ServerTask, check: Callable[[], None]
    ) -> None:
        self.task = task
        self._fleet = fleet
        self._caller = caller
        self._check = check
        self._params = TaskParams(task_id=task.task_id)

    async def get(self) -> Task:
        """The state of the task, whatever id the server gives it now.

        Raises:
            UpstreamError: the server does not answer, or refuses.
            ShortlistError: the client may not have the task any more.
        """
        answer = await self._send("tasks/get", self._params, Task)
        return answer.model_copy(update={"task_id": self.task.task_id})

    async def update(self, answers: types.InputResponses) -> None:
        """Answer questions of the task. It raises what `get` raises."""
        params = UpdateTaskParams(task_id=self.task.task_id, input_responses=answers)
        await self._send("tasks/update", params, types.EmptyResult)

    async def cancel(self) -> None:
        """Ask the server to cancel the task. It raises what `get` raises."""
        await self._send("tasks/cancel", self._params, types.EmptyResult)

    async def result(self, *, is_new: bool = False) -> types.CallToolResult:
        """Wait for the result of the task. The client answers its questions meanwhile.

        Args:
            is_new: whether this request has created the task. Then the cancellation of the request
                cancels the task.

        Raises:
            TaskRunsError: the time limit of a call of the tool is over. The time in which the
                client is asked does not count.
            UpstreamError: the task failed or was cancelled, or the client cannot be asked.
            ShortlistError: the client may not have the task any more.
        """
        try:
            return await self._wait()
        except anyio.get_cancelled_exc_class():
            if is_new:
                # Nobody waits for it any more.
                with anyio.move_on_after(_CANCEL_S, shield=True), suppress(Exception):
                    await self.cancel()
            raise

    async def _wait(self) -> types.CallToolResult:
        server, answered = self.task.server, set[str]()
        usual_limit_s = self._fleet.upstream(server).spec.timeout_s
        deadline = anyio.current_time() + (
            self._fleet.timeout_for(self.task.tool_id) or usual_limit_s
        )
        while True:
            state = await self.get()
            if state.status == "completed" and state.result is not None:
                return state.result
            if state.status in ("completed", "failed", "cancelled"):
                raise _end_of(server, state)
            questions = {
                key: question
                for key, question in (state.input_requests or {}).items()
                if key not in answered
            }
            if state.status == "input_required" and questions:
                answered |= questions.keys()
                if len(answered) > _MAX_QUESTIONS:
                    raise UpstreamError(f"server {server!r} asked {_MAX_QUESTIONS} times in a task")
                asked_at = anyio.current_time()
                await self.update(await ask_client(self._caller, server, questions))
                deadline += anyio.current_time() - asked_at
            pause = (state.poll_interval_ms or _USUAL_POLL_S * 1e3) / 1e3
            pause = min(max(pause, _MIN_POLL_S), _MAX_POLL_S)
            if anyio.current_time() + pause > deadline:
                raise TaskRunsError(self.task)
            await anyio.sleep(pause)

    async def _send(self, method: str, params: TaskParams, answer: type[Answer]) -> Answer:
        call: CheckedRequest[Answer] = CheckedRequest(
            self._caller,
            self.task.server,
            TaskRequest(method=method, params=params),
            self._check,
            TypeAdapter(answer),
            reads_only=method == "tasks/get",
        )
        return cast("Answer", await self._fleet.send(call))

    def state_for_client(self, state: Task, task_id: str) -> Task:
        """The state of the task with safe texts, without its result.

        Args:
            state: as the server gives it.
            task_id: the client's id of the task.

        Raises:
            UpstreamError: the client cannot be asked a question of the task.
        """
        server, message = self.task.server, state.status_message
        questions = questions_for_client(self._caller, server, state.input_requests)
        error = None
        if state.error is not None:
            safe = ServerError(server, state.error)
            error = types.ErrorData(code=safe.code, message=str(safe), data=safe.data)
        return state.model_copy(
            update={
                "meta": None,
                "task_id": task_id,
                "status_message": None if message is None else safe_message(server, message),
                "input_requests": questions or None,
                "error": error,
                "result": None,
                "result_type": "complete",
            }
        )


def _end_of(server: str, state: Task) -> UpstreamError:
    """Why a task has no result."""
    if state.error is not None:
        return ServerError(server, state.error)
    if state.status == "cancelled":
        return UpstreamError(f"server {server!r}: the task was cancelled")
    return UpstreamError(f"server {server!r}: the task ended without a result")
