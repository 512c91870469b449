"""A trial with a language model as the reader: sixteen tasks, only the gateway's tools.

    python -m shortlist.tests.gateway.real.reader_trial prepare RUN --build CHECKOUT
    python -m shortlist.tests.gateway.real.reader_trial start RUN [--build CHECKOUT]
    python -m shortlist.tests.gateway.real.reader_trial report RUN ...
    python -m shortlist.tests.gateway.real.reader_trial stop RUN

`CHECKOUT/.venv/bin/shortlist serve` is the gateway, so that an older build can do the same tasks.
With a build, `start` prepares the run if there is no such folder. The model gets `RUN/TASKS.md`
and calls tools with the program `RUN/ask`. `RUN/requests.jsonl` has every request with its answer.
`report` says what was solved and what it cost (`wasted_requests.py` has the rules); with `--record`
it adds the runs to `lab/results/reader_trial.json`, and replaces those with the same build and
name. The record has runs of one set of tasks: those of another set are dropped.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from .material import SITE
from .reader_tasks import (
    CANNOT_ANSWER,
    IMPOSSIBLE,
    TASK_SET,
    TASKS,
    UNSET_VARIABLE,
    configuration,
    material,
    solved,
    task_texts,
)
from .wasted_requests import scripts, wasted

#: Seconds that the gateway may take to start, and all servers together, on a busy machine.
_FIRST_START = 400
_VERSION = "2025-06-18"

_INSTRUCTIONS = """# {count} tasks

You have one MCP server. Use it with these two commands in a shell, and with nothing else:

    {run}/ask list                 its instructions and its tools
    {run}/ask call TOOL 'JSON'     calls a tool with these arguments

Do not open, search or change any file, database or repository by other means. Run no other program,
and look nothing up. Begin with `ask list`. Send one request at a time, and no more than you need.
You may give up a task that cannot be done.

Your answers go into the file {run}/answers.json. This is the only file that you write yourself. It
is one JSON object; a key is the number of a task, as a string, and its value is your answer, as a
string. For a task that asks for no answer, write `done`, or why it was not done.

