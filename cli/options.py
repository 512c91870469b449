"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from ..errors import ShortlistError

#: Exit codes: something is wrong with what was read; a check of it failed.
PROBLEM_EXIT, CHECK_FAILED_EXIT = 1, 3


@contextmanager
def usage_errors(option: str) -> Iterator[None]:
    """While it lasts, an error is one of usage: it names the option, and the exit code is 2."""
    try:
        yield
    except ShortlistError as error:
        raise typer.BadParameter(f"{option}: {error}") from error


_SOURCES = {
    "index": "--index FOLDER",
    "tools": "--tools FILE",
    "tools_argument": "TOOLS",
    "events": "EVENTS",
    "config": "--config FILE",
}


def check_one_source(
    *, settings: Path | None = None, engine_settings: Path | None = None, **sources: object
) -> None:
    """Refuse none or several of a command's sources, and settings that do not go with it.

    Args:
        settings: the option `--settings`, which goes with `--config`.
        engine_settings: the option `--engine-settings`, which does not.
        sources: name in `_SOURCES` to the option or argument.

    Raises:
        BadParameter: they cannot be given together.
    """
    if sum(map(bool, sources.values())) != 1:
        *others, last = (_SOURCES[name] for name in sources)
        raise typer.BadParameter(f"give one of {', '.join(others)} and {last}")
    if settings is not None and not sources.get("config"):
        raise typer.BadParameter("--settings: goes with --config")
    if engine_settings is not None and sources.get("config"):
        raise typer.BadParameter(
            "--engine-settings: goes without --config; the gateway's settings are used"
        )


def _known_encoding(name: str) -> str:
    if name != "cl100k_base":
        import tiktoken

        vocabularies = sorted(tiktoken.list_encoding_names())
        if name not in vocabularies:
            raise typer.BadParameter(
                f"no vocabulary {name!r:.80}; use one of {', '.join(vocabularies)}"
            )
    return name


IndexOption = Annotated[
    Path | None,
    typer.Option("--index", metavar="FOLDER", help="Index that `shortlist index` made."),
]
ToolsOption = Annotated[
    list[Path] | None,
    typer.Option("--tools", metavar="FILE", help="File or folder of tools; repeatable."),
]
_SOURCES_HELP = "an index, an MCP client's mcp.json, or - for stdin"
_SOURCES_OPTION = typer.Option(
    "--tools", metavar="FILE", help=f"File or folder of tools, {_SOURCES_HELP}; repeatable."
)
SourcesOption = Annotated[list[Path] | None, _SOURCES_OPTION]
RequiredSourcesOption = Annotated[list[Path], _SOURCES_OPTION]
SourcesArgument = typer.Argument(
    metavar="TOOLS", help=f"Files or folders of tools, {_SOURCES_HELP}."
)
EngineSettingsOption = Annotated[
    Path | None,
    typer.Option(
        "--engine-settings", metavar="FILE", help="Settings of the search engine, TOML or JSON."
    ),
]
TierOption = Annotated[
    list[str] | None,
    typer.Option("--tier", metavar="TIER", help="Tier to use; repeatable. All by default."),
]
RowsOption = Annotated[
    Path,
    typer.Option(
        metavar="FILE", help="JSONL file to write. Rows of unchanged definitions are kept."
    ),
]
WorkersOption = Annotated[
    int,
    typer.Option(metavar="NUMBER", min=1, help="Commands that run at the same time."),
]
ServerOption = Annotated[
    str | None, typer.Option("--server", metavar="NAME", help="Server that the tools belong to.")
]
EncodingOption = Annotated[
    str,
    typer.Option(
        "--encoding",
        metavar="NAME",
        help="Vocabulary for counting tokens.",
        callback=_known_encoding,
    ),
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
