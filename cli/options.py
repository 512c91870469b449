"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

IndexOption = Annotated[
    Path | None, typer.Option("--index", metavar="FOLDER", help="An index made by `index`.")
]
ToolsOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--tools",
        metavar="FILE",
        help="Tools in any form that can be read, or a folder of such files; repeatable.",
    ),
]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Configuration, TOML or JSON.")
]
TierOption = Annotated[
    str | None,
    typer.Option("--tier", help="lexical, embed, hybrid, rerank, or one of the configuration."),
]
KOption = Annotated[int | None, typer.Option("-k", "--k", min=1, help="Tools offered at most.")]
AllowOption = Annotated[
    list[str] | None,
    typer.Option(
        "--allow", metavar="ID|GLOB", help="Search these tools only, as 'github/*'; repeatable."
    ),
]
ServerOption = Annotated[str | None, typer.Option("--server", help="Server the tools belong to.")]
EncodingOption = Annotated[
    str, typer.Option("--encoding", help="Vocabulary that tokens are counted in.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Write nothing but JSON to stdout.")]
QuarantinedOption = Annotated[
    bool, typer.Option("--quarantined", help="Include tools that wait for approval.")
]
HomeOption = Annotated[
    Path | None,
    typer.Option("--home", metavar="DIR", help="Home directory to look in; yours by default."),
]
