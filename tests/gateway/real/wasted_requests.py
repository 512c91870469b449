"""Which requests of a reader's trial were wasted, and how many scripts ran at once.

Rules that need no judgement, the same for every build. A request is wasted if it is

- `error`: its answer is an error, of the gateway or of the tool. Not counted: the first error of
  each server that cannot answer. A script that failed is an error.
- `list_servers`: any call of it. A search says which servers cannot answer.
- `repeated`: a search with the queries of an earlier one, or with hits that all had their whole
  signature in earlier answers; `get_tool_details` or `read_result` with the arguments of an earlier
  request.
- `details`: `get_tool_details` of tools that all had their whole signature in earlier answers.
- `unused`: a search of whose hits no tool is called later. Not counted: one for each task that no
  tool can do.

Each request counts once, under the first rule that it breaks. A signature is whole if it is not
cut and has the types of optional arguments. Calls of a server's tools are never `repeated`: what
they read may have changed. Whether a model read more of a long result than it needed is not
counted either: no rule can say so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]


def wasted(rows: Sequence[Row], cannot_answer: Iterable[str], impossible: int) -> dict[str, int]:
    """How many requests each rule counts; rules that count none are left out.

    Args:
        rows: the calls of one run in order, as `ask` logged them.
        cannot_answer: servers that do not start, or never answer a call.
        impossible: how many tasks no tool can do.
    """
    counts: dict[str, int] = {}
    signatures: set[str] = set()
    earlier: set[str] = set()
    excused, searches_excused = set(cannot_answer), impossible
    for place, row in enumerate(rows):
        tool_rows = _tool_rows(row)
        names = {str(each["name"]) for each in tool_rows}
        key = _key(row)
        rule = ""
        if row["is_error"]:
            server = _server_of(row)
            if server not in excused:
                rule = "error"
            excused.discard(server)
        elif row["name"] == "list_servers":
            rule = "list_servers"
        elif key in earlier or (row["name"] == "search_tools" and names and names <= signatures):
            rule = "repeated"
        elif row["name"] == "get_tool_details" and set(_asked(row)) <= signatures:
            rule = "details"
        elif row["name"] == "search_tools" and not names & _called_in(rows[place + 1 :]):
            rule = "" if searches_excused > 0 else "unused"
            searches_excused -= 1
        if rule:
            counts[rule] = counts.get(rule, 0) + 1
        if key:
            earlier.add(key)
        signatures |= {str(each["name"]) for each in tool_rows if _is_whole(each)}
        signatures |= _with_stubs(row)
    return counts


def scripts(rows: Iterable[Row]) -> tuple[int, int]:
    """How many scripts there were, and how many of them ran without an error at their first try.

    A script after one that failed is another try of the same one.

    Args:
        rows: the calls of one run in order, as `ask` logged them.
    """
    results = [not row["is_error"] for row in rows if row["name"] == "run_code"]
    first_tries = [ok for ok, before in zip(results, [True, *results], strict=False) if before]
    return len(first_tries), sum(first_tries)


def _key(row: Row) -> str:
    """What makes two requests the same; empty for one that is never a repetition."""
    name, arguments = row["name"], row["arguments"]
    if name == "search_tools":
        queries = [arguments.get("query") or "", *(arguments.get("queries") or [])]
        words = sorted(" ".join(str(query).lower().split()) for query in queries if query)
        rest = {key: arguments[key] for key in arguments if key not in ("query", "queries")}
        return json.dumps([name, words, rest], sort_keys=True)
    if name == "get_tool_details" or (name == "read_result" and len(arguments) > 1):
        return json.dumps([name, arguments], sort_keys=True)
    return ""  # without a range, read_result goes on with the next part


def _asked(row: Row) -> list[str]:
    names = row["arguments"].get("names") or [""]
    return [str(name) for name in names] if isinstance(names, list) else [str(names)]


def _tool_rows(row: Row) -> list[Row]:
    """The tools in the answer of a search or of `get_tool_details`."""
    if row["name"] not in ("search_tools", "get_tool_details"):
        return []
    tools = (row.get("structured") or {}).get("tools", ())
    return [each for each in tools if "error" not in each]


def _is_whole(tool_row: Row) -> bool:
    """Whether a tool in an answer has its definition, or its whole signature."""
    if "definition" in tool_row or "input_schema" in tool_row:
        return True
    signature = tool_row.get("signature")
    return signature is not None and "..." not in signature and ";" not in signature


def _with_stubs(row: Row) -> set[str]:
    """The tools whose stubs an answer has."""
    structured = row.get("structured") or {}
    if row["name"] != "get_tool_details" or "stubs" not in structured:
        return set()
    return set(_asked(row)) - {str(each["name"]) for each in structured["missing"]}


def _called_in(rows: Iterable[Row]) -> set[str]:
    """Ids of the tools that requests called, directly or in a script."""
    called: set[str] = set()
    for row in rows:
        if row["name"] == "run_code":
            calls = (row.get("structured") or {}).get("calls", ())
            called |= {str(call["tool"]) for call in calls if "tool" in call}
        else:
            called.add(str(row["arguments"].get("name", "")))
    return called


def _server_of(row: Row) -> str:
    """The server whose tool a request called; empty for scripts and for the gateway's own tools."""
    return str(row["arguments"].get("name", "")).partition("/")[0]
