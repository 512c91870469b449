"""`shortlist doctor --config`: starts every server of a file and says what is wrong."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ...errors import ConfigError, install_command
from ..console import counted, first_lines, note, plain_table, show
from ..trust import change_lines
from .configured_servers import logs_silenced, read_gateway_files

if TYPE_CHECKING:
    from rich.table import Table

    from ...config import Config
    from ...engine import Engine
    from ...gateway.clients.client_config import ClientConfig
    from ...gateway.connections.server_log import LogTail
    from ...gateway.observe.server_inspection import ServerReport
    from ...gateway.profiles.gateway_settings import GatewaySettings
    from ...gateway.profiles.profile import ScriptGrants
    from ...trust import DefinitionChange, Finding, Flag, Pins

Status = Literal["ok", "warn", "fail", "off"]
_STYLE_BY_STATUS = {"ok": "green", "warn": "yellow", "fail": "bold red", "off": "dim"}
_STDERR_PREFIX = "stderr: "
"""Start of a problem that quotes the end of a server's stderr."""
_MAX_TOOLS_SHOWN = 5
"""Tools shown of each kind; the JSON holds all."""
_NAME_COLUMNS = 30
"""Columns of a server's name."""


@dataclass(frozen=True, slots=True)
class ServerCheck:
    """One server of the file; the fields are those of the JSON form.

    Args:
        name: name of the server.
        status: `fail`, it is not served; `warn`, it has a problem or a flagged tool; `off`,
            disabled.
        tools: how many it lists.
        tokens: tokens of their definitions.
        ms: milliseconds of its start, None where it did not start.
        problems: one line each.
        known: servers of the package's example queries to the number of tools that are
            recognised as theirs; see `docs/enrichment.md`.
    """

    name: str
    status: Status
    tools: int = 0
    tokens: int = 0
    ms: float | None = None
    problems: tuple[str, ...] = ()
    known: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServersReport:
    """All servers of a file.

    Args:
        file: the file.
        settings: file of the gateway's settings, if it was given or a client's entry names it.
        servers: servers in the order of the file.
        problems: problems of the file itself.
        flags: tool id to what trust found.
        changes: definitions that differ from their pin.
        needs_look: tool id to why a person should read its definition; it is offered.
        script_grants: grants of the scripts of each profile.
        unused_ids_by_file: file of example queries to the ids in it that no server has.
        lint_counts: server to the findings of `shortlist lint` that need no search.
        other_language_queries: recorded queries that are not English, where only the bundled
            encoder reads them.
    """

    file: Path
    settings: Path | None
    servers: tuple[ServerCheck, ...]
    problems: tuple[str, ...]
    flags: Mapping[str, Flag]
    changes: tuple[DefinitionChange, ...] = ()
    needs_look: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)
    script_grants: tuple[ScriptGrants, ...] = ()
    unused_ids_by_file: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    lint_counts: Mapping[str, str] = field(default_factory=dict)
    other_language_queries: int = 0

    @property
    def is_quarantining(self) -> bool:
        """Whether a tool waits for approval."""
        return any(flag.level == "quarantine" for flag in self.flags.values())

    @property
    def ok(self) -> bool:
        """Whether every server and every tool that they list is served."""
        has_problems = any(server.status == "fail" or server.problems for server in self.servers)
        return not (self.is_quarantining or has_problems or self.problems)

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "ok": self.ok,
            "servers": [asdict(server) for server in self.servers],
            "problems": list(self.problems),
            "changed": [change.to_dict() for change in self.changes],
            "needs_look": {
                tool_id: [finding.to_dict() for finding in findings]
                for tool_id, findings in self.needs_look.items()
            },
            "scripts": [grants.to_dict() for grants in self.script_grants],
            "unused_examples": {path: list(ids) for path, ids in self.unused_ids_by_file.items()},
            "lint": dict(self.lint_counts),
            "other_language_queries": self.other_language_queries,
            "flagged": [
                {
                    "id": tool_id,
                    "level": flag.level,
                    "reasons": list(flag.reasons),
                    "to_do": self.approve_command(tool_id),
                }
                for tool_id, flag in self.flags.items()
            ],
        }

    def approve_command(self, tool_id: str) -> str:
        """The command that approves a tool's definition."""
        words = ["shortlist", "trust", "approve", tool_id, "--config", str(self.file)]
        if self.settings is not None:
            words += ["--settings", str(self.settings)]
        # A server chose the tool's name: a shell must not run it.
        return shlex.join(words)


