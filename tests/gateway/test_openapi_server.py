"""An HTTP API with an OpenAPI document as a server of the gateway, with hostile answers too."""

from __future__ import annotations

import json
import time
from pathlib import Path

import anyio
import httpx2
import mcp.types as types
import pytest
from mcp import Client
from typer.testing import CliRunner

from shortlist.cli.app import app
from shortlist.errors import ConfigError
from shortlist.gateway.clients.client_config import read_client_config
from shortlist.gateway.clients.client_import import entries_with_references
from shortlist.gateway.clients.server_entry import mcp_servers_entry
from shortlist.gateway.connections.login import log_in
from shortlist.gateway.connections.masking import CredentialMask, masked_entry
from shortlist.gateway.connections.openapi_server import _success_result
from shortlist.gateway.connections.server_spec import ServerSpec
from shortlist.gateway.profiles.profile import Profile
from shortlist.gateway.server import Gateway
from shortlist.gateway.upstream.first_use import FirstUsePins
from shortlist.gateway.upstream.server_connection import UpstreamError
from shortlist.tests.gateway.fleets import call, fleet_of, rough, running, text_of, until
from shortlist.tests.gateway.openapi_service import SECRET
from shortlist.tests.gateway.test_transports import listening

pytestmark = pytest.mark.anyio
DOCUMENT = Path(__file__).parent / "billing.yaml"


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
def other_host():
    with listening("openapi_service.py", "http://unused") as server:
        yield f"http://127.0.0.1:{server.port}"


@pytest.fixture(scope="module")
def service(other_host):
    with listening("openapi_service.py", other_host) as server:
        yield f"http://127.0.0.1:{server.port}"


def billing(service: str, document: Path = DOCUMENT, **changed) -> ServerSpec:
    headers = changed.pop("headers", {"Authorization": f"Bearer {SECRET}", "x-tenant": "acme"})
    return ServerSpec(
        name="billing",
        **{
            "transport": "openapi",
            "openapi": str(document),
            "url": f"{service}/v1",
            "headers": headers,
            **changed,
        },
    )


async def test_a_call_is_the_request_of_the_document(tmp_path, service):
    async with running(tmp_path, billing(service)) as fleet:
        listed = await call(fleet, "billing/list_invoices", status="overdue")
        assert not listed.is_error
        assert json.loads(text_of(listed)) == [{"id": 7, "status": "overdue"}]
        arguments = {
            "id_in_path": "a/b c?d#e",
            "id_in_query": 7,
            "labels": ["x", "y&z=1"],
            "X-Request-Id": "r-1",
            "session": "s 1;admin=1",
            "amount": 9.5,
            "note": None,
        }
        made = await call(fleet, "billing/create_invoice", **arguments)
    sent = made.structured_content
    assert sent["method"] == "POST"
    assert sent["path"] == "/v1/echo/customers/a%2Fb%20c%3Fd%23e/invoices"
    assert sent["query"] == "id=7&labels=x&labels=y%26z%3D1"
    assert json.loads(sent["body"]) == {"amount": 9.5, "note": None}
    headers = sent["headers"]
    assert headers["content-type"] == "application/json"
    assert headers["x-request-id"] == "r-1"
    assert headers["cookie"] == "session=s%201%3Badmin=1"
    assert headers["authorization"] == "***"
    assert SECRET not in text_of(made)
    assert headers["x-tenant"] == "acme"
    assert headers["user-agent"].startswith("shortlist/")


async def test_what_the_configuration_sets_is_no_argument(tmp_path, service):
    async with running(tmp_path, billing(service)) as fleet:
        tool = fleet.engine.catalog.get("billing/create_invoice")
        assert "X-Tenant" not in tool.input_schema["properties"]
        assert fleet.engine.view().check(tool.id, {"id_in_path": "a", "amount": 1}).passed
        wrong = {"id_in_path": "a", "amount": 1, "X-Tenant": "other"}
        assert fleet.engine.view().check(tool.id, wrong).status == "invalid"
    without = billing(service, headers={})
    async with running(tmp_path, without) as fleet:
        tool = fleet.engine.catalog.get("billing/create_invoice")
        assert "X-Tenant" in tool.input_schema["required"]


