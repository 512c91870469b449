"""`shortlist eval`: selection measured on labelled queries and on xlam, with floors for CI."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import EvaluationError, RequestError
from .console import (
    counted,
    first_lines,
    note,
    plain_table,
    progress,
    show,
    step_progress,
    wrapped,
    write_json,
)
from .options import (
    CHECK_FAILED_EXIT,
    EngineSettingsOption,
    IndexOption,
    JsonOption,
    TierOption,
    ToolsOption,
)
from .tool_source import chosen_tiers, open_engine, read_config

if TYPE_CHECKING:
    from ..catalog import Catalog
    from ..config import Config
    from ..engine import Engine
    from ..evals.dataset import RowProblem
    from ..evals.misses import Miss
    from ..evals.report import EvaluationResult, Table

_MAX_MALFORMED_SHOWN = 20
"""Malformed rows named in text; the JSON names all."""

eval_commands = typer.Typer(no_args_is_help=True, add_completion=False)

KOption = Annotated[
    int, typer.Option("--k", metavar="NUMBER", min=1, help="Number of tools to return per query.")
]


NoLibraryOption = Annotated[
    bool,
    typer.Option(
        "--no-library", help="Measure without the package's example queries for known servers."
    ),
]


@eval_commands.callback(invoke_without_command=True)
def evaluate(
    context: typer.Context,
    tools: ToolsOption = None,
    index: IndexOption = None,
    queries: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Labelled queries, JSONL; repeatable.")
    ] = None,
    tier: TierOption = None,
    k: KOption = 10,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD", help="Group the results by a field of the rows, such as style."
        ),
    ] = None,
    misses: Annotated[
        bool, typer.Option("--misses", help="List the queries whose tool was not found.")
    ] = False,
    floor_texts: Annotated[
        list[str] | None,
        typer.Option("--min", metavar="METRIC=VALUE", help="Lowest value that passes; repeatable."),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Earlier JSON result of the same rows; fail if a metric is worse."
        ),
    ] = None,
    max_drop: Annotated[
        float, typer.Option(metavar="VALUE", min=0.0, max=1.0, help="How far a metric may fall.")
    ] = 0.0,
    pool: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="catalog: search all tools; queries: the query's `pool`."
        ),
    ] = "catalog",
    session: Annotated[
        bool,
        typer.Option(
            "--session",
            help="Measure sessions, which may abstain, instead of searches.",
        ),
    ] = False,
    abstention: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --session: file that `shortlist calibrate` wrote."),
    ] = None,
    no_library: NoLibraryOption = False,
    lenient: Annotated[
        bool,
        typer.Option("--lenient", help="Measure the other rows if some rows or tools are bad."),
    ] = False,
    config: EngineSettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure search on labelled queries.

    Needs --queries, and --tools or --index. Tools of files are not quarantined here; `shortlist
    doctor` lists those that would be. An index is measured as it is, with its example queries.
    """
    if context.invoked_subcommand is not None:
        return
    if not queries or (index is None) == (not tools):
        raise typer.BadParameter(
            "give --queries, and either --tools or --index; or a command such as xlam"
        )
    if abstention and not session:
        raise typer.BadParameter("--abstention: only with --session, which abstains")
    if no_library and index is not None:
        raise typer.BadParameter("--no-library: only with --tools; an index has its queries")
    if pool not in ("catalog", "queries"):
        raise typer.BadParameter(f"--pool {pool!r}: catalog or queries")
    from ..enrichment.tool_examples import LIBRARY
    from ..evals import dataset, regression, report, runner
    from ..evals.dataset import read_tool_files
    from ..evals.misses import misses as misses_of

    try:
        floors = [regression.parse_floor(text) for text in floor_texts or ()]
    except RequestError as error:
        raise typer.BadParameter(str(error)) from error
    baseline_figures = None if baseline is None else regression.read_figures(baseline)
    bad_tools: tuple[RowProblem, ...] = ()
    if index is not None:
        engine = open_engine(index=index, config=config, abstention=abstention)
        catalog = engine.catalog
    else:
        catalog, bad_tools = read_tool_files(tools or ())
    limit_to_pool = pool == "queries"
    read = dataset.read_queries(queries, catalog, limit_to_pool=limit_to_pool)
    if by is not None and not any(by in query.fields for query in read.queries):
        fields = ", ".join(sorted({name for query in read.queries for name in query.fields}))
        advice = f"use one of: {fields}" if fields else "the rows have no such fields"
        raise typer.BadParameter(f"--by {by!r}: no row has this field; {advice}")
    malformed = (*bad_tools, *read.malformed)
    _note_malformed(malformed, lenient=lenient)
    measured: dict[str, Any] = {"rows": read.digest, "k": k, "pool": pool, "session": session}
    settings = None
    if index is None:
        settings = _settings_to_measure(config, abstention, no_library=no_library)
        measured["library"] = LIBRARY in settings.index.example_queries
    if baseline_figures is not None and baseline is not None:
        queries_measured = {"queries": len(read.queries)}
        regression.check_comparable(baseline, baseline_figures, measured | queries_measured)
    if settings is not None:
        engine = _engine_of(catalog, settings)
    outcomes = {}
    for name in chosen_tiers(engine, tier, "auto"):
        method = (
            runner.session_method(engine, name, k=k, limit_to_pool=limit_to_pool)
            if session
            else runner.tier_method(engine, name, k=k, limit_to_pool=limit_to_pool)
        )
        with step_progress(f"asking {name}", len(read.queries)) as advance:
            outcomes[name] = runner.measure(method, read.queries, progress=advance)
    result = report.EvaluationResult(
        tools=len(catalog), outcomes=outcomes, malformed=malformed, by=by
    )
    figures = report.to_json(result) | measured
    misses_by_tier: dict[str, list[Miss]] = {}
    if misses:
        for name, tier_outcomes in outcomes.items():
            misses_by_tier[name] = misses_of(
                engine, name, tier_outcomes, k=k, limit_to_pool=limit_to_pool
            )
        figures["misses"] = {
            name: [miss.to_dict() for miss in tier_misses]
            for name, tier_misses in misses_by_tier.items()
        }
    if not as_json:
        _print_result(result, misses_by_tier, no_library=no_library)
    failures = regression.below_floors(figures["tiers"], floors)
    if baseline_figures is not None:
        changes = regression.compare(baseline_figures["tiers"], figures["tiers"])
        failures += regression.regressions(changes, tolerance=max_drop)
        figures["difference"] = report.differences(changes)
        if baseline_figures.get("tools") != figures["tools"]:
            before = f"the baseline is of {baseline_figures.get('tools')} tools"
            note(f"note: {before}, this run of {figures['tools']}")
        if not as_json:
            show_table("against the baseline", report.difference_table(changes))
    if floors or baseline_figures is not None:
        figures["failures"] = failures
    if as_json:
        write_json(figures)
    for failure in failures:
        note(f"below --min or the baseline: {failure}")
    if failures:
        raise typer.Exit(CHECK_FAILED_EXIT)


