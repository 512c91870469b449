"""Scripts run in copies of a process that has imported the MCP SDK, which takes most of a test.

`warm(SCRIPT, ARGUMENTS)` gives the arguments of Python for a process that connects its standard
streams to such a copy. It ends when the copy does, with its exit code, and the copy ends with it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from functools import cache


def warm(script: str, *arguments: str) -> tuple[str, ...]:
    """Arguments of Python that run a script."""
    return ("-I", "-S", __file__, _served(), script, *arguments)


@cache
def _served() -> str:
    """The address of the process that is copied. It is started once and ends with this one."""
    import atexit
    import subprocess
    import tempfile
    from pathlib import Path

    folder, pipe = tempfile.TemporaryDirectory(prefix="warm"), subprocess.PIPE
    address = str(Path(folder.name) / "socket")
    server = subprocess.Popen([sys.executable, __file__, address], stdin=pipe, stdout=pipe)
    assert server.stdout.read(1)
    atexit.register(folder.cleanup)
    atexit.register(server.communicate)
    return address


def serve(address: str) -> None:
    """Copy this process for every connection, until standard input ends."""
    import gc
    from importlib import import_module

    for name in ("mcp.server.mcpserver", "mcp.server.stdio", "uvicorn", "anyio._backends._asyncio"):
        import_module(name)
    gc.freeze()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    os.write(1, b"1")
    os.dup2(2, 1)
    while True:
        ready, _, _ = select.select([listener, 0], [], [], 1)
        if 0 in ready:
            return
        if listener in ready:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _watch(connection)
            connection.close()
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _watch(connection: socket.socket) -> None:
    """Run a script in another copy; end it with the connection, and say how it ended."""
    text, streams, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    folder, environment, arguments = json.loads(text)
    ended, alive = os.pipe()
    copy = os.fork()
    if copy == 0:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        for number in (*streams, ended, connection.fileno()):
            os.close(number)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        _run(arguments)
    for number in (*streams, alive):
        os.close(number)
    ready, _, _ = select.select([connection, ended], [], [])
    if ended not in ready:
        os.kill(copy, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])
    with suppress(OSError):
        connection.send(bytes([code % 256]))
    os._exit(0)


def _run(arguments: list[str]) -> None:
    import runpy
    import traceback

    code = 0
    sys.argv[:] = arguments
    try:
        runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - as Python does at its end
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    os._exit(code)


def connect(address: str, arguments: list[str]) -> int:
    """The exit code of a script that has this process's standard streams."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        text = json.dumps([os.getcwd(), dict(os.environ), arguments]).encode()  # noqa: PTH109 - pathlib is slow to import
        socket.send_fds(connection, [text], [0, 1, 2])
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        return (connection.recv(1) or b"\xff")[0]


if __name__ == "__main__":
    if len(sys.argv) == 2:
        serve(sys.argv[1])
    else:
        os._exit(connect(sys.argv[1], sys.argv[2:]))
