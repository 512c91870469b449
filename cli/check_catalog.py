"""Checks of a catalog: what costs tokens, what cannot be told apart, what says too little."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..catalog import Catalog, ReadResult
from ..enrichment.library import Library
from ..evals.definition_lint import finding_counts
from ..loaders.token_tax import token_tax
from ..retrieval.search.twins import TWIN_JACCARD, near_twins
from ..trust import Flag
from .check import Check, Status
from .console import counted

_HEAVIEST_TOOLS_SHOWN = 10


def check_catalog(
    catalog: Catalog, read_results: Sequence[ReadResult], flags: Mapping[str, Flag]
) -> Iterator[Check]:
    """The checks of a catalog, in order.

    Args:
        catalog: the tools.
        read_results: what the files held, if the catalog was read from files, with what was
            rejected.
        flags: tool id to the findings of the scan.
    """
    yield _definitions(catalog, read_results)
    yield _collisions(catalog)
    yield _tokens(catalog)
    yield _lint(catalog)
    yield _names(catalog)
    yield _twins(catalog)
    yield _cleaned(catalog)
    yield _quarantined(flags)
    yield _warned(flags)
    yield _known_tools(catalog)


def _definitions(catalog: Catalog, read_results: Sequence[ReadResult]) -> Check:
    line = f"{counted(len(catalog), 'tool')} of {counted(len(catalog.servers), 'server')}"
    rejected = [definition for result in read_results for definition in result.rejected]
    notes = tuple(note for result in read_results for note in result.notes)
    if not rejected:
        status: Status = ("note" if notes else "ok") if len(catalog) else "warn"
        return Check("definitions", status, line, notes)
    details = (*notes, *map(str, rejected))
    return Check("definitions", "warn", f"{line}; {len(rejected):,} rejected", details)


def _collisions(catalog: Catalog) -> Check:
    details = tuple(
        f"{clash.id}: repeats {clash.kept_as} word for word, kept once"
        if clash.identical
        else f"{clash.id}: claimed again by another definition, which is held as {clash.kept_as}"
        for clash in catalog.collisions
    )
    return _check_of_details("collisions", "warn", details, "id", "claimed twice")


def _tokens(catalog: Catalog) -> Check:
    tax = token_tax(catalog, k=_HEAVIEST_TOOLS_SHOWN, encoding="cl100k_base")
    details = tuple(f"{tool}: {tokens:,}" for tool, tokens in tax.heaviest(_HEAVIEST_TOOLS_SHOWN))
    line = (
        f"{tax.total_tokens:,} for all definitions, {tax.mean_tokens:,.0f} for one on average "
        "(cl100k_base)"
    )
    return Check("tokens", "ok", line, details)


def _lint(catalog: Catalog) -> Check:
    details = tuple(
        f"{server or 'no server'}: {counts}"
        for server, counts in finding_counts(tuple(catalog)).items()
    )
    what = "with definitions that say too little; what to change: shortlist lint TOOLS"
    return _check_of_details("lint", "note", details, "server", what)


def _names(catalog: Catalog) -> Check:
    shared: dict[str, list[str]] = {}
    for tool in catalog:
        shared.setdefault(tool.name, []).append(tool.id)
    details = tuple(f"{name}: {', '.join(ids)}" for name, ids in shared.items() if len(ids) > 1)
    return _check_of_details("names", "note", details, "name", "on several tools")


def _twins(catalog: Catalog) -> Check:
    details = tuple(", ".join(ids) for ids in near_twins(tuple(catalog)))
    what = f"of tools that share {TWIN_JACCARD:.0%} of their words"
    return _check_of_details("near twins", "warn", details, "group", what)


def _cleaned(catalog: Catalog) -> Check:
    details = tuple(f"{tool.id}: {'; '.join(tool.cleaned)}" for tool in catalog if tool.cleaned)
    return _check_of_details(
        "cleaned text", "note", details, "tool", "with text that was removed or cut"
    )


def _quarantined(flags: Mapping[str, Flag]) -> Check:
    advice = "quarantined until an operator approves: shortlist trust approve ID --tools FILE"
    details = _reasons(flags, "quarantine")
    return _check_of_details(
        "hidden instructions", "warn", details, "tool", f"{advice} --pins FILE"
    )


def _warned(flags: Mapping[str, Flag]) -> Check:
    details = _reasons(flags, "warn")
    return _check_of_details(
        "strong wording", "note", details, "tool", "worded strongly, and offered"
    )


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


def _reasons(flags: Mapping[str, Flag], level: str) -> tuple[str, ...]:
    return tuple(
        f"{tool_id}: {'; '.join(flag.reasons)}"
        for tool_id, flag in flags.items()
        if flag.level == level
    )


def _check_of_details(
    name: str, status: Status, details: tuple[str, ...], noun: str, what: str
) -> Check:
    if not details:
        return Check(name, "ok", "none")
    return Check(name, status, f"{counted(len(details), noun)} {what}", details)
