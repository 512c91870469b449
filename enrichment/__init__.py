"""Example queries for tools, in users' words.

A definition says what a tool does; people say what they want. An enrichment says the second, once
per definition. Searches use it in every tier; models never see it as the tool's own words.
"""

from __future__ import annotations

from .example_file import Enrichment, read_enrichments
from .tool_examples import Enrichments

__all__ = ["Enrichment", "Enrichments", "read_enrichments"]