async def test_definitions_say_what_methods_promise(tmp_path, service, monkeypatch):
    # When the gateway stops, this server ends at once.
    monkeypatch.setattr("shortlist.gateway.connections.openapi_server._END_TIMEOUT_S", 60)
    async with running(tmp_path, billing(service)) as fleet:
        catalog = fleet.engine.catalog
        assert catalog.get("billing/list_invoices").annotations["readOnlyHint"] is True
        deleting = catalog.get("billing/delete_invoices")
        assert deleting.annotations["destructiveHint"] is True
        assert deleting.tags == ("deprecated",)
        assert "number" not in catalog.get("billing/create_invoice").input_schema["properties"]
        (first, second) = fleet.problems()["billing"]
        stopped_at = time.perf_counter()
    assert time.perf_counter() - stopped_at < 30
    assert "paths./bad.get: parameters[0].in: must be one of path, query" in first
    assert "'upload' is left out" in second
    assert "https://uploads.billing.example:443" in second


@pytest.mark.parametrize(
    "value", ["..", ".", "../../admin", "a/../../b", "..\\..\\x", "", "%2e%2e/../x"]
)
async def test_a_path_argument_stays_in_its_segment(tmp_path, service, value):
    async with running(tmp_path, billing(service)) as fleet:
        verdict = fleet.engine.view().check("billing/delete_invoices", {"id": value})
        assert verdict.status == "invalid"
        assert verdict.problems[0].path == "/id"
        refused = await call(fleet, "billing/delete_invoices", id=value)
        assert refused.is_error
        assert (await seen(service)).count("/v1/echo/admin") == 0


async def test_a_header_argument_cannot_add_headers(tmp_path, service):
    wrong = {"id_in_path": "a", "amount": 1, "X-Request-Id": "1\r\nAuthorization: Bearer mine"}
    async with running(tmp_path, billing(service)) as fleet:
        verdict = fleet.engine.view().check("billing/create_invoice", wrong)
        assert [problem.path for problem in verdict.problems] == ["/X-Request-Id"]
        before = await seen(service)
        refused = await call(fleet, "billing/create_invoice", **wrong)
        assert refused.is_error
        assert "one line of printable ASCII" in text_of(refused)
        assert await seen(service) == before


async def test_a_redirect_to_another_host_is_refused(tmp_path, service, other_host):
    async with running(tmp_path, billing(service)) as fleet:
        refused = await call(fleet, "billing/elsewhere")
        assert refused.is_error
        assert "redirects to another host" in text_of(refused)
        assert await seen(other_host) == []
        followed = await call(fleet, "billing/moved")
        assert followed.structured_content["path"] == "/v1/echo/moved"
        assert followed.structured_content["headers"]["authorization"] == "***"
        assert "cookie" not in followed.structured_content["headers"]
        endless = await call(fleet, "billing/loop")
        assert text_of(endless) == "the server redirects more than 5 times"


async def test_no_address_replaces_the_configured_credentials(tmp_path, service):
    """Neither the document's nor a redirect's: user information in an address is a credential."""
    address = service.replace("http://", "http://mallory:pw@")
    document = tmp_path / "billing.yaml"
    document.write_text(DOCUMENT.read_text().replace("url: /v2", f'url: "{address}/v2"'))
    async with running(tmp_path, billing(service, document)) as fleet:
        assert "billing/own" not in fleet.engine.catalog
        (problem,) = [one for one in fleet.problems()["billing"] if "'own' is left out" in one]
        assert "user information" in problem
        refused = await call(fleet, "billing/as_mallory")
        assert refused.is_error
        assert "the address has user information" in text_of(refused)


async def test_user_information_of_the_configuration_is_a_credential(tmp_path, service):
    url = service.replace("http://", "http://ada:pass-word-1@")
    async with running(tmp_path, billing(service, url=url, headers={})) as fleet:
        sent = (await call(fleet, "billing/delete_invoices", id="a")).structured_content
    assert sent["headers"]["authorization"] == "***"