{tasks}
"""


def prepare(run: Path, build: Path) -> None:
    """Make the folder of a run, with its material; start nothing.

    Args:
        run: folder that does not exist.
        build: checkout with a `.venv` whose gateway serves the run.
    """
    run.mkdir(parents=True)
    material(run)
    entries = configuration(run / "work")
    settings = {"mcpServers": entries, "shortlist": {"code": True}}
    (run / "mcp.json").write_text(json.dumps(settings, indent=2))
    _write(run, {"build": str(build)})
    ask = run / "ask"
    module = "shortlist.tests.gateway.real.reader_trial"
    imports = f"PYTHONPATH={os.environ.get('PYTHONPATH', '')}"
    ask.write_text(f'#!/bin/sh\n{imports} exec {sys.executable} -m {module} ask {run} "$@"\n')
    ask.chmod(0o755)


def start(run: Path) -> None:
    """Start the web site and the gateway, wait for all servers, and write the tasks.

    Args:
        run: a prepared folder whose run was not started.
    """
    state = _read(run)
    commit = subprocess.run(
        ["git", "-C", state["build"], "rev-parse", "--short=12", "HEAD"],
        check=True,
        capture_output=True,
        text=True,
    )
    # With the PYTHONPATH of this process, the build would import another checkout than its own.
    left_out = (UNSET_VARIABLE, "PYTHONPATH")
    environment = {
        **{name: value for name, value in os.environ.items() if name not in left_out},
        "XDG_CACHE_HOME": str(run / "cache"),
        "XDG_STATE_HOME": str(run / "state"),
    }
    site = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"]
    served = _spawn([*site, "--directory", str(run / "site")], run / "site.log", os.environ)
    port = _line_with(run / "site.log", "port ").partition("port ")[2].split()[0]
    config = run / "mcp.json"
    config.write_text(config.read_text().replace(SITE, f"http://127.0.0.1:{port}"))
    program = str(Path(state["build"]) / ".venv" / "bin" / "shortlist")
    command = [program, "serve", "--config", str(config), "--http", "127.0.0.1:0"]
    gateway = _spawn(command, run / "gateway.log", environment)
    state |= {"commit": commit.stdout.strip(), "processes": [gateway, served]}
    _write(run, state)
    address = _line_with(run / "gateway.log", "http://").strip()
    state |= {"address": address, "session": ""}
    _settle(address.replace("/mcp", "/healthz"))
    hello = {
        "protocolVersion": _VERSION,
        "capabilities": {},
        "clientInfo": {"name": "reader", "version": "1"},
    }
    answer, session = _request(state, "initialize", hello)
    state |= {"session": session, "instructions": answer.get("instructions", "")}
    _request(state, "notifications/initialized", None)
    _write(run, state)
    texts = task_texts(run / "work")
    numbered = "\n".join(f"{at}. {text}" for at, text in enumerate(texts, 1))
    (run / "TASKS.md").write_text(
        _INSTRUCTIONS.format(count=len(texts), run=run, tasks=numbered), encoding="utf-8"
    )


def ask(run: Path, words: list[str]) -> str:
    """The answer to the model's request; the request is logged.

    Args:
        run: folder of a started run.
        words: `list`, or `call`, a tool, and its arguments as JSON.
    """
    state = _read(run)
    if words == ["list"]:
        listed, _ = _request(state, "tools/list", {})
        tools = [
            {key: tool[key] for key in ("name", "description", "inputSchema") if key in tool}
            for tool in listed["tools"]
        ]
        text = state["instructions"] + "\n\n" + json.dumps(tools, ensure_ascii=False)
        return _logged(run, {"list": True}, text)
    if len(words) not in (2, 3) or words[0] != "call":
        return "use: ask list, or ask call TOOL 'JSON'"
    try:
        arguments = json.loads(words[2]) if len(words) == 3 else {}
    except ValueError as error:
        return f"the arguments are not JSON: {error}"
    params = {"name": words[1], "arguments": arguments}
    try:
        result, _ = _request(state, "tools/call", params)
    except RequestError as error:
        return _logged(run, params | {"is_error": True}, f"error: {error}")
    blocks = [
        block["text"] if block["type"] == "text" else f"[{block['type']}]"
        for block in result["content"]
    ]
    text = "\n".join(blocks)
    is_error = bool(result.get("isError"))
    if is_error:
        text = f"error: {text}"
    structured = result.get("structuredContent")
    return _logged(run, params | {"is_error": is_error, "structured": structured}, text)


def report(run: Path) -> dict[str, Any]:
    """What a run solved and what it cost.

    Args:
        run: folder of a run whose model has ended.
    """
    state = _read(run)
    answers: dict[str, str] = {}
    problem = ""
    try:
        answers = {
            str(key): str(value)
            for key, value in json.loads((run / "answers.json").read_text()).items()
        }
    except (OSError, ValueError, AttributeError) as error:
        problem = f"answers.json: {error}"
    rows = [json.loads(line) for line in (run / "requests.jsonl").read_text().splitlines()]
    calls = [row for row in rows if "name" in row]
    by_tool: dict[str, int] = {}
    for call in calls:
        by_tool[call["name"]] = by_tool.get(call["name"], 0) + 1
    done = solved(run / "work", answers)
    script_count, at_once = scripts(calls)
    waste = wasted(calls, CANNOT_ANSWER, IMPOSSIBLE)
    return {
        "run": run.name,
        "commit": state["commit"],
        "tasks": TASK_SET,
        "solved": sum(done),
        "not_solved": [at for at, is_done in enumerate(done, 1) if not is_done],
        "requests": len(calls),
        "wasted": sum(waste.values()),
        "wasted_by_rule": waste,
        "characters": sum(call["characters"] for call in calls),
        "scripts": script_count,
        "scripts_at_once": at_once,
        "requests_by_tool": by_tool,
        "lists": len(rows) - len(calls),
        "characters_of_list": max((row["characters"] for row in rows if "list" in row), default=0),
    } | ({"problem": problem} if problem else {})


def stop(run: Path) -> None:
    """End the gateway with its servers, and the web site.

    Args:
        run: folder of a started run.
    """
    for pid in _read(run).get("processes", ()):
        try:
            os.killpg(pid, signal.SIGINT)
        except ProcessLookupError:
            continue
        end = time.monotonic() + 30
        while _is_running(pid) and time.monotonic() < end:
            time.sleep(0.1)
        if _is_running(pid):
            os.killpg(pid, signal.SIGKILL)


def record(reports: list[dict[str, Any]], command: list[str], folder: Path | None = None) -> Path:
    """Add runs to the record, which has a row for each build; the path of its file.

    Recorded runs stay, also when their folders are gone. One with the same build and name as a new
    one is replaced: later builds had runs of the same names. Runs of another set of tasks are
    dropped. Each run has the time of its report.

    Args:
        reports: of runs on one build or more.
        command: words of the command that made them.
        folder: where the record is; that of all records when absent.
    """
    from shortlist.evals.report import Table
    from shortlist.lab.publishing.record import (
        RESULTS,
        Record,
        provenance,
        read_record,
        record_names,
        write_record,
    )

    folder = folder or RESULTS
    origin = provenance(command)
    recorded: list[dict[str, Any]] = []
    if "reader_trial" in record_names(folder):
        earlier = read_record("reader_trial", folder)
        time_of_report = earlier.origin["measured"]
        recorded = [
            {"reported": time_of_report, **run}
            for run in earlier.result["runs"]
            if run.get("tasks") == TASK_SET
        ]
    new = [{"reported": origin["measured"], **run} for run in reports]
    runs = list({(run["commit"], run["run"]): run for run in [*recorded, *new]}.values())
    rows = []
    for commit in dict.fromkeys(run["commit"] for run in runs):
        runs_of_build = [run for run in runs if run["commit"] == commit]
        figures = [
            "/".join(str(run[key]) for run in runs_of_build)
            for key in ("solved", "requests", "wasted", "characters", "characters_of_list")
        ]
        at_once, script_count = (
            sum(run[key] for run in runs_of_build) for key in ("scripts_at_once", "scripts")
        )
        rows.append([commit, *figures, f"{at_once} of {script_count}"])
    columns = ["build", f"solved of {len(TASKS)}", "requests", "wasted", "characters of answers"]
    columns += ["of list", "scripts that ran at once"]
    table = Table(columns, rows)
    title = (
        "Tasks that a language model did with the gateway's tools alone; a figure for each run; "
        "the command added the last runs"
    )
    return write_record(Record("reader_trial", title, table, {"runs": runs}, origin), folder)


class RequestError(Exception):
    """The gateway answered a request with an error of the protocol."""


def _request(state: dict[str, Any], method: str, params: Any) -> tuple[dict[str, Any], str]:
    """The result of a request over HTTP, and the session's id."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if not method.startswith("notifications/"):
        message["id"] = time.time_ns()
    if params is not None:
        message["params"] = params
    headers = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": _VERSION,
    }
    if state["session"]:
        headers["mcp-session-id"] = state["session"]
    request = urllib.request.Request(
        state["address"], data=json.dumps(message).encode(), headers=headers
    )
    with urllib.request.urlopen(request, timeout=300) as reply:
        session = reply.headers.get("mcp-session-id") or ""
        text = reply.read().decode()
    if "id" not in message:
        return {}, session
    lines = [line.removeprefix("data:").strip() for line in text.splitlines()]
    answers = [json.loads(line) for line in lines if line.startswith("{")]
    answer = next(each for each in answers if each.get("id") == message["id"])
    if "error" in answer:
        raise RequestError(answer["error"]["message"])
    return answer["result"], session


