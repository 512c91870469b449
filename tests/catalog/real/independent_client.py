"""Builds requests with aiopenapi3, an OpenAPI client that knows nothing of this package.

It runs in an environment of its own. Argument: the document, as JSON. Each line of stdin is a call,
each line of stdout the request or an error.
"""

import json
import sys
from pathlib import Path
from typing import Any

import httpx2
from aiopenapi3 import OpenAPI


def usable(value: Any) -> Any:
    """The document without what changes no request, and what this client does not do as specified.

    It refuses some discriminators, and writes times in another form than it got them.
    """
    if isinstance(value, dict):
        return {
            key: usable(child)
            for key, child in value.items()
            if not (key == "discriminator" and isinstance(child, dict) and "propertyName" in child)
            and (key, child) != ("format", "date-time")
        }
    return [usable(child) for child in value] if isinstance(value, list) else value


def built(api: OpenAPI, call: dict[str, Any], session: httpx2.Client) -> dict[str, Any]:
    request = api.createRequest((call["path"], call["method"]))
    data = call.get("body")
    if data is not None and call["is_form"]:
        content = request.operation.requestBody.content["application/x-www-form-urlencoded"]
        data = content.schema_.get_type().model_validate(data)
    request._prepare(data, call["parameters"])
    made = request._build_req(session)
    return {
        "method": made.method,
        "url": str(made.url),
        "headers": dict(made.headers),
        "content": made.read().decode(),
    }


def main() -> None:
    document = json.loads(Path(sys.argv[1]).read_text())
    document = usable(document)
    # It chooses among several servers at random, and needs one.
    document["servers"] = document.get("servers", [{"url": "https://api.example"}])[:1]
    document["info"].setdefault("version", "1")
    # Security is no part of the comparison.
    document.pop("security", None)
    for item in document["paths"].values():
        for operation in item.values():
            if isinstance(operation, dict):
                operation.pop("security", None)
    url = "https://api.example/document.json"
    api = OpenAPI.loads(url, json.dumps(document), session_factory=httpx2.Client)
    with httpx2.Client() as session:
        for line in sys.stdin:
            try:
                answer = built(api, json.loads(line), session)
            except Exception as error:  # noqa: BLE001 - whatever the client raises
                answer = {"error": f"{type(error).__name__}: {error}"[:300]}
            sys.stdout.write(json.dumps(answer) + "\n")


main()
