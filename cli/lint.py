"""`shortlist lint`: what the author of a server can change so that agents find its tools."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from .console import counted, show, write_json
from .options import PROBLEM_EXIT, JsonOption, ServerOption, SourcesArgument, usage_errors
from .tool_source import read_source


def lint(
    tools: Annotated[list[Path], SourcesArgument],
    server: ServerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what keeps agents from finding the tools of a server that you write.

    Each finding says what to change. A tool's own first sentence is searched beside the tools of
    well-known servers. Exits with 1 if there are findings, and with 2 if the tools cannot be read.
    """
    from rich.padding import Padding
    from rich.text import Text

    from ..catalog import Catalog
    from ..enrichment.library import Library
    from ..evals.definition_lint import (
        LintFinding,
        definition_findings,
        scan_findings,
        search_findings,
    )
    from ..loaders.token_tax import token_tax

    with usage_errors("TOOLS"):
        files = [read_source(path, server=server, strict=False) for path in tools]
    catalog = Catalog(tool for result in files for tool in result.tools)
    findings = [
        LintFinding(
            "unreadable",
            rejected.where,
            f"{rejected.field}: {rejected.reason}",
            "Correct it: until then, the tool is left out.",
        )
        for result in files
        for rejected in result.rejected
    ]
    listed = tuple(catalog)
    findings += scan_findings(catalog)
    findings += definition_findings(listed)
    findings += search_findings(listed, Library())
    tokens = token_tax(listed, k=0, encoding="cl100k_base").total_tokens
    if as_json:
        rows = [asdict(finding) for finding in findings]
        write_json({"tools": len(listed), "tokens": tokens, "findings": rows})
    else:
        for finding in findings:
            show(Text.assemble((finding.tool_id, "bold"), f"  {finding.rule}"))
            show(Padding(Text(finding.problem), (0, 0, 0, 2)))
            show(Padding(Text(finding.change, style="cyan"), (0, 0, 0, 2)))
        where = f"{counted(len(listed), 'tool')} of {tokens:,} tokens"
        show(f"{counted(len(findings), 'finding')} in {where}")
    if findings:
        raise typer.Exit(PROBLEM_EXIT)
