"""A database server is killed under load, and its replica takes over."""

from __future__ import annotations

import pytest

pytest.importorskip("psycopg", reason="PostgreSQL: psycopg is not installed")

from .failover_process import SERVERS, TOOLS
from .measure_failover import TENANTS, fail_over


@pytest.mark.long
def test_no_acknowledged_change_is_lost_and_nobody_sees_half_a_version() -> None:
    seen = fail_over()
    for tenant in TENANTS:
        writes = seen.written[tenant]
        assert any(row["at"] > seen.killed_at for row in writes)
        for place in range(SERVERS):
            server = f"{tenant}{place}"
            numbers = seen.last[tenant, server]
            assert len(numbers) == 1
            acknowledged = [row["number"] for row in writes if row["server"] == server]
            assert max(numbers) >= max(acknowledged)
        for rows in seen.read[tenant]:
            answers = [row for row in rows if "error" not in row]
            assert any(row["at"] > seen.killed_at for row in answers)
            newest = 0
            for row in answers:
                assert row["tenants"] == [tenant]
                assert len(row["tools"]) == SERVERS * TOOLS
                # All tools of a server are of one version.
                versions = {tuple(pair) for pair in row["tools"]}
                assert len(versions) == SERVERS
                newest = max(newest, *(number for _, number in versions))
            # Each reader follows, also one that asks the replica.
            assert newest > max(row["number"] for row in writes) / 2
            before = [row for row in answers if row["at"] < seen.killed_at]
            assert len({str(row["tools"]) for row in before}) > 5
