"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

IndexOption = Annotated[
    Path | None,
    typer.Option("--index", metavar="FOLDER", help="Index that `shortlist index` made."),
]
ToolsOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--tools",
        metavar="FILE",
        help="File or folder of tools, an MCP client's mcp.json, or - for stdin; repeatable.",
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="File of settings, TOML or JSON."),
]
TierOption = Annotated[
    str | None,
    typer.Option(
        "--tier",
        metavar="TIER",
        help="lexical, embed, hybrid, rerank, or a tier of the settings.",
    ),
]
KOption = Annotated[
    int | None,
    typer.Option("-k", "--k", metavar="NUMBER", min=1, help="Number of tools to return at most."),
]
AllowOption = Annotated[
    list[str] | None,
    typer.Option(
        "--allow", metavar="ID|GLOB", help="Search only these tools, as 'github/*'; repeatable."
    ),
]
ServerOption = Annotated[
    str | None, typer.Option("--server", metavar="NAME", help="Server that the tools belong to.")
]
EncodingOption = Annotated[
    str,
    typer.Option("--encoding", metavar="NAME", help="Vocabulary that tokens are counted in."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Write only JSON to stdout.")]
QuarantinedOption = Annotated[
    bool, typer.Option("--quarantined", help="Include tools that wait for approval.")
]
HomeOption = Annotated[
    Path | None,
    typer.Option("--home", metavar="DIR", help="Home directory to look in; yours by default."),
]
QueryArgument = typer.Argument(metavar="QUERY", help="What the agent wants to do, in any words.")
