"""Checks of a catalog: what costs tokens, what cannot be told apart, what says too little."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..catalog import Catalog, ReadResult
from ..enrichment.library import Library
from ..evals.definition_lint import finding_counts
from ..loaders.token_tax import token_tax
from ..retrieval.search.twins import TWIN_JACCARD, near_twins
from ..trust import Flag
from .check_environment import Check, Status
from .console import counted

_HEAVIEST_TOOLS_SHOWN = 10


def check_catalog(
    catalog: Catalog, read_results: Sequence[ReadResult], flags: Mapping[str, Flag]
) -> Iterator[Check]:
    """The checks of a catalog, in order."""
    tools = tuple(catalog)
    ids_by_name: dict[str, list[str]] = {}
    for tool in tools:
        ids_by_name.setdefault(tool.name, []).append(tool.id)
    yield _definitions(catalog, read_results)
    yield _findings("collisions", "warn", "id", "claimed twice", _collisions(catalog))
    yield _tokens(catalog)
    yield _findings(
        "lint",
        "note",
        "server",
        "with definitions that say too little; what to change: shortlist lint TOOLS",
        (f"{server or 'no server'}: {counts}" for server, counts in finding_counts(tools).items()),
    )
    yield _parameters(catalog)
    yield _findings(
        "names",
        "note",
        "name",
        "on several tools",
        (f"{name}: {', '.join(ids)}" for name, ids in ids_by_name.items() if len(ids) > 1),
    )
    yield _findings(
        "near twins",
        "warn",
        "group",
        f"of tools that share {TWIN_JACCARD:.0%} of their words",
        map(", ".join, near_twins(tools)),
    )
    yield _findings(
        "cleaned text",
        "note",
        "tool",
        "with text that was removed or cut",
        (f"{tool.id}: {'; '.join(tool.cleaned)}" for tool in tools if tool.cleaned),
    )
    yield _findings(
        "hidden instructions",
        "warn",
        "tool",
        "quarantined until an operator approves: shortlist trust approve ID --tools FILE "
        "--pins FILE",
        _reasons(flags, "quarantine"),
    )
    yield _findings(
        "strong wording", "note", "tool", "worded strongly, and offered", _reasons(flags, "warn")
    )
    yield _known_tools(catalog)


def _findings(name: str, status: Status, noun: str, what: str, details: Iterable[str]) -> Check:
    found = tuple(details)
    if not found:
        return Check(name, "ok", "none")
    return Check(name, status, f"{counted(len(found), noun)} {what}", found)


def _definitions(catalog: Catalog, read_results: Sequence[ReadResult]) -> Check:
    line = f"{counted(len(catalog), 'tool')} of {counted(len(catalog.servers), 'server')}"
    rejected = [definition for result in read_results for definition in result.rejected]
    notes = tuple(note for result in read_results for note in result.notes)
    if not rejected:
        status: Status = ("note" if notes else "ok") if len(catalog) else "warn"
        return Check("definitions", status, line, notes)
    details = (*notes, *map(str, rejected))
    return Check("definitions", "warn", f"{line}; {len(rejected):,} rejected", details)


def _tokens(catalog: Catalog) -> Check:
    tax = token_tax(catalog, k=_HEAVIEST_TOOLS_SHOWN, encoding="cl100k_base")
    details = tuple(f"{tool}: {tokens:,}" for tool, tokens in tax.heaviest(_HEAVIEST_TOOLS_SHOWN))
    line = (
        f"{tax.total_tokens:,} for all definitions, {tax.mean_tokens:,.0f} for one on average "
        "(cl100k_base)"
    )
    return Check("tokens", "ok", line, details)


def _parameters(catalog: Catalog) -> Check:
    total, details = 0, []
    for tool in catalog:
        parameters = tool.parameters
        total += len(parameters)
        bare = [parameter.path for parameter in parameters if not parameter.description.strip()]
        if bare:
            details.append(f"{tool.id}: {', '.join(bare)}")
    if not details:
        return Check("parameters", "ok", f"{total:,}, each with a description")
    line = f"{total:,}, some without a description in {counted(len(details), 'tool')}"
    return Check("parameters", "note", line, tuple(details))


def _known_tools(catalog: Catalog) -> Check:
    counts_by_server = Library().servers(catalog)
    details = tuple(
        f"{server or 'no server'}: {counted(count, 'tool')} of {library_server}"
        for server, counts in counts_by_server.items()
        for library_server, count in counts.items()
    )
    tools = sum(sum(counts.values()) for counts in counts_by_server.values())
    line = f"{tools:,} of {counted(len(catalog), 'tool')} are known and have example queries"
    return Check("known tools", "note" if tools else "ok", line, details)


def _collisions(catalog: Catalog) -> Iterator[str]:
    for clash in catalog.collisions:
        if clash.identical:
            yield f"{clash.id}: repeats {clash.kept_as} word for word, kept once"
        else:
            yield (
                f"{clash.id}: claimed again by another definition, which is held as {clash.kept_as}"
            )


def _reasons(flags: Mapping[str, Flag], level: str) -> Iterator[str]:
    for tool_id, flag in flags.items():
        if flag.level == level:
            yield f"{tool_id}: {'; '.join(flag.reasons)}"
