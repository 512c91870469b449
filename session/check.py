"""After the model: whether a call may go ahead, and if not, what would mend it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ..catalog import Tool
from ..errors import UnknownToolError
from ..gating import Refusal
from .arguments import Problem

#: `passed`: go ahead. `promoted`: not offered before, is now, to be called again with its schema
#: seen. `invalid`: offered, but the arguments do not fit. `denied`: the gate keeps it back.
#: `unknown`: no such tool.
Status = Literal["passed", "promoted", "invalid", "denied", "unknown"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to a call a model wants to make.

    Args:
        status: see `Status`.
        asked: the name the model called.
        tool: the tool meant; None where there is none or it is held back.
        refusal: why it is held back.
        nearest: ids of admitted tools spelt like an unknown one.
        problems: what is wrong with the arguments.
    """

    status: Status
    asked: str
    tool: Tool | None = None
    refusal: Refusal | None = None
    nearest: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether the call may go ahead."""
        return self.status == "passed"

    @property
    def message(self) -> str:
        """What to tell the model, in a sentence or two."""
        if self.tool is not None and self.status == "passed":
            return f"{self.tool.id} may be called."
        if self.tool is not None and self.status == "promoted":
            return (
                f"{self.tool.id} was not among the tools offered. It is now: call it again with "
                "arguments that fit its input_schema."
            )
        if self.status == "invalid":
            listed = "; ".join(map(str, self.problems))
            return f"The arguments do not fit: {listed}. Mend them and call again."
        if self.refusal is not None:
            led = ", ".join(self.refusal.unlocked_by)
            way = f" Call {led} first." if led else ""
            return f"{self.refusal.tool_id} may not be used now: {self.refusal.reason}.{way}"
        near = f" Nearest: {', '.join(self.nearest)}." if self.nearest else ""
        return f"There is no tool {self.asked!r}.{near}"

    def to_dict(self) -> dict[str, Any]:
        """What the model is answered with, JSON-able.

        `{"error": "tool_not_available", ...}` for a tool that was not offered, is held back or does
        not exist, extended by what mends it; `{"error": "invalid_arguments", ...}` for arguments.
        """
        if self.status == "passed":
            return {"status": "passed", "tool": self.tool.id if self.tool else self.asked}
        held: dict[str, Any] = {
            "error": "invalid_arguments" if self.status == "invalid" else "tool_not_available",
            "tool": self.asked,
            "status": self.status,
            "message": self.message,
        }
        if self.tool is not None:
            held["tool"] = self.tool.id
        if self.status == "promoted" and self.tool is not None:
            held["input_schema"] = self.tool.input_schema
            held["description"] = self.tool.description
        if self.refusal is not None:
            held |= self.refusal.to_dict()
        if self.status == "unknown":
            held["nearest"] = list(self.nearest)
        if self.problems:
            held["problems"] = [problem.to_dict() for problem in self.problems]
        return held


def unresolved(asked: str, found: Refusal | UnknownToolError) -> Verdict:
    """The verdict on a name that stands for no tool that may be used."""
    if isinstance(found, Refusal):
        return Verdict("denied", asked, refusal=found)
    return Verdict("unknown", asked, nearest=found.nearest)
