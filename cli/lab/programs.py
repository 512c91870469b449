"""`shortlist lab train-encoder` and others: programs with a command line of their own."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable

import typer

from ...errors import MissingExtraError

PROGRAMS = {
    "train-encoder": ("models.training.encoder", "Train an encoder."),
    "train-static": ("models.training.static_vectors", "Distil an encoder into tables."),
    "train-reranker": ("models.training.reranker", "Train a cross-encoder."),
    "average": ("models.training.average", "Average the weights of encoders."),
    "ablation": ("models.training.ablation", "Measure the effect of each training ingredient."),
    "bundle": ("models.training.bundle", "Export an encoder into models/weights."),
    "export-stock": ("models.training.stock", "Export the stock encoder to a cache folder."),
    "export-reranker": ("models.training.export_reranker", "Export a cross-encoder."),
    "library": ("evals.lab.library", "Write the example queries for well-known servers."),
    "enrichment-gain": ("evals.lab.enrichment_gain", "Measure a catalog with example queries."),
    "enrichment-halves": ("evals.lab.enrichment_halves", "Measure half of a catalog with queries."),
    "learning-gain": ("evals.lab.learning_gain", "Measure example queries from usage."),
    "bench-instant": ("evals.lab.bench.instant", "Measure answers before tools are encoded."),
    "fit-decision": ("evals.lab.fit_decision", "Fit the bundled decision."),
}
"""Name of a command -> module below the package, and what it does."""

_PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
_PACKAGE = __package__.removesuffix(".cli.lab")


def register(app: typer.Typer) -> None:
    """Add the commands to an application; `--help` is theirs."""
    for name, (module, text) in PROGRAMS.items():
        command = app.command(name, help=text, context_settings=_PASSED_ON, add_help_option=False)
        command(_program(name, module))


def _program(name: str, module: str) -> Callable[[typer.Context], None]:
    def run(context: typer.Context) -> None:
        sys.argv = [f"shortlist lab {name}", *context.args]
        try:
            runpy.run_module(f"{_PACKAGE}.{module}", run_name="__main__", alter_sys=True)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] == _PACKAGE:
                raise
            raise MissingExtraError(f"shortlist lab {name}", "train") from error

    return run
