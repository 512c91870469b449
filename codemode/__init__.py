"""Code mode: a model writes a short script over its tools, and only the result comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import public

if TYPE_CHECKING:
    from .broker import CallRecord, ToolCallError
    from .grants import ApprovalRequest, Flow, Grant
    from .limits import Limits
    from .monty import MontySandbox
    from .names import ToolNames
    from .result import CodeResult
    from .runner import CodeRunner, run_code
    from .sandbox import Sandbox, ScriptError
    from .stubs import Stubs

_HOMES = {
    "ApprovalRequest": ".grants",
    "CallRecord": ".broker",
    "CodeResult": ".result",
    "CodeRunner": ".runner",
    "Flow": ".grants",
    "Grant": ".grants",
    "Limits": ".limits",
    "MontySandbox": ".monty",
    "Sandbox": ".sandbox",
    "ScriptError": ".sandbox",
    "Stubs": ".stubs",
    "ToolCallError": ".broker",
    "ToolNames": ".names",
    "run_code": ".runner",
}

__all__ = [
    "ApprovalRequest",
    "CallRecord",
    "CodeResult",
    "CodeRunner",
    "Flow",
    "Grant",
    "Limits",
    "MontySandbox",
    "Sandbox",
    "ScriptError",
    "Stubs",
    "ToolCallError",
    "ToolNames",
    "run_code",
]

__getattr__, __dir__ = public(__name__, _HOMES, __all__)
