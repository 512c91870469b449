"""The catalog in PostgreSQL: schema, connections, writing and reading tools, searching them."""
