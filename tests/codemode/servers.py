"""In-process servers for tests of scripts: logs to read, issues to write, and tools that fail."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from shortlist import Engine, State, Tool
from shortlist.codemode import CodeResult, CodeRunner, run_code
from shortlist.errors import ToolCallError

READS = {"readOnlyHint": True}
DESTROYS = {"destructiveHint": True}


def schema(required: str = "", **properties) -> dict:
    return {
        "type": "object",
        "properties": properties,
        "required": required.split(),
        "additionalProperties": False,
    }


TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
PERSON = schema("name", name=TEXT, age=NUMBER)
ENTRY = schema("level message", level=TEXT, message=TEXT, at=NUMBER)

TOOLS = [
    Tool(
        "read",
        "logs",
        "Reads log entries.",
        schema(offset=NUMBER | {"default": 0}, limit=NUMBER | {"default": 100}),
        output_schema=schema("entries", entries={"type": "array", "items": ENTRY}, next=NUMBER),
        annotations=READS,
    ),
    Tool("count-lines", "logs", "Counts entries.", schema(), annotations=READS),
    Tool(
        "create",
        "issues",
        "Creates an issue.",
        schema(
            "title",
            title=TEXT,
            state={"enum": ["open", "closed"], "default": "open"},
            labels={"type": "array", "items": TEXT},
            reporter=PERSON,
            **{"assigned-to": TEXT},
        ),
        output_schema=schema("number title", number=NUMBER, title=TEXT),
    ),
    Tool(
        "delete",
        "issues",
        "Deletes an issue.",
        schema("number", number=NUMBER),
        annotations=DESTROYS,
    ),
    Tool("list", "issues", "Lists issues.", schema(), annotations=READS),
    Tool("fails", "issues", "Always fails.", schema()),
    Tool("wait", "issues", "Waits.", schema("seconds", seconds={"type": "number"})),
    Tool("secret", "issues", "Reads secrets.", schema(), annotations=READS),
    Tool("post", "web", "Posts a text.", schema("text", text=TEXT)),
    Tool("hidden", "vault", "Opens the vault.", schema()),
]
RULES = {"rules": [{"tools": ["issues/secret"], "needs": {"scope": "admin"}}]}
ALLOWED = ["logs/*", "issues/*", "web/*"]


@dataclass
class Servers:
    """What the tools did; `call` makes a call."""

    calls: list[tuple[str, dict]] = field(default_factory=list)
    issues: list[dict] = field(default_factory=list)
    waiting: int = 0
    stopped: int = 0
    entries: int = 500

    async def call(self, tool, arguments):
        self.calls.append((tool.id, dict(arguments)))
        return await getattr(self, tool.name.replace("-", "_"))(
            **{key.replace("-", "_"): value for key, value in arguments.items()}
        )

    async def read(self, offset=0, limit=100):
        places = range(offset, min(offset + limit, self.entries))
        entries = [
            {
                "level": "error" if at % 5 == 0 else "info",
                "message": f"failure {at % 3}"
                if at % 5 == 0
                else f"request {at} served in {at} ms",
                "at": at,
            }
            for at in places
        ]
        return {"entries": entries, "next": min(offset + limit, self.entries)}

    async def count_lines(self):
        return str(self.entries)

    async def create(self, **given):
        issue = {"number": len(self.issues) + 1, "title": given["title"]}
        self.issues.append(given)
        return issue

    async def delete(self, number):
        return f"deleted {number}"

    async def list(self):
        return [{"type": "text", "text": one["title"]} for one in self.issues]

    async def fails(self):
        raise ToolCallError("the disk is full")

    async def wait(self, seconds):
        self.waiting += 1
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.stopped += 1
            raise
        return "waited"

    async def secret(self):
        return "hunter2"

    async def post(self, text):
        return f"posted {len(text)}"

    async def hidden(self):
        return "open"


ENGINE = Engine.from_tools(TOOLS, tiers=["lexical"], gate=RULES)


def new_session(**changed):
    return ENGINE.session(**{"state": State(), "allowed": ALLOWED, **changed})


class Sandbox:
    """Runs scripts in one process, which is started by the first one."""

    _shared: Sandbox

    def __init__(self, loop: asyncio.Runner) -> None:
        self._loop, self._runner = loop, CodeRunner()

    @classmethod
    @contextmanager
    def shared_by_a_file(cls) -> Iterator[None]:
        with asyncio.Runner() as loop:
            cls._shared = cls(loop)
            yield
            loop.run(cls._shared._runner.aclose())

    @classmethod
    def run(cls, session, code, call, *, limits=None, **options) -> CodeResult:
        """The result of a script; one with limits of its own gets a process of its own."""
        if limits is not None:
            return asyncio.run(run_code(session, code, call, limits=limits, **options))
        loop, runner = cls._shared._loop, cls._shared._runner
        return loop.run(runner.run(session, code, call, **options))
