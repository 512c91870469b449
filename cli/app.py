"""The application: its commands, how it ends, and `shortlist lab` where there is a checkout."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from .. import __version__
from ..errors import EvaluationError, ShortlistError, UnknownToolError
from .calibrate import calibrate
from .console import visible, wrapped
from .demo import demo
from .doctor import doctor
from .enrich import enrich
from .eval import eval_commands
from .explain import explain
from .gateway.add import add
from .gateway.auth import auth
from .gateway.hook import hook
from .gateway.import_servers import import_servers
from .gateway.install import install
from .gateway.secret import secret
from .gateway.serve import serve
from .gateway.server_logs import logs
from .gateway.stop import stop
from .index import index
from .inspect_page import inspect_page
from .learn import learn
from .lint import lint
from .list_tools import list_tools
from .migrate import migrate
from .search import search
from .stats import stats
from .tax import tax
from .trust import trust

_PASS_ARGUMENTS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


def register(app: typer.Typer) -> None:
    """Add the `lab` commands; in an installed package, one that says what they need."""
    if not (Path(__file__).parent.parent / "lab").is_dir():
        app.command("lab", context_settings=_PASS_ARGUMENTS_ON, add_help_option=False)(refuse)
    else:
        import_module("..lab.commands", __package__).register(app)


def refuse(context: typer.Context) -> None:  # noqa: ARG001
    """Reproduce this project's own figures; needs a checkout.

    Raises:
        EvaluationError: always.
    """
    raise EvaluationError(
        "shortlist lab needs a checkout: it reproduces the project's own figures, from files that "
        "an installed package does not have; clone the repository and run there: "
        "pip install --editable '.[lab]'"
    )


_EXIT_CODES = (
    "Exit codes: 0 success (also when `explain` finds that a tool is not offered); 1 error, one "
    "line on stderr, or findings of `lint`; 2 wrong usage; 3 a check failed (eval, learn, lab bench) or tools are "
    "quarantined (trust diff, doctor); 130 interrupted; 141 the reader of the output closed the "
    "pipe."
)
_ERROR_EXIT, _INTERRUPTED_EXIT, _PIPE_CLOSED_EXIT = 1, 130, 141


class Commands(TyperGroup):
    """The commands; what goes wrong in one becomes a line on stderr and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # What is still buffered must not fail again when the interpreter flushes it at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(_PIPE_CLOSED_EXIT) from None
        except KeyboardInterrupt:
            raise typer.Exit(_INTERRUPTED_EXIT) from None
        except typer.BadParameter as error:
            # A missing argument has no message of its own.
            if error.message:
                prefix = f"Error: {error.format_message()}".partition(error.message)[0]
                error.message = wrapped(error.message, used=len(prefix))
            raise
        except (ShortlistError, OSError) as error:
            label = typer.style("error:", fg="red", bold=True)
            text = wrapped(visible(" ".join(_with_advice(error).split())), used=len("error: "))
            typer.echo(f"{label} {text}", err=True)
            raise typer.Exit(_ERROR_EXIT) from error
        return result


def _with_advice(error: Exception) -> str:
    """The message of an error, with the file or what to do where the error itself lacks it."""
    if isinstance(error, UnknownToolError) and not error.nearest:
        return f"{error}; `shortlist list` shows all ids"
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


app = typer.Typer(
    cls=Commands,
    help="Find the few tools an agent needs this turn, out of thousands.",
    epilog=_EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Rich reads `[ids]` in a help text as markup and shows a flag as `--json <bool>`.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"shortlist {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Find the few tools an agent needs this turn, out of thousands."""


_COMMANDS: dict[str, Callable[..., None] | typer.Typer] = {
    "index": index,
    "search": search,
    "explain": explain,
    "list": list_tools,
    "tax": tax,
    "enrich": enrich,
    "doctor": doctor,
    "lint": lint,
    "inspect": inspect_page,
    "migrate": migrate,
    "serve": serve,
    "stop": stop,
    "stats": stats,
    "logs": logs,
    "secret": secret,
    "import": import_servers,
    "add": add,
    "install": install,
    "hook": hook,
    "auth": auth,
    "demo": demo,
    "learn": learn,
    "calibrate": calibrate,
    "eval": eval_commands,
    "trust": trust,
}
for name, command in _COMMANDS.items():
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=name)
    else:
        app.command(name)(command)
register(app)


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        # A request may hold bytes that are no text, and a terminal may know no such letter.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    app(prog_name="shortlist")
