"""Approvals that a client of the newer protocol is asked for in an answer to its own request.

Nothing waits here for the user: the client repeats its request with the user's answer and a state.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from secrets import token_hex
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING

import mcp.types as types

from ...errors import RequestError

if TYPE_CHECKING:
    from ...retrieval.postgres.stored_texts import StoredTexts

_STATE_PREFIX = "approval:"
#: Key of the question in the answer.
QUESTION_KEY = "approval"
#: Seconds that a user may think, and most questions of one client that are in memory.
_KEPT_S, _MAX_STATES = 3_600.0, 100


class ApprovalStates:
    """The states of one client's calls that a user approves. Each is valid once. Thread-safe.

    A state holds for one call: its client, profile, tool with its definition, and arguments.

    Args:
        shared: texts that all replicas of the gateway share; None if there is only this one.
        owner: names the client in these texts.
    """

    def __init__(self, shared: StoredTexts | None = None, owner: str = "") -> None:
        self._shared = shared
        self._owner = owner
        #: Key to the text of the call, and the seconds of the clock when it ends.
        self._rows: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._lock = Lock()

    def question(self, call: str, question: types.ElicitRequest) -> types.InputRequiredResult:
        """The answer that asks the user about a call.

        Args:
            call: all that the user approves, as a text.
            question: the question.
        """
        return types.InputRequiredResult(
            input_requests={QUESTION_KEY: question}, request_state=self._new_state(call)
        )

    def approved(self, call: str, result: types.InputRequiredResult) -> types.InputRequiredResult:
        """A server's questions during an approved call: the repeated request is approved, too.

        Args:
            call: what the user has approved.
            result: the questions, with the state for the next request.
        """
        state = self._new_state(call, result.request_state or "")
        return result.model_copy(update={"request_state": state})

    def read(
        self, call: str, params: types.CallToolRequestParams
    ) -> types.CallToolRequestParams | None:
        """The parameters of an approved request without the approval; None if the user refused.

        Args:
            call: the call that is requested.
            params: parameters of the client's request, with its answers and state.

        Raises:
            RequestError: the state is of another call or client, was used, or has ended.
        """
        state = (params.request_state or "").removeprefix(_STATE_PREFIX)
        token, is_approved, server_state = state.partition("=")
        answer = (params.input_responses or {}).get(QUESTION_KEY)
        if not is_approved and not isinstance(answer, types.ElicitResult):
            raise RequestError(f"inputResponses: the answer {QUESTION_KEY!r} is missing")
        row = _row(call, server_state if is_approved else None)
        if not self._take(_key(self._owner, token), row):
            raise RequestError(
                "requestState: not a state of this call, or it was used before; send the request "
                "again without it"
            )
        if is_approved:
            return params.model_copy(update={"request_state": server_state or None})
        if isinstance(answer, types.ElicitResult) and answer.action == "accept":
            return params.model_copy(update={"request_state": None, "input_responses": None})
        return None

    def _new_state(self, call: str, server_state: str | None = None) -> str:
        token = token_hex(16)
        key, row = _key(self._owner, token), _row(call, server_state)
        if self._shared is not None:
            self._shared.change("approval", key, lambda _: row, kept_s=_KEPT_S)
        else:
            with self._lock:
                self._rows[key] = row, monotonic() + _KEPT_S
                if len(self._rows) > _MAX_STATES:
                    self._rows.popitem(last=False)
        return f"{_STATE_PREFIX}{token}" + ("" if server_state is None else f"={server_state}")

    def _take(self, key: str, row: str) -> bool:
        """Delete a row. False if there is no such row."""
        if self._shared is None:
            with self._lock:
                if self._rows.get(key, ("", 0.0))[0] != row:
                    return False
                return self._rows.pop(key)[1] > monotonic()
        rows: list[str | None] = []

        def taken(text: str | None) -> str | None:
            rows.append(text)
            return None if text == row else text

        self._shared.change("approval", key, taken, kept_s=_KEPT_S)
        # A change that the database ended is tried again: its last result counts.
        return rows[-1] == row


def _key(owner: str, token: str) -> str:
    # The token is not in the database: who reads the database cannot approve a call.
    return hashlib.sha256(f"{owner} {token}".encode("utf-8", "replace")).hexdigest()


def _row(call: str, server_state: str | None) -> str:
    text = json.dumps([call, server_state])
    return json.dumps(hashlib.sha256(text.encode()).hexdigest())
