"""`shortlist lab train-encoder` and others: programs with a command line of their own."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable

import typer

from ...errors import MissingExtraError

PROGRAMS = {
    "train-encoder": ("training.encoder", "Train an encoder."),
    "train-static": ("training.static_vectors", "Distil an encoder into tables."),
    "train-reranker": ("training.reranker", "Train a cross-encoder."),
    "average": ("training.average", "Average the weights of encoders."),
    "ablation": ("training.ablation", "Measure the effect of each training ingredient."),
    "bundle": ("training.bundle", "Export an encoder into models/weights."),
    "export-stock": ("training.stock", "Export the stock encoder to a cache folder."),
    "export-reranker": ("training.export_reranker", "Export a cross-encoder."),
    "library": ("enrichment.library", "Write the example queries for well-known servers."),
    "enrichment-gain": ("enrichment.enrichment_gain", "Measure a catalog with example queries."),
    "enrichment-halves": (
        "enrichment.enrichment_halves",
        "Measure half of a catalog with queries.",
    ),
    "learning-gain": ("enrichment.learning_gain", "Measure example queries from usage."),
    "bench-instant": ("bench.instant", "Measure answers before tools are encoded."),
    "fit-decision": ("deciding.fit_decision", "Fit the bundled decision."),
    "query-sets": ("query_sets", "Measure the committed queries."),
}
"""Name of a command -> module of the laboratory, and what it does."""

_PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
_LAB = __package__.removesuffix(".commands")


def register(app: typer.Typer) -> None:
    """Add the commands to an application; `--help` is theirs."""
    for name, (module, text) in PROGRAMS.items():
        command = app.command(name, help=text, context_settings=_PASSED_ON, add_help_option=False)
        command(_program(name, module))


def _program(name: str, module: str) -> Callable[[typer.Context], None]:
    def run(context: typer.Context) -> None:
        sys.argv = [f"shortlist lab {name}", *context.args]
        try:
            runpy.run_module(f"{_LAB}.{module}", run_name="__main__", alter_sys=True)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] == _LAB.partition(".")[0]:
                raise
            raise MissingExtraError(f"shortlist lab {name}", "lab") from error

    return run
