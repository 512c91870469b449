"""The description of `run_code`, which a model reads before it writes a script."""

from __future__ import annotations

_EXTRACT_SENTENCE = (
    " `await extract(value, kind)` reads a value out of a text with a small model; kind is int, "
    "list[str], {'name': str} or the like, checked."
)


def run_code_description(tools: str, signatures: str, *, extract: bool) -> str:
    """The description of a tool that runs scripts.

    Args:
        tools: text that names the tools of scripts.
        signatures: text that says how the model gets the stubs.
        extract: whether scripts have `extract`.

    Example:
        >>> run_code_description("the tools", "call find_functions", extract=False)[:60]
        'Run a Python script over the tools: loop, filter, join, and '
    """
    text = (
        f"Run a Python script over {tools}: loop, filter, join, and return only "
        f"what matters. Get signatures first: {signatures}. Call "
        "`await server.tool(name=value)`; results are Python values, or text, often JSON; failures "
        "raise RuntimeError, refusals PermissionError. The result is the last expression, or what "
        "return gives; print() adds to it. The script is type-checked first. Import what you use: "
        "asyncio (gather, run, sleep), json, re, math, datetime, collections, itertools, csv. "
        "Missing: files, network, class inheritance, generators, `del`, `async with`, "
        "gather(return_exceptions=). Methods of built-in types are called, not passed on: "
        "key=lambda s: s.lower(), not key=str.lower."
    )
    return text + _EXTRACT_SENTENCE if extract else text
