"""`shortlist enrich`: a language model writes example queries for each tool."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .console import counted, note, progress, write_json
from .options import (
    PROBLEM_EXIT,
    EngineSettingsOption,
    JsonOption,
    RowsOption,
    SourcesArgument,
    WorkersOption,
)
from .tool_source import read_catalog_and_quarantined

if TYPE_CHECKING:
    from ..catalog import Tool
    from ..enrichment import ExampleQueryRow


def enrich(
    tools: Annotated[list[Path], SourcesArgument],
    command: Annotated[
        str,
        typer.Option(
            metavar="CMD", help="Shell command that reads a prompt on stdin and answers on stdout."
        ),
    ],
    out: RowsOption,
    languages: Annotated[
        str,
        typer.Option(metavar="LIST", help="Also write queries in these languages, such as de,ja."),
    ] = "",
    workers: WorkersOption = 4,
    price: Annotated[
        bool, typer.Option("--price", help="Only print how many tokens the run would need.")
    ] = False,
    config: EngineSettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have a language model write example queries for each tool.

    To use the result, set `[index] example_queries = ["FILE"]`. Quarantined tools are left out. An
    interrupted run continues where it stopped. Exits with 1 if the command gave no usable answer
    for some tool.
    """
    from ..catalog.text_file import replace_text_file
    from ..enrichment import read_example_queries
    from ..enrichment.writing import without_far_queries, write_example_queries
    from ..language_model import CommandModel
    from ..models.loading import load_encoder

    catalog, quarantined_ids = read_catalog_and_quarantined(None, tools, config)
    offered = [tool for tool in catalog if tool.id not in quarantined_ids]
    fingerprints = {tool.fingerprint for tool in offered}
    rows = {
        (row.tool, row.fingerprint): row
        for row in (read_example_queries([out]) if out.exists() else ())
        if row.source != "model" or row.fingerprint in fingerprints
    }
    written = {fingerprint for _, fingerprint in rows}
    missing = [tool for tool in offered if tool.fingerprint not in written]
    language_names = [name.strip() for name in languages.split(",") if name.strip()]
    tokens = _estimated_tokens(missing, language_names)
    note(f"{counted(len(missing), 'tool')} to write for: about {tokens:,} tokens")
    if price:
        if as_json:
            write_json({"tools": len(missing), "tokens": tokens})
        return
    failures: dict[str, str] = {}
    replace_text_file(out, (row.to_line() for row in rows.values()))
    outcomes = write_example_queries(
        missing, CommandModel(command), languages=language_names, workers=workers
    )
    new_rows: list[ExampleQueryRow] = []
    with out.open("a", encoding="utf-8") as file, progress("writing queries") as show_progress:
        for done, outcome in enumerate(outcomes, 1):
            show_progress(done, len(missing))
            if isinstance(outcome, tuple):
                failures[outcome[0].id] = outcome[1]
            else:
                file.write(outcome.to_line())
                file.flush()
                new_rows.append(outcome)
    passing, dropped = (
        without_far_queries(new_rows, offered, load_encoder("bundled")) if new_rows else ([], 0)
    )
    replace_text_file(out, (row.to_line() for row in (*rows.values(), *passing)))
    for tool_id, reason in failures.items():
        note(f"note: {tool_id}: {reason}")
    if as_json:
        counts = {"tools": len(offered), "written": len(passing), "dropped": dropped}
        write_json({**counts, "failed": failures})
    else:
        written_rows = f"{counted(len(rows) + len(passing), 'row')}; {len(passing)} new"
        typer.echo(f"{out}: {written_rows}; {dropped} texts dropped that fit another tool better")
    if failures:
        raise typer.Exit(PROBLEM_EXIT)


def _estimated_tokens(missing: list[Tool], languages: list[str]) -> int:
    """Tokens of the prompts and, as a rule, of the answers."""
    from ..enrichment.writing import ANSWER_TOKENS_A_TOOL, TOOLS_A_PROMPT, prompt_for
    from ..loaders.counting import bundled_counter

    count = bundled_counter().count
    prompts = (
        prompt_for(missing[start : start + TOOLS_A_PROMPT], languages)
        for start in range(0, len(missing), TOOLS_A_PROMPT)
    )
    return sum(map(count, prompts)) + len(missing) * (ANSWER_TOKENS_A_TOOL + 40 * len(languages))
