"""Example queries for tools, in users' words.

A definition says what a tool does; people say what they want. Example queries say the second, once
per definition. Searches use them in every tier; models never see them as the tool's own words.
"""

from __future__ import annotations

from .example_file import ExampleQueryRow, read_example_queries
from .tool_examples import ExampleQueryMatcher

__all__ = ["ExampleQueryMatcher", "ExampleQueryRow", "read_example_queries"]
