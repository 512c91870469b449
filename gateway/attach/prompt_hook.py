"""Asks the running gateway which tools fit a user's message; for a hook of a coding agent.

Imports only what an attached client needs: the hook runs before every message.
"""

from __future__ import annotations

import json
from pathlib import Path

from ...errors import ShortlistError
from ...untrusted.json_bytes import read_json
from .running_gateway import ask, running_gateways

#: Bytes of the hook's input that are read.
MAX_INPUT_BYTES = 1_000_000
#: Seconds that a gateway may take: each message waits for the hook.
_TIMEOUT_S = 1.0


def answer_prompt_hook(text: bytes, config: Path, profile: str) -> str | None:
    """The answer to a `UserPromptSubmit` hook of Claude Code; None for nothing to add.

    It never fails and starts nothing: without a running gateway there is no answer.

    Args:
        text: what the agent wrote to the hook's stdin.
        config: the gateway's file with the servers.
        profile: the profile whose tools are found.
    """
    try:
        message = read_json(text, max_chars=MAX_INPUT_BYTES).get("prompt")
        answers = (
            ask(gateway, timeout_s=_TIMEOUT_S, profile=profile, prompt=message)
            for gateway in running_gateways(config)
        )
        tools = next((answer["tools"] for answer in answers if answer and "tools" in answer), "")
    except (ValueError, AttributeError, OSError, ShortlistError):
        return None
    if not isinstance(tools, str) or not tools:
        return None
    output = {"hookEventName": "UserPromptSubmit", "additionalContext": tools}
    return json.dumps({"hookSpecificOutput": output})
