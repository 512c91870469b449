"""The outcome of a script: its result, its output, its calls and its error."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ..loaders.counting import bundled_counter
from .broker import CallRecord
from .sandbox import ScriptError

#: Most calls in the list. If there are more, each tool has one line.
_MAX_LISTED_CALLS = 20
_MAX_LISTED_EFFECTS = 20
#: Statuses of calls whose effect nobody knows.
_UNKNOWN_STATUSES = frozenset(("no_answer", "cancelled"))


@dataclass(frozen=True, slots=True)
class CodeResult:
    """The outcome of a script.

    Args:
        value: value of the last expression, or of `return`, not shortened.
        output: printed text, not shortened.
        calls: all calls, in the order of their end.
        error: the error; None if there was none.
    """

    value: Any
    output: str
    calls: tuple[CallRecord, ...]
    error: ScriptError | None

    @property
    def ok(self) -> bool:
        """Whether the script ended without an error."""
        return self.error is None

    @property
    def effects(self) -> tuple[CallRecord, ...]:
        """Calls that may have changed something: calls of tools that are not read-only."""
        return tuple(call for call in self.calls if call.may_have_changed)

    def to_dict(self, *, tokens: int | None = None) -> dict[str, Any]:
        """The answer to the model: `result`, `output`, `calls`, `error`.

        Args:
            tokens: token budget (cl100k_base) for `result` and `output` together. A longer text is
                cut, with a note about its length. None for no limit.
        """
        answer: dict[str, Any] = {"result": self.value, "output": self.output}
        if tokens is not None:
            output, used = _cut_text(self.output, tokens // 2, "printed")
            answer["output"] = output
            text = json.dumps(self.value, ensure_ascii=False)
            shortened, _ = _cut_text(text, tokens - used, "of the result")
            if shortened is not text:
                answer["result"] = shortened
        answer["calls"] = _summarize_calls(self.calls)
        answer["error"] = None if self.error is None else self.error.to_dict()
        if self.error is not None and (effects := self.effects):
            answer["error"]["effects"] = [
                _describe_call(call) for call in effects[:_MAX_LISTED_EFFECTS]
            ]
            answer["error"]["note"] = (
                f"calls that may have changed something before the script failed: {len(effects)}; "
                "do not repeat those that succeeded"
            )
            if any(call.status in _UNKNOWN_STATUSES for call in effects):
                answer["error"]["note"] += (
                    "; of those with no_answer or cancelled nobody knows: check before you repeat "
                    "them"
                )
        return answer


def _cut_text(text: str, tokens: int, label: str) -> tuple[str, int]:
    """A text cut to a budget (the same object if it fits), and its tokens."""
    count = bundled_counter().count
    tokens = max(tokens, 0)
    if len(text) <= tokens:
        return text, len(text)
    beginning = text[: tokens * 8]
    used = count(beginning)
    if used <= tokens and len(beginning) == len(text):
        return text, used
    while beginning and used > tokens:
        beginning = beginning[: min(len(beginning) - 1, len(beginning) * tokens // used)]
        used = count(beginning)
    dropped = len(text) - len(beginning)
    return f"{beginning}\n[{dropped:,} more characters {label} are left out]", used


def _summarize_calls(calls: tuple[CallRecord, ...]) -> list[dict[str, Any]]:
    if len(calls) <= _MAX_LISTED_CALLS:
        return [{"tool": call.tool_id, "ok": call.ok, "ms": round(call.ms, 1)} for call in calls]
    rows: dict[tuple[str, bool], dict[str, Any]] = {}
    for call in calls:
        row = rows.setdefault(
            (call.tool_id, call.ok), {"tool": call.tool_id, "ok": call.ok, "ms": 0.0, "count": 0}
        )
        row["ms"] = round(row["ms"] + call.ms, 1)
        row["count"] += 1
    return list(rows.values())


def _describe_call(call: CallRecord) -> str:
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    arguments_text = arguments if len(arguments) <= 120 else f"{arguments[:117]}..."
    return f"{call.tool_id} {arguments_text}" + ("" if call.ok else f" ({call.status})")
