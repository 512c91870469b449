"""The schema `shortlist` of a database, in versions that `migrate` applies in order.

All tables of a catalog have the column `tenant`; row-level security hides other tenants from a
connection whose setting `shortlist.tenant` is another name. A connection can change that setting. A
role in the table `tenant_roles` sees its tenants only, whatever the setting is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import StoreError

if TYPE_CHECKING:
    from psycopg import Connection

_TENANT_TABLES = ("tools", "postings", "terms", "lengths")

_FIRST = """
CREATE EXTENSION IF NOT EXISTS vector;

CREATE TABLE shortlist.tenants (
    tenant integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    -- The version of the catalog: one more with each change.
    version bigint NOT NULL DEFAULT 0,
    documents integer NOT NULL DEFAULT 0,
    next_number integer NOT NULL DEFAULT 0
);

CREATE FUNCTION shortlist.current_tenant() RETURNS integer LANGUAGE sql STABLE AS
    $$ SELECT tenant FROM shortlist.tenants
        WHERE name = current_setting('shortlist.tenant', true) $$;

-- A row is one definition and never changes. A changed tool is a new row with another number; the
-- old one stays for a while, for engines that still answer with the version before.
CREATE TABLE shortlist.tools (
    tenant integer NOT NULL REFERENCES shortlist.tenants,
    number integer NOT NULL,
    id text COLLATE "C" NOT NULL,
    server text COLLATE "C" NOT NULL,
    server_place integer NOT NULL,
    place integer NOT NULL,
    -- Hash of the definition and of everything else that is indexed of the tool.
    source bytea NOT NULL,
    vector_key bytea NOT NULL,
    definition text NOT NULL,
    -- The tool's postings, so that they can be counted and deleted again.
    terms text[] NOT NULL,
    fields smallint[] NOT NULL,
    lengths integer[] NOT NULL,
    removed timestamptz,
    -- With the key, so that a search by vector reads no definition.
    PRIMARY KEY (tenant, number) INCLUDE (vector_key)
);
CREATE UNIQUE INDEX tools_id ON shortlist.tools (tenant, id) WHERE removed IS NULL;
CREATE INDEX tools_server ON shortlist.tools (tenant, server) WHERE removed IS NULL;
CREATE INDEX tools_removed ON shortlist.tools (tenant, removed) WHERE removed IS NOT NULL;
CREATE INDEX tools_vector ON shortlist.tools (vector_key, tenant) INCLUDE (number);

CREATE TABLE shortlist.postings (
    tenant integer NOT NULL,
    term text COLLATE "C" NOT NULL,
    field smallint NOT NULL,
    number integer NOT NULL,
    count smallint NOT NULL,
    length integer NOT NULL,
    PRIMARY KEY (tenant, term, field, number) INCLUDE (count, length)
);

CREATE TABLE shortlist.terms (
    tenant integer NOT NULL,
    term text COLLATE "C" NOT NULL,
    field smallint NOT NULL,
    documents integer NOT NULL,
    PRIMARY KEY (tenant, term, field)
);

CREATE TABLE shortlist.lengths (
    tenant integer NOT NULL,
    field smallint NOT NULL,
    words bigint NOT NULL,
    PRIMARY KEY (tenant, field)
);

CREATE TABLE shortlist.models (
    model integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fingerprint text NOT NULL UNIQUE,
    dim integer NOT NULL
);

CREATE TABLE shortlist.vectors (
    model integer NOT NULL REFERENCES shortlist.models,
    key bytea NOT NULL,
    values vector NOT NULL,
    PRIMARY KEY (model, key)
);

-- Texts that no worker has encoded yet, of all tenants.
CREATE TABLE shortlist.unencoded (
    model integer NOT NULL REFERENCES shortlist.models,
    key bytea NOT NULL,
    text text NOT NULL,
    queries text[] NOT NULL,
    PRIMARY KEY (model, key)
);