def check_servers(config: Path, settings: Path | None) -> ServersReport:
    """Start every server of a file.

    Raises:
        MissingExtraError: the extra `gateway` is not installed.
        ConfigError: a file cannot be read, or a setting is wrong.
        PinsError: the file of pins cannot be read.
    """
    files = read_gateway_files(config, settings)
    client_config = files.client_config
    import anyio

    from ...catalog import Catalog
    from ...enrichment import read_example_queries
    from ...enrichment.library import Library
    from ...enrichment.tool_examples import LIBRARY
    from ...evals.definition_lint import finding_counts
    from ...gateway.connections.server_log import LogTail
    from ...gateway.observe.server_inspection import MAX_PARALLEL_STARTS, inspect_servers
    from ...gateway.profiles.profile import script_grants
    from ...trust import Pins, Trust, needs_look, quarantined

    # A gateway creates the file when it first runs.
    pins = files.pins if files.pins.exists() else None
    settings_of_engine = files.settings.engine_config()
    trust = {**settings_of_engine.trust.model_dump(), "pins": pins}
    # Nothing is searched here: no vectors are needed.
    engine = {"tiers": ["lexical"], "default_tier": "lexical", "trust": trust}
    with logs_silenced():
        fleet = files.fleet(engine)
        running = [spec for spec in client_config.servers if not spec.disabled]
        if running:
            longest = max(spec.start_timeout_s for spec in running)
            note(
                f"starting {counted(len(running), 'server')}, {MAX_PARALLEL_STARTS} at a time, "
                f"each for at most {longest:g} s"
            )
        elif not client_config.servers and not client_config.problems:
            note(f"{files.path}: no servers; add them under mcpServers")
        tails = {spec.name: LogTail(spec) for spec in running}
        reports = anyio.run(inspect_servers, fleet)
    flags, catalog = fleet.engine.flags, fleet.engine.catalog
    accepted = Pins() if pins is None else Pins.read(pins)
    skills = fleet.listed_tools.skill_tools()
    definitions = Catalog([*catalog, *skills])
    settings_of_trust = settings_of_engine.trust
    trust_of_skills = Trust(
        scans=settings_of_trust.scan, pins=accepted, approved=settings_of_trust.approved
    )
    flags = {**flags, **trust_of_skills.flags(Catalog(skills))}
    uses_library = LIBRARY in settings_of_engine.index.example_queries
    library_servers = Library().servers(catalog) if uses_library else {}
    file_problems = _file_problems(client_config)
    unused_ids_by_file: dict[str, tuple[str, ...]] = {}
    unavailable_servers = {report.name for report in reports if not report.available}
    unavailable_servers |= client_config.unusable_servers.keys()
    unavailable_servers |= {spec.name for spec in client_config.servers if spec.disabled}
    if not unavailable_servers:  # a rule may concern their tools
        file_problems += _rule_problems(files.settings, settings_of_engine, fleet.engine)
        names = [spec.name for spec in client_config.servers]
        file_problems += _unmatched_globs(files.settings, fleet.engine, names)
    for path in settings_of_engine.index.example_queries:
        if path == LIBRARY:
            continue
        try:
            rows = read_example_queries([path])
        except ConfigError as error:
            file_problems.append(f"engine.index.example_queries: {error}")
            continue
        # A row with a fingerprint belongs to a definition, whatever the id of its tool is.
        ids = dict.fromkeys(row.tool for row in rows if row.fingerprint is None)
        if unused := tuple(
            tool_id
            for tool_id in ids
            if tool_id not in catalog and tool_id.partition("/")[0] not in unavailable_servers
        ):
            unused_ids_by_file[str(path)] = unused
    return ServersReport(
        file=files.path,
        settings=files.settings_path,
        servers=tuple(
            _server_checks(client_config, reports, flags, tails, library_servers, accepted)
        ),
        problems=tuple(file_problems),
        flags=flags,
        changes=accepted.changes(definitions),
        needs_look={
            tool_id: findings
            for tool_id, findings in needs_look(definitions, accepted).items()
            if tool_id not in flags
        },
        script_grants=tuple(script_grants(files.settings, catalog, quarantined(flags))),
        unused_ids_by_file=unused_ids_by_file,
        lint_counts=finding_counts(tuple(catalog)),
        other_language_queries=(
            _other_language_queries(files.events) if settings_of_engine.encoder == "bundled" else 0
        ),
    )


