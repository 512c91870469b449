"""Code mode: a model writes a short script over its tools, and only the result comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy_names

if TYPE_CHECKING:
    from .broker import CallRecord as CallRecord
    from .code_result import CodeResult as CodeResult
    from .code_runner import CodeRunner as CodeRunner
    from .code_runner import run_code as run_code
    from .grants import ApprovalRequest as ApprovalRequest
    from .grants import Flow as Flow
    from .grants import Grant as Grant
    from .monty import MontySandbox as MontySandbox
    from .sandbox import Limits as Limits
    from .sandbox import Sandbox as Sandbox
    from .sandbox import ScriptError as ScriptError
    from .script_names import ToolNames as ToolNames
    from .stubs import Stubs as Stubs

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

__all__ = [*_MODULE_OF_NAME]

__getattr__, __dir__ = lazy_names(__name__, _MODULE_OF_NAME, __all__)
