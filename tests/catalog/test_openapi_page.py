"""The example of `docs/sources.md` for OpenAPI documents, against a real HTTP service."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import shortlist
from shortlist.tests.gateway.openapi_service import SECRET
from shortlist.tests.gateway.test_transports import listening
from shortlist.tests.test_docs_code import blocks

PAGE = Path(shortlist.__file__).parent / "docs" / "sources.md"
DOCUMENT = Path(__file__).parents[1] / "gateway" / "billing.yaml"


def test_the_example_finds_checks_and_sends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = [block for block in blocks(PAGE, "python") if "operation.request" in block]
    assert len([line for line in example.splitlines() if line.strip()]) <= 20
    monkeypatch.chdir(tmp_path)
    text = DOCUMENT.read_text().replace("/echo/", "/")
    schemes = "components: {securitySchemes: {billing_token: {type: http, scheme: bearer}}}"
    security = f"{schemes}\nsecurity: [{{billing_token: []}}]\n"
    (tmp_path / "billing.yaml").write_text(text[: text.index("  /bad:")] + security)
    with listening("openapi_service.py", "http://unused") as server:
        address = f"http://127.0.0.1:{server.port}/v1"
        names: dict[str, object] = {}
        exec(compile(example.replace("https://billing.example/v1", address), "page", "exec"), names)
        assert capsys.readouterr().out == "POST /customers/{id}/invoices\n"
        run_tool, engine = names["run_tool"], names["engine"]
        arguments = {"id_in_path": "c 7", "X-Tenant": "acme", "amount": 9.5}
        sent = json.loads(run_tool(engine, "create_invoice", arguments, SECRET))
        assert (sent["method"], sent["path"]) == ("POST", "/v1/customers/c%207/invoices")
        assert sent["headers"]["authorization"] == f"Bearer {SECRET}"
        assert json.loads(sent["body"]) == {"amount": 9.5}
        refused = json.loads(run_tool(engine, "create_invoice", {**arguments, "bogus": 1}, SECRET))
        assert refused["error"] == "invalid_arguments"
        assert refused["problems"][0]["path"] == "/bogus"
