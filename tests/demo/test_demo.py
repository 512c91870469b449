from __future__ import annotations

import pytest
from jsonschema import Draft202012Validator

from shortlist import demo
from shortlist.loaders.token_tax import token_tax

TOKENS = {"github": 520, "filesystem": 180, "database": 410, "slack": 290, "web": 220, "jira": 470}
COUNTS = {"github": 30, "filesystem": 10, "database": 20, "slack": 15, "web": 10, "jira": 35}


@pytest.fixture(scope="module")
def catalog():
    return demo.load_catalog()


def test_six_servers_of_120_tools(catalog):
    tax = token_tax(catalog, k=10, encoding="cl100k_base")
    assert {server: count for server, (count, _) in tax.server_tokens.items()} == COUNTS
    assert catalog.servers == demo.SERVERS
    assert not catalog.collisions


@pytest.mark.parametrize("server", TOKENS)
def test_a_server_averages_the_testbeds_tokens(catalog, server):
    tax = token_tax(catalog, k=10, encoding="cl100k_base")
    count, tokens = tax.server_tokens[server]
    assert tokens / count == pytest.approx(TOKENS[server], rel=0.1)


def test_every_schema_is_a_json_schema_with_described_parameters(catalog):
    for tool in catalog:
        schema = tool.input_schema
        Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object", tool.id
        assert set(schema.get("required", ())) <= set(schema["properties"]), tool.id
        assert all(parameter.description for parameter in tool.parameters), tool.id


def test_schemas_are_realistic(catalog):
    parameters = [parameter for tool in catalog for parameter in tool.parameters]
    assert sum(bool(parameter.enum) for parameter in parameters) > 100
    assert sum("." in parameter.path for parameter in parameters) > 100
    assert sum(parameter.required for parameter in parameters) > 100


def test_nothing_had_to_be_cleaned(catalog):
    assert not [tool.id for tool in catalog if tool.cleaned]


def test_requests_name_tools_that_exist(catalog):
    requests = demo.load_requests()
    assert len(requests) == 12
    for request in requests:
        assert request.query.strip() == request.query != ""
        assert request.relevant
        for tool in request.relevant:
            assert tool in catalog