@eval_commands.command("xlam")
def evaluate_xlam(
    data: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The published rows: JSON, JSON lines or parquet."),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(metavar="TOKEN", envvar="HF_TOKEN", help="Token to download the rows with."),
    ] = None,
    tier: TierOption = None,
    k: KOption = 10,
    sample: Annotated[
        int, typer.Option("--n", metavar="NUMBER", min=1, help="Queries per pool size.")
    ] = 400,
    seed: Annotated[int, typer.Option(metavar="NUMBER", help="Seed of the random sample.")] = 0,
    no_library: NoLibraryOption = False,
    config: EngineSettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure search on xlam-function-calling-60k."""
    from ..enrichment.tool_examples import LIBRARY
    from ..evals import report, xlam_rows
    from ..evals import xlam_protocol as xlam

    if data is None and token is None:
        raise typer.BadParameter("give --data FILE, or --token to fetch the rows from their hub")
    path = data if data is not None else xlam_rows.download(token)
    with step_progress("reading rows", 0) as advance:
        rows = _count_while_reading(xlam_rows.stream_rows(path), advance)
        data_set = xlam.prepare(rows, sample=sample, seed=seed)
    _note_malformed(data_set.malformed, lenient=True)
    settings = _settings_to_measure(config, no_library=no_library)
    engine = _engine_of(data_set.catalog, settings)
    names = chosen_tiers(engine, tier, "auto")
    total = len(names) * sum(len(pool.queries) for pool in data_set.pools)
    with step_progress("asking", total) as advance:
        outcomes = xlam.run(data_set, engine, names, k=k, progress=advance)
    summaries = {name: xlam.summaries(pools) for name, pools in outcomes.items()}
    uses_library = LIBRARY in settings.index.example_queries
    figures = xlam.to_json(data_set, summaries) | {"library": uses_library}
    if replaced := report.replaced_tiers(
        {
            name: [outcome for pool_outcomes in pools.values() for outcome in pool_outcomes]
            for name, pools in outcomes.items()
        }
    ):
        figures["ran_as"] = replaced
    if as_json:
        write_json(figures)
        return
    table = xlam.table(summaries)
    size = f"{data_set.rows} rows, {len(data_set.catalog)} functions"
    if no_library:
        size += ", without the package's example queries"
    show_table(
        f"xlam, {size}; at most {sample} queries a pool, seed {seed}; per cent", table.transposed()
    )
    _note_replaced_tiers(replaced)


def _settings_to_measure(
    config: Path | None, abstention: Path | None = None, *, no_library: bool
) -> Config:
    """The settings of a file, without the scan."""
    from ..config import TrustConfig
    from ..enrichment.tool_examples import LIBRARY

    settings = read_config(config).model_copy(update={"trust": TrustConfig(scan=False)})
    if no_library:
        files = tuple(name for name in settings.index.example_queries if name != LIBRARY)
        index = settings.index.model_copy(update={"example_queries": files})
        settings = settings.model_copy(update={"index": index})
    if abstention is not None:
        settings = settings.model_copy(update={"abstention": abstention})
    return settings


def _engine_of(catalog: Catalog, settings: Config) -> Engine:
    from ..engine import Engine

    with progress("encoding tools") as bar:
        return Engine.from_tools(catalog, settings, progress=bar)


def _count_while_reading(rows: Iterator[Any], advance: Callable[[int], None]) -> Iterator[Any]:
    for row in rows:
        advance(1)
        yield row


def _print_result(
    result: EvaluationResult,
    misses_by_tier: Mapping[str, Sequence[Miss]],
    *,
    no_library: bool,
) -> None:
    """Print the figures, and the failed queries where they were asked for."""
    from ..evals import report

    size = f"{result.tools:,} tools, {result.queries:,} queries"
    if no_library:
        size += ", without the package's example queries"
    show_table(
        f"{size}; per cent [95 % interval]", report.quality_table(result.summaries).transposed()
    )
    if result.by is not None:
        show_table(f"by {result.by}", report.breakdown_table(result.outcomes, result.by))
    _note_replaced_tiers(report.replaced_tiers(result.outcomes))
    for name, tier_misses in misses_by_tier.items():
        typer.echo(f"\n{name}: {len(tier_misses)} of {result.queries} queries failed")
        for miss in tier_misses:
            typer.echo("\n".join(map(wrapped, str(miss).splitlines())))


def _note_replaced_tiers(replaced: Mapping[str, Mapping[str, int]]) -> None:
    """Say how many queries another tier answered than the one asked, and why."""
    for name, reasons in replaced.items():
        for reason, count in reasons.items():
            note(f"{name}: {count} queries ran in another tier: {reason}")


def show_table(title: str, table: Table) -> None:
    """Print a table under a title."""
    shown = plain_table(*table.columns, right=frozenset(table.columns[1:]))
    for column in shown.columns:
        column.no_wrap, column.overflow = False, "fold"
    for row in table.rows:
        shown.add_row(*("–" if cell is None else str(cell) for cell in row))
    show("", title, shown)


def _note_malformed(malformed: Sequence[RowProblem], *, lenient: bool) -> None:
    """Say how many rows were bad, and name some.

    Raises:
        EvaluationError: a row or a tool was left out, which can only make figures look better.
    """
    if not malformed:
        return
    left_out = [row for row in malformed if row.left_out]
    note(f"{counted(len(malformed), 'malformed row')}, {len(left_out)} left out:")
    for line in first_lines(map(str, malformed), _MAX_MALFORMED_SHOWN):
        note(f"  {line}")
    if left_out and not lenient:
        raise EvaluationError(
            f"{counted(len(left_out), 'row')} cannot be used, first {left_out[0]}. Correct the "
            "rows or the tools. With --lenient the others are measured, which can hide a loss"
        )
