"""`shortlist migrate`."""

from __future__ import annotations

from typer.testing import CliRunner

from shortlist import Config, Engine, Tool
from shortlist.cli.app import app
from shortlist.retrieval.postgres.database import single_connection
from shortlist.retrieval.postgres.migrations import MIGRATIONS

from ..postgres import PostgresServer


def test_migrate_makes_the_schema_once(postgres_server: PostgresServer) -> None:
    dsn = postgres_server.new_database(migrated=False)
    runner = CliRunner()
    first = runner.invoke(app, ["migrate", "--dsn", dsn])
    assert (first.exit_code, f"{len(MIGRATIONS)} versions applied" in first.output) == (0, True)
    again = runner.invoke(app, ["migrate"], env={"SHORTLIST_DSN": dsn})
    assert (again.exit_code, f"up to date, version {len(MIGRATIONS)}" in again.output) == (0, True)
    wrong = runner.invoke(app, ["migrate", "--dsn", dsn, "--limit", "acme"])
    assert (wrong.exit_code, "ROLE=TENANT" in wrong.output) == (2, True)
    for _ in range(2):
        assert not runner.invoke(app, ["migrate", "--dsn", dsn, "--limit", "r=acme"]).exit_code
    with single_connection(dsn) as connection:
        limits = connection.execute("SELECT role, tenant_name FROM shortlist.tenant_roles")
        assert limits.fetchall() == [("r", "acme")]
    config = Config(index={"backend": "postgres", "dsn": dsn}, tiers=["lexical"])
    with Engine.from_tools([Tool("pay", "billing")], config) as engine:
        assert engine.search("pay").ids == ("billing/pay",)


def test_a_database_that_is_not_there_is_named(postgres_server: PostgresServer) -> None:
    result = CliRunner().invoke(app, ["migrate", "--dsn", postgres_server.dsn("absent")])
    assert result.exit_code == 1
    assert '"absent" does not exist' in " ".join(result.output.split())