def _rule_problems(settings: GatewaySettings, config: Config, engine: Engine) -> Iterator[str]:
    """Rules of the file that concern no tool, or that nothing can ever meet."""
    from ...gating.gatekeeper import Gatekeeper

    gates = {"engine.gate": config.gate}
    gates |= {f"profiles.{name}": profile.gate() for name, profile in settings.profiles.items()}
    index = engine.view().admission.index
    for place, gate in gates.items():
        for problem in Gatekeeper(gate).catalog_gate(index).problems:
            yield f"{place}: {problem.rule}: {problem.reason}"


def _unmatched_globs(
    settings: GatewaySettings, engine: Engine, servers: Collection[str]
) -> Iterator[str]:
    """Globs of profiles that match no tool or server of the file."""
    from ...catalog.pattern import any_grants

    for name, profile in settings.profiles.items():
        for glob in engine.view(allowed=profile.tools).unmatched:
            yield f"profiles.{name}.tools: no tool fits {glob!r:.80}"
        for glob in profile.servers:
            if not any(any_grants(server, (glob,)) for server in servers):
                yield f"profiles.{name}.servers: no server fits {glob!r:.80}"


def _other_language_queries(events: Path | None) -> int:
    """Number of recorded queries that are not English; 0 if none are recorded."""
    from ...models.multilingual import is_other_language
    from ...session.event import SearchEvent
    from ...session.recorder import read_events

    if events is None or not events.exists():
        return 0
    searches = (event for event in read_events(events) if isinstance(event, SearchEvent))
    queries = (search.query_text for search in searches if search.query_text)
    return sum(map(is_other_language, queries))


def _server_checks(
    client_config: ClientConfig,
    reports: list[ServerReport],
    flags: Mapping[str, Flag],
    tails: Mapping[str, LogTail],
    library_servers: Mapping[str, Mapping[str, int]],
    accepted: Pins,
) -> Iterator[ServerCheck]:
    by_name = {report.name: report for report in reports}
    for spec in client_config.servers:
        report = by_name.get(spec.name)
        if report is None:
            yield ServerCheck(name=spec.name, status="off")
            continue
        flagged = any(tool_id in flags for tool_id in report.tokens)
        problems = report.problems
        if reason := accepted.closed_reason(spec.name):
            problems += (reason,)
        status: Status = "warn" if problems or flagged else "ok"
        if not report.available and (reason := tails[spec.name].reason()):
            problems += (f"{_STDERR_PREFIX}{reason}",)
        yield ServerCheck(
            name=spec.name,
            status=status if report.available else "fail",
            tools=len(report.tokens),
            tokens=sum(report.tokens.values()),
            ms=None if report.ms is None else round(report.ms, 1),
            problems=problems,
            known=library_servers.get(spec.name, {}),
        )
    for name, problem in client_config.unusable_servers.items():
        yield ServerCheck(name=name, status="fail", problems=(problem,))


def _file_problems(config: ClientConfig) -> list[str]:
    """The problems of a file that are not those of a server that cannot be used."""
    from ...gateway.clients.client_config import printable_key

    of_servers = {
        f"{'.'.join(config.table_keys)}.{printable_key(name)}{separator}{problem}"
        for name, problem in config.unusable_servers.items()
        for separator in (".", ": ")
    }
    return [problem for problem in config.problems if problem not in of_servers]


def show_servers(report: ServersReport) -> None:
    """Print the report."""
    from rich.text import Text

    parts: list[Any] = [_servers_table(report)] if report.servers else []
    parts += [Text(f"{report.file}: {problem}", style="red") for problem in report.problems]
    known = [
        f"{counted(count, 'tool')} of {server.name} (as {library_server})"
        for server in report.servers
        for library_server, count in server.known.items()
    ]
    if known:
        text = f"with example queries of the package: {', '.join(known)}"
        parts.append(Text(text, style="dim"))
    for name, counts in report.lint_counts.items():
        parts.append(Text(f"for the author of {name} (shortlist lint): {counts}", style="dim"))
    for path, ids in report.unused_ids_by_file.items():
        names = ", ".join(first_lines(ids, _MAX_TOOLS_SHOWN))
        parts.append(Text(f"{path}: no server has the tool: {names}", style="yellow"))
    if report.other_language_queries:
        advice = (
            f"recorded queries that are not English: {report.other_language_queries:,}. The "
            "encoder `multilingual` finds more tools for them: "
            f'{install_command("multilingual")}, and set engine.encoder to "multilingual"'
        )
        parts.append(Text(advice, style="cyan"))
    for grants in report.script_grants:
        parts += _script_lines(grants)
    if report.changes:
        parts += ["", Text("changed since they were accepted", style="bold")]
    for change in report.changes:
        parts += change_lines(change)
    parts += _flagged_parts(
        report, "quarantine", "quarantined: neither found nor called until approved"
    )
    parts += _flagged_parts(
        report, "warn", "worded strongly: offered; approve them to end the warning"
    )
    parts += _look_parts(report)
    servers_with_stderr = [
        server.name
        for server in report.servers
        if any(problem.startswith(_STDERR_PREFIX) for problem in server.problems)
    ]
    if servers_with_stderr:
        name = servers_with_stderr[0] if len(servers_with_stderr) == 1 else "NAME"
        hint = f"All that a server wrote to stderr: shortlist logs {name}"
        parts += ["", Text(hint, style="dim")]
    show(*parts)


