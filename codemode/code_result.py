"""The outcome of a script: its result, its output, its calls and its error."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..loaders.counting import bundled_counter
from .broker import CallRecord
from .sandbox import ScriptError

#: Most calls in the list. If there are more, each tool has one line.
_LISTED = 20
_EFFECTS = 20


@dataclass(frozen=True, slots=True)
class CodeResult:
    """The outcome of a script.

    Args:
        value: value of the last expression, or of `return`, not shortened.
        output: printed text, not shortened.
        calls: all calls, in the order of their end.
        error: the error; None if there was none.
        append: in a session with a format, messages to add to the conversation after the answer:
            definitions of the called tools that were not offered before.
    """

    value: Any
    output: str
    calls: tuple[CallRecord, ...]
    error: ScriptError | None
    append: tuple[Mapping[str, Any], ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the script ended without an error."""
        return self.error is None

    @property
    def effects(self) -> tuple[CallRecord, ...]:
        """Calls that may have changed something: calls of tools that are not read-only."""
        return tuple(call for call in self.calls if call.effect)

    def to_dict(self, *, tokens: int | None = None) -> dict[str, Any]:
        """The answer to the model: `result`, `output`, `calls`, `error`.

        Args:
            tokens: token budget (cl100k_base) for `result` and `output` together. A longer text is
                cut, with a note about its length. None for no limit.
        """
        held: dict[str, Any] = {"result": self.value, "output": self.output}
        if tokens is not None:
            output, used = _cut(self.output, tokens // 2, "printed")
            held["output"] = output
            text = json.dumps(self.value, ensure_ascii=False)
            shown, _ = _cut(text, tokens - used, "of the result")
            if shown is not text:
                held["result"] = shown
        held["calls"] = _summary(self.calls)
        held["error"] = None if self.error is None else self.error.to_dict()
        if self.error is not None and (made := self.effects):
            held["error"]["effects"] = [_line(call) for call in made[:_EFFECTS]]
            held["error"]["note"] = (
                f"calls that may have changed something before the script failed: {len(made)}; "
                "do not repeat those that succeeded"
            )
        return held


def _cut(text: str, tokens: int, what: str) -> tuple[str, int]:
    """A text cut to a budget (the same object if it fits), and its tokens."""
    count = bundled_counter().count
    tokens = max(tokens, 0)
    if len(text) <= tokens:
        return text, len(text)
    begins = text[: tokens * 8]
    used = count(begins)
    if used <= tokens and len(begins) == len(text):
        return text, used
    while begins and used > tokens:
        begins = begins[: min(len(begins) - 1, len(begins) * tokens // used)]
        used = count(begins)
    left = len(text) - len(begins)
    return f"{begins}\n[{left:,} more characters {what} are left out]", used


def _summary(calls: tuple[CallRecord, ...]) -> list[dict[str, Any]]:
    if len(calls) <= _LISTED:
        return [{"tool": one.tool, "ok": one.ok, "ms": round(one.ms, 1)} for one in calls]
    rows: dict[tuple[str, bool], dict[str, Any]] = {}
    for one in calls:
        row = rows.setdefault(
            (one.tool, one.ok), {"tool": one.tool, "ok": one.ok, "ms": 0.0, "count": 0}
        )
        row["ms"] = round(row["ms"] + one.ms, 1)
        row["count"] += 1
    return list(rows.values())


def _line(call: CallRecord) -> str:
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    shown = arguments if len(arguments) <= 120 else f"{arguments[:117]}..."
    return f"{call.tool} {shown}" + ("" if call.ok else f" ({call.status})")