SECURITY = """
components:
  securitySchemes:
    token: {type: http, scheme: bearer}
    user: {type: http, scheme: basic}
    key: {type: apiKey, in: query, name: id}
    tenant: {type: apiKey, in: header, name: X-Tenant}
    visit: {type: apiKey, in: cookie, name: session}
security: [{token: []}, {user: []}, {key: [], tenant: [], visit: []}]
"""


@pytest.fixture
def secured(tmp_path):
    document = tmp_path / "secured.yaml"
    document.write_text(DOCUMENT.read_text() + SECURITY)
    return document


async def test_a_credential_is_given_once_by_the_name_of_its_scheme(tmp_path, service, secured):
    given = {"id_in_path": "7", "amount": 9.5}
    keys = {"key": "key & 12345", "tenant": "ten-ant-1", "visit": "vi;sit-12"}
    by_scheme = {"token": SECRET, "user": "ann:pass-word-1"}
    for name, value in by_scheme.items():
        spec = billing(service, secured, headers={}, credentials={name: value})
        async with running(tmp_path, spec) as fleet:
            assert len(fleet.problems()["billing"]) == 2
            sent = await call(fleet, "billing/create_invoice", **given, **{"X-Tenant": "mine"})
            moved = await call(fleet, "billing/moved")
            listed = await call(fleet, "billing/list_invoices")
        for result in (sent, moved):
            assert result.structured_content["headers"]["authorization"] == "***"
        assert listed.is_error is (name != "token")
    async with running(tmp_path, billing(service, secured, headers={}, credentials=keys)) as fleet:
        offered = fleet.engine.catalog.get("billing/create_invoice").input_schema["properties"]
        assert set(offered) == {"id_in_path", "labels", "X-Request-Id", "amount", "note"}
        sent = (await call(fleet, "billing/create_invoice", **given)).structured_content
        moved = (await call(fleet, "billing/moved")).structured_content
        stolen = await call(fleet, "billing/elsewhere")
    for request in (sent, moved):
        assert request["query"] == "id=***"
        assert request["headers"]["x-tenant"] == "***"
        assert request["headers"]["cookie"] == "session=***"
    assert "redirects to another host" in text_of(stolen)
    # A header of the entry counts as given, and is not replaced.
    spec = billing(service, secured, credentials={"user": "ann:pass-word-1"})
    async with running(tmp_path, spec) as fleet:
        assert not (await call(fleet, "billing/list_invoices")).is_error


async def test_a_missing_credential_is_named(tmp_path, service, secured):
    spec = billing(service, secured, headers={}, credentials={"tokn": SECRET})
    async with running(tmp_path, spec) as fleet:
        refused = await call(fleet, "billing/list_invoices")
        missing, unknown, *_ = fleet.problems()["billing"]
    names = "give 'token', or 'user', or 'key' and 'tenant' and 'visit' in `credentials`"
    assert text_of(refused).startswith("HTTP 401")
    assert names in text_of(refused)
    assert names in missing
    assert missing.startswith("21 of 21 operations")
    assert "credentials.tokn: no operation uses this scheme; those used: 'token', 'user'" in unknown
    config = tmp_path / "mcp.json"
    entry = mcp_servers_entry(spec)
    config.write_text(json.dumps({"mcpServers": {"billing": entry}}))
    assert read_client_config(config).servers == (spec,)
    assert masked_entry(entry)["credentials"] == {"tokn": "***"}
    entries, variables = entries_with_references([spec])
    assert entries["billing"]["credentials"] == {"tokn": "${BILLING_TOKN}"}
    assert variables == ("BILLING_TOKN",)
    doctor = await anyio.to_thread.run_sync(
        CliRunner().invoke, app, ["doctor", "--config", str(config), "--json"]
    )
    assert names in doctor.stdout