def _script_lines(grants: ScriptGrants) -> Iterator[Any]:
    from rich.text import Text

    counts = f"{counted(grants.allowed_count, 'tool')} called, {len(grants.asked_ids):,} asked for"
    lines = [f"{counts}, {len(grants.denied_ids):,} denied"]
    if grants.unmatched_patterns:
        lines.append(f"no tool fits {', '.join(grants.unmatched_patterns)}")
    for line in lines:
        yield Text(f"scripts of profile {grants.profile_name}: {line}", style="dim")
    if grants.suggested_allow:
        yield Text(
            f"to be asked for none of them, write in the table {grants.settings_table}:",
            style="dim",
        )
        yield Text(f'"allow": {json.dumps(grants.suggested_allow)}', overflow="fold")


def _servers_table(report: ServersReport) -> Table:
    from rich.text import Text

    numbers = {"tools", "tokens", "ms"}
    table = plain_table("", "server", "tools", "tokens", "ms", "problems", right=numbers)
    for column in table.columns:
        column.no_wrap = column.header != "problems"
    table.columns[1].max_width, table.columns[1].overflow = _NAME_COLUMNS, "ellipsis"
    table.columns[5].overflow = "fold"
    for server in report.servers:
        counts = (
            (f"{server.tools:,}", f"{server.tokens:,}") if server.tools or server.ms else ("–", "–")
        )
        table.add_row(
            Text(server.status, style=_STYLE_BY_STATUS[server.status]),
            server.name,
            *counts,
            "–" if server.ms is None else f"{server.ms:,.0f}",
            Text("\n".join((*server.problems, *_flag_counts(server, report)))),
        )
    tools = sum(server.tools for server in report.servers)
    tokens = sum(server.tokens for server in report.servers)
    table.add_section()
    table.add_row("", "all", f"{tools:,}", f"{tokens:,}", "", "", style="bold")
    return table


def _flag_counts(check: ServerCheck, report: ServersReport) -> Iterator[str]:
    """How many of a server's tools are flagged, and what a disabled server is."""
    if check.status == "off":
        yield "disabled"
    flags = [flag for tool_id, flag in report.flags.items() if tool_id.startswith(f"{check.name}/")]
    for level, words in (("quarantine", "quarantined"), ("warn", "worded strongly")):
        if count := sum(flag.level == level for flag in flags):
            yield f"{counted(count, 'tool')} {words}"


def _look_parts(report: ServersReport) -> Iterator[Any]:
    from rich.text import Text

    from ...trust import LOOK_CODES

    if not report.needs_look:
        return
    yield ""
    yield Text("needs a look: offered; read these definitions once", style="bold")
    lines = []
    for tool_id, findings in report.needs_look.items():
        reasons = (f"{LOOK_CODES[each.code]}: {each.text!r:.60}" for each in findings)
        lines.append(f"{tool_id}: {'; '.join(reasons)}")
    for line in first_lines(lines, _MAX_TOOLS_SHOWN):
        yield Text(f"  {line}", style="dim")


def _flagged_parts(report: ServersReport, level: str, title: str) -> Iterator[Any]:
    from rich.padding import Padding
    from rich.text import Text

    flags = {tool_id: flag for tool_id, flag in report.flags.items() if flag.level == level}
    if not flags:
        return
    yield ""
    yield Text(title, style="bold")
    for line in first_lines(flags, _MAX_TOOLS_SHOWN):
        yield Padding(Text(line), (0, 0, 0, 2))
        if line in flags:
            reasons = (Text(reason, style="dim") for reason in flags[line].reasons)
            for part in (*reasons, Text(report.approve_command(line))):
                yield Padding(part, (0, 0, 0, 4))
