"""Asks the running gateway which tools fit a user's message; for a hook of a coding agent.

Imports only what an attached client needs: the hook runs before every message.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ...errors import ShortlistError
from ...untrusted.json_bytes import read_json
from .running_gateway import ask, running_gateways

#: Bytes of the hook's input that are read.
_MAX_INPUT_BYTES = 1_000_000
#: Seconds that a gateway may take: each message waits for the hook.
_TIMEOUT_S = 1.0


def run_prompt_hook(config: Path, profile: str) -> None:
    """Answer the `UserPromptSubmit` hook of Claude Code whose input is on stdin.

    It never fails and starts nothing: without a running gateway there is no answer.
    """
    text = sys.stdin.buffer.read(_MAX_INPUT_BYTES)
    try:
        message = read_json(text, max_chars=_MAX_INPUT_BYTES).get("prompt")
        answers = (
            ask(gateway, timeout_s=_TIMEOUT_S, profile=profile, prompt=message)
            for gateway in running_gateways(config)
        )
        tools = next((answer["tools"] for answer in answers if answer and "tools" in answer), "")
    except (ValueError, AttributeError, OSError, ShortlistError):
        return
    if isinstance(tools, str) and tools:
        output = {"hookEventName": "UserPromptSubmit", "additionalContext": tools}
        sys.stdout.write(json.dumps({"hookSpecificOutput": output}) + "\n")
