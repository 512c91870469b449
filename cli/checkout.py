"""`shortlist lab`: measures the project itself, where there is a checkout of it."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import typer

from ..errors import EvaluationError

_PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


def register(app: typer.Typer) -> None:
    """Add the `lab` commands; in an installed package, one that says what they need."""
    if find_spec(f"{__package__}.lab") is None:
        app.command("lab", context_settings=_PASSED_ON, add_help_option=False)(refuse)
    else:
        import_module(f"{__package__}.lab").register(app)


def refuse(context: typer.Context) -> None:  # noqa: ARG001
    """Reproduce this project's own figures; needs a checkout.

    Raises:
        EvaluationError: always.
    """
    raise EvaluationError(
        "shortlist lab needs a checkout: it reproduces the project's own figures, from files that "
        "an installed package does not have; clone the repository and run there: "
        "pip install --editable '.[dev]'"
    )