def _logged(run: Path, request: dict[str, Any], text: str) -> str:
    row = {"at": time.time(), **request, "characters": len(text), "text": text}
    with (run / "requests.jsonl").open("a", encoding="utf-8") as log:
        log.write(json.dumps(row, ensure_ascii=False) + "\n")
    return text


def _spawn(command: list[str], log: Path, environment: Any) -> int:
    """Start a process in a group of its own that outlives this one; its id."""
    with log.open("w") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        ).pid


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _line_with(log: Path, words: str) -> str:
    end = time.monotonic() + _FIRST_START
    while time.monotonic() < end:
        for line in log.read_text().splitlines(keepends=True):
            if words in line and line.endswith("\n"):
                return line
        time.sleep(0.1)
    raise AssertionError(f"{log}: no line with {words!r}: {log.read_text()[-1000:]}")


def _settle(health: str) -> None:
    """Wait until no server is at its first start any more."""
    end = time.monotonic() + _FIRST_START
    while True:
        with urllib.request.urlopen(health, timeout=60) as page:
            states = json.load(page)["servers"]
        if not {"configured", "starting"} & set(states):
            sys.stdout.write(f"servers: {states}\n")
            return
        assert time.monotonic() < end, f"not ready after {_FIRST_START} s: {states}"
        time.sleep(1)


def _read(run: Path) -> dict[str, Any]:
    return json.loads((run / "run.json").read_text())


def _write(run: Path, state: dict[str, Any]) -> None:
    (run / "run.json").write_text(json.dumps(state, indent=2))


def main() -> None:
    """Run the command of the command line."""
    if sys.argv[1:2] == ["ask"]:
        sys.stdout.write(ask(Path(sys.argv[2]), sys.argv[3:]) + "\n")
        return
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("prepare", "start", "stop"):
        command = commands.add_parser(name)
        command.add_argument("run", type=Path)
        if name != "stop":
            command.add_argument("--build", type=Path, required=name == "prepare")
    reported = commands.add_parser("report")
    reported.add_argument("runs", type=Path, nargs="+")
    reported.add_argument("--record", action="store_true")
    given = parser.parse_args()
    if given.command == "prepare":
        prepare(given.run.resolve(), given.build.resolve())
    elif given.command == "start":
        if given.build and not given.run.exists():
            prepare(given.run.resolve(), given.build.resolve())
        start(given.run.resolve())
    elif given.command == "stop":
        stop(given.run.resolve())
    else:
        reports = [report(run.resolve()) for run in given.runs]
        for each in reports:
            sys.stdout.write(json.dumps(each, indent=2) + "\n")
        if given.record:
            sys.stdout.write(f"{record(reports, ['python', '-m', __spec__.name, *sys.argv[1:]])}\n")


if __name__ == "__main__":
    main()
