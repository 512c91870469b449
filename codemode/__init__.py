"""Code mode: a model writes a short script over its tools, and only the result comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy_names

if TYPE_CHECKING:
    from .broker import CallRecord
    from .code_result import CodeResult
    from .code_runner import CodeRunner, run_code
    from .grants import ApprovalRequest, Flow, Grant
    from .monty import MontySandbox
    from .sandbox import Limits, Sandbox, ScriptError
    from .script_names import ToolNames
    from .stubs import Stubs

_MODULE_OF_NAME = {
    "ApprovalRequest": ".grants",
    "CallRecord": ".broker",
    "CodeResult": ".code_result",
    "CodeRunner": ".code_runner",
    "Flow": ".grants",
    "Grant": ".grants",
    "Limits": ".sandbox",
    "MontySandbox": ".monty",
    "Sandbox": ".sandbox",
    "ScriptError": ".sandbox",
    "Stubs": ".stubs",
    "ToolNames": ".script_names",
    "run_code": ".code_runner",
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
    "ToolNames",
    "run_code",
]

__getattr__, __dir__ = lazy_names(__name__, _MODULE_OF_NAME, __all__)