-- Whoever may write may add a model, which needs an index of its own: vectors of one length.
CREATE FUNCTION shortlist.add_model(model_fingerprint text, model_dim integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = shortlist, public, pg_temp AS $$
DECLARE
    number integer;
BEGIN
    SELECT model INTO number FROM shortlist.models WHERE fingerprint = model_fingerprint;
    IF number IS NULL THEN
        INSERT INTO shortlist.models (fingerprint, dim) VALUES (model_fingerprint, model_dim)
            ON CONFLICT DO NOTHING RETURNING model INTO number;
        IF number IS NULL THEN
            -- Another connection has added it meanwhile.
            SELECT model INTO number FROM shortlist.models WHERE fingerprint = model_fingerprint;
        ELSIF model_dim <= 4000 THEN
            -- The longest vectors that pgvector has a graph for; others are compared one by one.
            EXECUTE format(
                'CREATE INDEX vectors_of_%s ON shortlist.vectors USING hnsw '
                '((values::halfvec(%s)) halfvec_ip_ops) WITH (ef_construction = 200) '
                'WHERE model = %s',
                number, model_dim, number
            );
        END IF;
    END IF;
    RETURN number;
END $$;
REVOKE ALL ON FUNCTION shortlist.add_model FROM PUBLIC;

-- Whether the bit of a number is set; numbers beyond the mask are of a newer version.
CREATE FUNCTION shortlist.is_permitted(mask bytea, number integer) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    $$ SELECT CASE WHEN number < 8 * octet_length(mask) THEN get_bit(mask, number) = 1
        ELSE false END $$;

ALTER TABLE shortlist.tenants ENABLE ROW LEVEL SECURITY;
ALTER TABLE shortlist.tenants FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON shortlist.tenants
    USING (name = current_setting('shortlist.tenant', true));
"""


def _own_rows_only(table: str) -> str:
    """Row-level security of a table with the column `tenant`, for its owner too."""
    return f"""
ALTER TABLE shortlist.{table} ENABLE ROW LEVEL SECURITY;
ALTER TABLE shortlist.{table} FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON shortlist.{table}
    USING (tenant = (SELECT shortlist.current_tenant()));
"""


_TEXTS = """
-- What the replicas of a gateway share: sessions, long results, pins, lists of servers.
CREATE TABLE shortlist.texts (
    tenant integer NOT NULL REFERENCES shortlist.tenants,
    kind text NOT NULL,
    key text NOT NULL,
    value text NOT NULL,
    written timestamptz NOT NULL,
    ends timestamptz,
    PRIMARY KEY (tenant, kind, key)
);
CREATE INDEX texts_end ON shortlist.texts (tenant, ends) WHERE ends IS NOT NULL;
"""


_TOOL_VECTORS = """
-- Copies of the vectors, those of one tenant's tools beside each other: to find each of 5,000
-- permitted tools' vectors by the hash of its text would take longer than to search all tools.
CREATE TABLE shortlist.tool_vectors (
    tenant integer NOT NULL,
    model integer NOT NULL,
    number integer NOT NULL,
    key bytea NOT NULL,
    -- NULL until the text is encoded.
    values vector,
    PRIMARY KEY (tenant, model, number)
-- Vectors of up to 2,000 numbers stay in the row.
) WITH (toast_tuple_target = 8160);
CREATE INDEX tool_vectors_key ON shortlist.tool_vectors (model, key);

ALTER TABLE shortlist.tools NO FORCE ROW LEVEL SECURITY;
INSERT INTO shortlist.tool_vectors
    SELECT t.tenant, v.model, t.number, v.key, v.values
    FROM shortlist.tools t JOIN shortlist.vectors v ON v.key = t.vector_key
    ORDER BY t.tenant, v.model, t.number;
INSERT INTO shortlist.tool_vectors
    SELECT t.tenant, u.model, t.number, u.key, NULL
    FROM shortlist.tools t JOIN shortlist.unencoded u ON u.key = t.vector_key
    ON CONFLICT DO NOTHING;
ALTER TABLE shortlist.tools FORCE ROW LEVEL SECURITY;

-- A text that one tenant's engine encodes may be of other tenants' tools too.
CREATE FUNCTION shortlist.copy_vector() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = shortlist, public, pg_temp AS $$
BEGIN
    UPDATE shortlist.tool_vectors SET values = NEW.values
        WHERE model = NEW.model AND key = NEW.key;
    RETURN NULL;
END $$;
CREATE TRIGGER copy_vector AFTER INSERT OR UPDATE OF values ON shortlist.vectors
    FOR EACH ROW EXECUTE FUNCTION shortlist.copy_vector();

-- Not forced: the function above updates rows of all tenants as the owner of the table.
ALTER TABLE shortlist.tool_vectors ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON shortlist.tool_vectors
    USING (tenant = (SELECT shortlist.current_tenant()));
"""


_TENANT_ROLES = """
-- A role that has rows here may use these tenants only. A role without rows may use every tenant.
-- The table has no grants: only its owner reads and writes it.
CREATE TABLE shortlist.tenant_roles (
    role name NOT NULL,
    tenant_name text NOT NULL,
    PRIMARY KEY (role, tenant_name)
);

-- By the role that logged in, which a connection cannot change.
CREATE FUNCTION shortlist.may_use(wanted text) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = shortlist, pg_temp AS $$
    SELECT NOT EXISTS (SELECT FROM shortlist.tenant_roles WHERE role = session_user)
        OR EXISTS (SELECT FROM shortlist.tenant_roles
            WHERE role = session_user AND tenant_name = wanted)
$$;
ALTER POLICY own_tenant ON shortlist.tenants
    USING (name = current_setting('shortlist.tenant', true) AND shortlist.may_use(name));
"""


_OWN_VECTORS = """
-- Vectors of one tenant: shared ones let a tenant decide what the searches of others find.
DROP TRIGGER copy_vector ON shortlist.vectors;
CREATE TEMPORARY TABLE own_vectors ON COMMIT DROP AS
    SELECT DISTINCT ON (tenant, model, key) tenant, model, key, values
    FROM shortlist.tool_vectors WHERE values IS NOT NULL;
TRUNCATE shortlist.vectors;
ALTER TABLE shortlist.vectors DROP CONSTRAINT vectors_pkey,
    ADD COLUMN tenant integer NOT NULL REFERENCES shortlist.tenants,
    ADD PRIMARY KEY (tenant, model, key);
INSERT INTO shortlist.vectors (tenant, model, key, values)
    SELECT tenant, model, key, values FROM own_vectors;

CREATE TEMPORARY TABLE own_unencoded ON COMMIT DROP AS
    SELECT DISTINCT ON (c.tenant, u.model, u.key) c.tenant, u.model, u.key, u.text, u.queries
    FROM shortlist.tool_vectors c
    JOIN shortlist.unencoded u ON u.model = c.model AND u.key = c.key WHERE c.values IS NULL;
TRUNCATE shortlist.unencoded;
ALTER TABLE shortlist.unencoded DROP CONSTRAINT unencoded_pkey,
    ADD COLUMN tenant integer NOT NULL REFERENCES shortlist.tenants,
    ADD PRIMARY KEY (tenant, model, key);
INSERT INTO shortlist.unencoded (tenant, model, key, text, queries)
    SELECT tenant, model, key, text, queries FROM own_unencoded;

DROP INDEX shortlist.tool_vectors_key;
CREATE INDEX tool_vectors_key ON shortlist.tool_vectors (tenant, model, key);
CREATE OR REPLACE FUNCTION shortlist.copy_vector() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = shortlist, public, pg_temp AS $$
BEGIN
    UPDATE shortlist.tool_vectors SET values = NEW.values
        WHERE tenant = NEW.tenant AND model = NEW.model AND key = NEW.key;
    RETURN NULL;
END $$;
CREATE TRIGGER copy_vector AFTER INSERT OR UPDATE OF values ON shortlist.vectors
    FOR EACH ROW EXECUTE FUNCTION shortlist.copy_vector();
"""


MIGRATIONS = (
    _FIRST + "".join(map(_own_rows_only, _TENANT_TABLES)),
    _TEXTS + _own_rows_only("texts"),
    _TOOL_VECTORS,
    _TENANT_ROLES + _OWN_VECTORS + "".join(map(_own_rows_only, ("vectors", "unencoded"))),
)
"""What makes each version of the schema of the one before; the first of an empty database."""

_LOCK = 7_365_201
"""Key of the advisory lock of a migration."""


def migrate(connection: Connection[Any]) -> int:
    """Bring the schema to the newest version; does nothing where it is already there.

    Returns the number of versions that were added.

    Args:
        connection: in autocommit mode, of a role that may create schemas and the extension vector.

    Raises:
        StoreError: the schema is of a newer version of shortlist.
    """
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        connection.execute("CREATE SCHEMA IF NOT EXISTS shortlist")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS shortlist.schema_versions "
            "(version integer PRIMARY KEY, applied timestamptz NOT NULL DEFAULT now())"
        )
        present = _version(connection)
        if present > len(MIGRATIONS):
            raise StoreError(_differs(present))
        for version in range(present + 1, len(MIGRATIONS) + 1):
            connection.execute(MIGRATIONS[version - 1].encode())
            connection.execute(
                "INSERT INTO shortlist.schema_versions (version) VALUES (%s)", [version]
            )
    return len(MIGRATIONS) - present


def limit_role(connection: Connection[Any], role: str, tenant: str) -> None:
    """Let a role use a tenant, and no other tenant that it has not been given too.

    Args:
        connection: in autocommit mode, of the owner of the schema.
        role: role of PostgreSQL that logs in.
        tenant: name of the tenant, which need not exist yet.
    """
    connection.execute(
        "INSERT INTO shortlist.tenant_roles (role, tenant_name) VALUES (%s, %s) "
        "ON CONFLICT DO NOTHING",
        [role, tenant],
    )


def check_version(connection: Connection[Any]) -> None:
    """Refuse a database whose schema is missing or of another version.

    Raises:
        StoreError: names both versions and what to do.
    """
    exists = connection.execute("SELECT to_regclass('shortlist.schema_versions')").fetchone()
    present = 0 if exists is None or exists[0] is None else _version(connection)
    if present != len(MIGRATIONS):
        raise StoreError(_differs(present))


def _version(connection: Connection[Any]) -> int:
    row = connection.execute("SELECT max(version) FROM shortlist.schema_versions").fetchone()
    return 0 if row is None or row[0] is None else int(row[0])


def _differs(present: int) -> str:
    if present > len(MIGRATIONS):
        return (
            f"PostgreSQL: the schema has version {present}, this shortlist knows "
            f"{len(MIGRATIONS)}; install a newer shortlist"
        )
    state = f"the schema has version {present}, not {len(MIGRATIONS)}" if present else "no schema"
    return f"PostgreSQL: {state}; run: shortlist migrate"