async def test_answers_are_bounded_once_decoded(tmp_path, service):
    async with running(tmp_path, billing(service)) as fleet:
        bomb = await call(fleet, "billing/bomb")
        assert bomb.is_error
        assert "more than 33,554,432 bytes" in text_of(bomb)
        nested = await call(fleet, "billing/nested")
        assert nested.structured_content is None
        assert len(text_of(nested)) == 200_000
        # The connection is still usable.
        assert not (await call(fleet, "billing/list_invoices")).is_error


@pytest.mark.no_cover
async def test_an_odd_answer_costs_other_calls_no_time(tmp_path, service):
    specs = billing(service), rough(tmp_path, "good")
    async with running(tmp_path, *specs) as fleet:
        await call(fleet, "good/echo")
        answers, longest = {}, {"": 0.0}

        async def ask(name):
            answers[name] = "" if not name else text_of(await call(fleet, f"billing/{name}"))

        async def measure(name):
            start = time.perf_counter()
            await call(fleet, "good/echo")
            longest[name] = max(longest.get(name, 0.0), time.perf_counter() - start)

        for _ in range(20):
            await measure("")
        for name in (
            *("bomb", "bomb_twice", "odd_charset"),
            *("semicolons", "halves", "broken_utf16"),
        ):
            async with anyio.create_task_group() as group:
                group.start_soon(ask, name)
                while name not in answers:
                    await measure(name)
        assert max(longest.values()) < 1.0 + 5 * longest[""], longest
        assert answers["semicolons"] == "a text"
        assert "more than 500,000 damaged characters" in answers["halves"]
        assert "more than 500,000 damaged characters" in answers["broken_utf16"]
        assert "more than one content coding" in answers["bomb_twice"]
        assert answers["odd_charset"].startswith("a-b9")


async def test_a_cut_emoji_does_not_cost_the_structured_result(tmp_path, service):
    async with running(tmp_path, billing(service)) as fleet:
        result = await call(fleet, "billing/cut_emoji")
        assert result.structured_content == {"text": "cut �"}


async def test_a_failed_request_is_an_error_with_a_short_text_without_secrets(tmp_path, service):
    async with running(tmp_path, billing(service)) as fleet:
        failed = await call(fleet, "billing/broken")
    assert failed.is_error
    text = text_of(failed)
    assert text.startswith("HTTP 500 Internal Server Error\nyou sent ***")
    assert SECRET not in text
    assert len(text) < 5_000
    async with running(tmp_path, billing(service, headers={})) as fleet:
        refused = await call(fleet, "billing/list_invoices")
    assert text_of(refused) == 'HTTP 401 Unauthorized\n{"detail":"who are you?"}'


async def test_a_call_ends_at_its_time_limit_and_others_go_on(tmp_path, service):
    async with running(tmp_path, billing(service, timeout_s=1.0)) as fleet:
        with pytest.raises(UpstreamError, match="did not answer within 1 s"):
            await call(fleet, "billing/slow")
        assert not (await call(fleet, "billing/moved")).is_error


async def test_a_host_that_is_gone_is_an_error_that_says_whether_anything_was_sent(
    tmp_path, other_host
):
    with listening("openapi_service.py", other_host) as server:
        address = f"http://127.0.0.1:{server.port}"
        async with running(tmp_path, billing(address)) as fleet:
            server.kill()
            failed = await call(fleet, "billing/list_invoices")
            assert failed.is_error
            assert "no answer of server 'billing'" in text_of(failed)
            assert "effect" not in text_of(failed)
            server.start()
            assert not (await call(fleet, "billing/list_invoices")).is_error


async def test_a_request_without_an_answer_may_have_had_an_effect_unless_it_reads(tmp_path):
    async def close(stream):
        async with stream:
            await stream.receive()

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    address = f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}"
    async with (
        listener,
        running(tmp_path, billing(address)) as fleet,
        anyio.create_task_group() as group,
    ):
        group.start_soon(listener.serve, close)
        read = await call(fleet, "billing/list_invoices")
        assert read.is_error
        assert "try again, or use another tool" in text_of(read)
        given = {"id_in_path": "7", "amount": 9.5}
        with pytest.raises(UpstreamError, match="not known whether the call had an effect"):
            await call(fleet, "billing/create_invoice", **given)
        group.cancel_scope.cancel()


