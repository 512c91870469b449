"""Bounds the objects in a server's message before the SDK makes an object of Python's of each.

The SDK reads a message in one block of the event loop, twice, and no thread helps: its parser holds
the interpreter's lock. A result of 20,000 links took 0.4 s, one of 300,000 texts 4 s. Free-form
values, such as structured content and schemas, are copied at no such cost.
"""

from __future__ import annotations

import json
from typing import Any

import mcp.types as types

from ...untrusted import MAX_MESSAGE_OBJECTS, MAX_PAGE_OBJECTS

#: Most parts of a result that stay parts. The rest becomes one text, because it may matter.
MAX_PARTS = 1_000
#: Lists of parts: of a tool's result, a resource and a prompt.
_PARTS_KEYS = ("content", "contents", "messages")
#: Entries of a page of a list, and most of them: one more than the gateway keeps, which it says.
_LIST_KEYS, _MAX_ENTRIES = ("tools", "resources", "resourceTemplates", "prompts", "skills"), 10_001
#: Keys whose values stay as they are.
_FREE_KEYS = frozenset(("structuredContent", "_meta", "inputSchema", "outputSchema"))
_BINARY_KEYS = frozenset(("data", "blob"))


def bounded_message(message: types.JSONRPCMessage) -> types.JSONRPCMessage:
    """The message with a bounded number of objects.

    Of a result with many parts the first ones stay, and the others become one text. Further entries
    of a list are left out. A result that still has too many objects becomes an error, and other
    messages lose their parameters, so that they are refused.

    Args:
        message: a message of a server.
    """
    if isinstance(message, types.JSONRPCResponse):
        result = _bounded_result(message.result)
        # The result of a task holds that of its call.
        if isinstance(inner := result.get("result"), dict):
            result = {**result, "result": _bounded_result(inner)}
        is_page = any(isinstance(result.get(key), list) for key in _LIST_KEYS)
        most = MAX_PAGE_OBJECTS if is_page else MAX_MESSAGE_OBJECTS
        if not _has_more_objects(result, most):
            return message.model_copy(update={"result": result})
        problem = f"the server sent a message of more than {most:,} objects"
        error = types.ErrorData(code=types.INTERNAL_ERROR, message=problem)
        return types.JSONRPCError(jsonrpc="2.0", id=message.id, error=error)
    if isinstance(message, types.JSONRPCError):
        return message
    if _has_more_objects(message.params, MAX_MESSAGE_OBJECTS):
        return message.model_copy(update={"params": None})
    return message


def _bounded_result(result: dict[str, Any]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for key in _PARTS_KEYS:
        if isinstance(parts := result.get(key), list) and len(parts) > MAX_PARTS:
            changes[key] = [*parts[: MAX_PARTS - 1], _in_one_text(key, parts[MAX_PARTS - 1 :])]
    for key in _LIST_KEYS:
        if isinstance(entries := result.get(key), list) and len(entries) > _MAX_ENTRIES:
            changes[key] = entries[:_MAX_ENTRIES]
    return {**result, **changes} if changes else result


def _in_one_text(key: str, parts: list[Any]) -> dict[str, Any]:
    """A part in the place of others, with a line for each and one that says so."""
    shown = [part for part in parts if not _is_media(part)]
    lines = list(map(_line_of, shown))
    if lines:
        lines.insert(0, f"[{len(shown):,} more parts, one a line, as the server wrote them:]")
    if media_count := len(parts) - len(shown):
        lines.append(f"[{media_count:,} more images or sounds are left out]")
    text = "\n".join(lines)
    if key == "contents":
        first = parts[0] if isinstance(parts[0], dict) else {}
        return {"uri": first.get("uri", ""), "text": text}
    part = {"type": "text", "text": text}
    return {"role": "user", "content": part} if key == "messages" else part


def _is_media(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") in ("image", "audio")


def _line_of(part: Any) -> str:
    """The text of a part, or its JSON without binary content."""
    if isinstance(part, dict):
        if part.get("type") == "text" and isinstance(part.get("text"), str):
            return str(part["text"])
        part = {key: value for key, value in part.items() if key not in _BINARY_KEYS}
    return json.dumps(part, ensure_ascii=False)


def _has_more_objects(value: Any, most: int) -> bool:
    """Whether a value has more than so many objects, besides free-form values."""
    count, waiting = 0, [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            count += 1
            if count > most:
                return True
            waiting += [child for key, child in value.items() if key not in _FREE_KEYS]
        elif isinstance(value, list):
            waiting += [child for child in value if isinstance(child, dict | list)]
    return False
