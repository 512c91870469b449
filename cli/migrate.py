"""`shortlist migrate`: the schema of a catalog in PostgreSQL."""

from __future__ import annotations

from typing import Annotated

import typer

from .console import counted, note


def migrate(
    dsn: Annotated[
        str,
        typer.Option(
            metavar="DSN",
            envvar="SHORTLIST_DSN",
            help="Connection string of PostgreSQL, of a role that may create a schema.",
        ),
    ],
    limit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROLE=TENANT",
            help="Let a role use this tenant only; again for several. A role without limits may "
            "use every tenant.",
        ),
    ] = None,
) -> None:
    """Create or update the tables of a catalog in PostgreSQL.

    Run it once, and again with each new version of shortlist. It does nothing where the tables are
    up to date.
    """
    limits = [pair.partition("=") for pair in limit or ()]
    for role, _, tenant in limits:
        if not (role and tenant):
            raise typer.BadParameter("--limit: ROLE=TENANT, such as acme_writer=acme")
    from ..retrieval.postgres import migrations
    from ..retrieval.postgres.database import single_connection

    with single_connection(dsn) as connection:
        added = migrations.migrate(connection)
        for role, _, tenant in limits:
            migrations.limit_role(connection, role, tenant)
    newest = len(migrations.MIGRATIONS)
    if added:
        note(f"schema shortlist: {counted(added, 'version')} applied; it has version {newest}")
    else:
        note(f"schema shortlist: up to date, version {newest}")