async def test_content_of_other_types(tmp_path, service):
    async with running(tmp_path, billing(service)) as fleet:
        (picture,) = (await call(fleet, "billing/picture")).content
        (archive,) = (await call(fleet, "billing/archive")).content
        nothing = await call(fleet, "billing/nothing")
    assert isinstance(picture, types.ImageContent)
    assert (picture.mime_type, picture.data) == ("image/png", "iVBORw==")
    assert isinstance(archive, types.EmbeddedResource)
    assert archive.resource.mime_type == "application/zip"
    assert text_of(nothing) == "HTTP 204 No Content"


async def test_an_operation_that_changed_is_not_called_as_the_old_one(tmp_path, service):
    document = tmp_path / "billing.yaml"
    document.write_text(DOCUMENT.read_text())
    spec, pins = billing(service, document), tmp_path / "pins.json"
    async with running(tmp_path, spec, pins=FirstUsePins(pins)) as fleet:
        assert fleet.engine.view().check("billing/moved", {}).passed
    # Only where the request goes changes: the description would show another path.
    changed = DOCUMENT.read_text().replace("in: query, schema: {type: integer}", "in: cookie")
    document.write_text(changed)
    async with running(tmp_path, spec, pins=FirstUsePins(pins)) as fleet:
        await until(lambda: "billing/create_invoice" in fleet.engine.quarantined)
        verdict = fleet.engine.view().check("billing/create_invoice", {})
        assert verdict.status == "denied"
        assert fleet.engine.view().check("billing/moved", {}).passed


async def test_the_document_is_read_again_when_it_changes(tmp_path, service, monkeypatch):
    monkeypatch.setattr("shortlist.gateway.upstream.server_lists._MIN_VALID_S", 0.2)
    monkeypatch.setattr("shortlist.gateway.connections.openapi_server._LIST_VALID_MS", 200)
    document = tmp_path / "billing.yaml"
    document.write_text(DOCUMENT.read_text())
    async with running(tmp_path, billing(service, document)) as fleet:
        assert "billing/renamed" not in fleet.engine.catalog
        document.write_text(
            DOCUMENT.read_text().replace("operationId: loop", "operationId: renamed")
        )
        await until(lambda: "billing/renamed" in fleet.engine.catalog)
        document.write_text("no document")
        await until(lambda: any("cannot be read" in one for one in fleet.problems()["billing"]))
        # The operations that were read before are still called.
        assert "more than 5 times" in text_of(await call(fleet, "billing/renamed"))


async def test_through_the_gateway_it_is_a_server_as_any_other(tmp_path, service):
    specs = [billing(service)]
    fleet = fleet_of(tmp_path, *specs)
    reader = Profile(name="reader", tools=("*/list_*", "*/moved"))
    async with anyio.create_task_group() as group:
        await group.start(fleet.run)
        await until(lambda: not fleet.unlisted_servers)
        async with Client(Gateway(fleet, reader).server) as client:
            found = await client.call_tool("search_tools", {"query": "list the invoices"})
            assert "billing/list_invoices" in text_of(found)
            arguments = {"name": "billing/list_invoices", "arguments": {"status": "open"}}
            result = await client.call_tool("call_tool", arguments)
            assert json.loads(text_of(result)) == [{"id": 7, "status": "open"}]
            denied = await client.call_tool(
                "call_tool", {"name": "billing/delete_invoices", "arguments": {"id": "a"}}
            )
            assert denied.is_error
            servers = await client.call_tool("list_servers", {})
            assert "billing" in text_of(servers)
            assert SECRET not in text_of(servers)
        group.cancel_scope.cancel()
    log = (tmp_path / "logs" / "billing.log").read_text()
    assert "GET /invoices 200" in log
    assert SECRET not in log


def test_the_entry_of_a_configuration(tmp_path):
    document = tmp_path / "spec.yaml"
    document.write_text(DOCUMENT.read_text())
    entry = {
        "openapi": "spec.yaml",
        "url": "https://billing.example/v1",
        "headers": {"Authorization": "${TOKEN}"},
        "timeout": 5,
        "tools": {"deny": ["delete_*"]},
    }
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"billing": entry}}))
    (spec,) = read_client_config(path, environment={"TOKEN": f"Bearer {SECRET}"}).servers
    assert (spec.transport, spec.openapi, spec.timeout_s) == ("openapi", str(document), 5)
    assert spec.revealed_headers() == {"Authorization": f"Bearer {SECRET}"}
    assert SECRET not in repr(spec)
    masked = masked_entry({**entry, "headers": {"Authorization": SECRET}})
    assert masked["openapi"] == "spec.yaml"
    assert SECRET not in json.dumps(masked)
    entries, variables = entries_with_references([spec])
    assert variables == ("BILLING_AUTHORIZATION",)
    path.write_text(json.dumps({"mcpServers": {"billing": mcp_servers_entry(spec)}}))
    assert read_client_config(path).servers == (spec,)
    assert SECRET not in json.dumps(entries)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"openapi": "spec.yaml"}, "url: a server over openapi needs an address; add it"),
        ({"openapi": "https://host/spec.json", "url": "https://host"}, "must be a file; download"),
        ({"openapi": 3, "url": "ftp://host"}, "must start with http"),
    ],
)
def test_a_wrong_entry_is_named(tmp_path, entry, reason):
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"billing": entry}}))
    config = read_client_config(path)
    assert config.servers == ()
    assert reason in config.problems[0]


def test_a_spec_needs_its_document():
    with pytest.raises(ValueError, match="openapi: the file with the OpenAPI document is missing"):
        ServerSpec(name="billing", transport="openapi", url="https://host")


async def test_a_query_of_the_address_is_sent_with_every_request(tmp_path, service):
    spec = billing(service, url=f"{service}/v1/?key=k-12345")
    async with running(tmp_path, spec) as fleet:
        sent = (await call(fleet, "billing/delete_invoices", id="a")).structured_content
        own = (await call(fleet, "billing/own")).structured_content
    assert (sent["path"], sent["query"]) == ("/v1/echo/customers/a/invoices", "key=***")
    assert (own["path"], own["query"]) == ("/v2/echo/own", "key=***")


async def test_a_document_that_cannot_be_read_is_its_servers_problem_only(tmp_path, service):
    missing = billing(service, tmp_path / "none.yaml").model_copy(update={"name": "missing"})
    async with running(tmp_path, missing, billing(service)) as fleet:
        (problem,) = fleet.problems()["missing"]
        assert "none.yaml: cannot be read: No such file" in problem
        assert not (await call(fleet, "billing/list_invoices")).is_error


async def test_there_is_no_login_for_it(service):
    with pytest.raises(ConfigError, match="give its token in `credentials`"):
        await log_in(billing(service), None)


def test_doctor_knows_it(tmp_path, service, monkeypatch):
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"billing": mcp_servers_entry(billing(service))}}))
    answer = CliRunner().invoke(app, ["doctor", "--config", str(path), "--json"])
    (server,) = json.loads(answer.stdout)["servers"]
    assert (server["name"], server["status"], server["tools"]) == ("billing", "warn", 21)
    assert any("'upload' is left out" in problem for problem in server["problems"])
    assert SECRET not in answer.output


@pytest.mark.parametrize(
    ("kind", "is_text"),
    [
        ("application/soap+xml", True),
        ("application/xml", True),
        ("application/x-yaml", True),
        ("text/csv", True),
        ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", False),
        ("image/svg+xml", True),
        ("image/png", False),
    ],
)
def test_which_answers_are_text(kind: str, is_text: bool) -> None:
    mask = CredentialMask(ServerSpec(name="a", transport="http", url="https://host"))
    (part,) = _success_result(b"PK", kind, 200, mask).content
    assert isinstance(part, types.TextContent) == is_text


async def seen(host: str) -> list[str]:
    async with httpx2.AsyncClient() as http:
        return (await http.get(f"{host}/seen")).json()
