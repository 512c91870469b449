"""What the docstring of a tool's function says: what the tool does, and its arguments."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ..catalog import Tool
from ..catalog.text_cleaning import visible_line
from ..loaders.summaries import plain_sentences

#: Most characters of a function's description, of an argument's, and of all of one function's.
_MAX_SUMMARY_CHARS, _MAX_ARGUMENT_CHARS, _MAX_ARGUMENTS_TEXT_CHARS = 200, 90, 1_200
#: Most characters of sentences after these that say how to call the function.
_MAX_CALL_ADVICE_CHARS = 200
_IDENTIFIER = re.compile(r"\w+")
_CALL_ADVICE = re.compile(
    r"\b(?:must|format|absolute|relative|ISO ?8601|YYYY|UTC|comma-separated|mutually exclusive|"
    r"do not|don't|either|at least|at most|call this (?:before|after|first)|requires?)\b",
    re.IGNORECASE,
)
#: If this many functions of a server describe an argument alike, the description is shown once.
_MIN_FUNCTIONS_TO_SHARE = 2
_SPACES = re.compile(r"\s+")
_SENTENCE = re.compile(r"(?<=[^.\s])(?<!e\.g)(?<!i\.e)(?<!etc)\.(?=\s|$)")
#: A line of a description that is about an argument, such as `path (str): Absolute path`.
_ARGUMENT_LINE = re.compile(
    r"^[ \t]*(?:[-*][ \t]+)?`?([A-Za-z]\w{0,60})`?[ \t]*(?:\([^()\n]{0,80}\))?[ \t]*:[ \t]+(\S.*)$",
    re.MULTILINE,
)
#: Information that the signature already contains.
_WORD_OPTIONAL = re.compile(r"^\W*optional\b\W*", re.IGNORECASE)
_STATED_DEFAULT = re.compile(
    r"[\s,;]*\(?\b(?:the )?defaults?(?: value)?(?: is| to|:|=)?\s*", re.IGNORECASE
)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
#: Words that add nothing to a signature.
_STOP_WORDS = frozenset(
    """the a an of to for in on with by from this that be is which whose used optional you your want
    whether use using specify specified provide provided given retrieve include included return
    returned result array boolean list number object string""".split()
)


def docstring(lines: Iterable[str], indent: int) -> str:
    """Lines as a docstring. Quotes in them cannot end it.

    Args:
        lines: lines of text; the first follows the quotes.
        indent: spaces before all other lines.
    """
    joined = ("\n" + " " * indent).join(lines)
    joined = joined.replace("\\", "\\\\").replace('"""', "'''").replace('"', "'")
    return f'"""{joined}"""'


def summary(tool: Tool, function: str) -> str:
    """What a tool does, with its original name if the function's name differs.

    Args:
        tool: the tool.
        function: name of the function; "" leaves the original name out.
    """
    text, remaining_chars = "", _MAX_CALL_ADVICE_CHARS
    is_first_part = True
    for sentence in plain_sentences(tool.description):
        longer = f"{text} {sentence}.".strip()
        is_first_part = is_first_part and len(longer) <= _MAX_SUMMARY_CHARS
        if is_first_part:
            text = longer
        elif text and len(sentence) < remaining_chars and _says_how_to_call(sentence, tool):
            remaining_chars -= len(sentence)
            text = longer
    text = text or _first_sentence(tool.description or tool.title or "", _MAX_SUMMARY_CHARS)
    if function not in ("", tool.name):
        text = f"{text} (tool: {_first_sentence(tool.name, 100)})".strip()
    return text


def _says_how_to_call(sentence: str, tool: Tool) -> bool:
    """Whether a sentence has the name of an argument, or says what a value must be."""
    names = tool.input_schema.get("properties")
    words = set(_IDENTIFIER.findall(sentence))
    named = isinstance(names, dict) and any(name in words for name in names if "_" in name)
    return named or _CALL_ADVICE.search(sentence) is not None


def argument_notes(tool: Tool, python_names: Mapping[str, str]) -> dict[str, str]:
    """One line for each argument; "" if its name and type explain it.

    Args:
        tool: tool with the arguments.
        python_names: argument's name in the schema to its name in Python.

    Returns:
        Argument's name in Python to the line.
    """
    properties, remaining = tool.input_schema.get("properties", {}), _MAX_ARGUMENTS_TEXT_CHARS
    described = {match[1]: match[2] for match in _ARGUMENT_LINE.finditer(tool.description)}
    about = _words(f"{tool.name} {summary(tool, '')} {' '.join(python_names)}")
    lines: dict[str, str] = {}
    for name, python_name in python_names.items():
        schema = properties[name] if isinstance(properties[name], dict) else {}
        text, label = _plain_argument_text(schema.get("description"), schema, about), python_name
        if not text and name in described:
            text = _plain_argument_text(described[name], {}, about)
        if python_name != name:
            # A readable original name is shown in place of the Python name.
            same = re.sub(r"\W", "_", name) == python_name.rstrip("_")
            plain = text and same and name.isascii() and name.isprintable()
            label = name if plain else python_name
            text = text if plain else f'sent as "{_first_sentence(name, 80)}". {text}'.strip()
        lines[python_name] = f"{label}: {text}" if text and remaining > 0 else ""
        remaining -= len(text)
    return lines


def shared_notes(notes: Iterable[Mapping[str, str]]) -> list[str]:
    """Lines that most functions of a server with an argument share, and at least two.

    Args:
        notes: lines of each function.
    """
    line_counts: dict[str, Counter[str]] = {}
    for function_notes in notes:
        for python_name, line in function_notes.items():
            line_counts.setdefault(python_name, Counter())[line] += 1
    best = ((lines.most_common(1)[0], lines.total()) for lines in line_counts.values())
    return [
        line
        for (line, count), total in best
        if line and count >= _MIN_FUNCTIONS_TO_SHARE and count * 2 > total
    ]


def _plain_argument_text(
    description: object, schema: Mapping[str, Any], known_words: frozenset[str]
) -> str:
    """A description of an argument without what the signature says; "" if nothing is left.

    Args:
        description: the description, if the schema has one.
        schema: schema of the argument.
        known_words: words in the signature and the summary.
    """
    if not isinstance(description, str) or not description:
        return ""
    text = _WORD_OPTIONAL.sub("", _first_sentence(description, _MAX_ARGUMENT_CHARS))
    match = _STATED_DEFAULT.search(text) if "default" in schema else None
    if match is not None:
        default = text[match.end() :].strip(" .)`'\"")
        if default.casefold() == str(schema["default"]).casefold():
            text = text[: match.start()]
    return "" if _words(text) <= known_words | _STOP_WORDS else text


def _words(text: str) -> frozenset[str]:
    """The words of a text or a name, without the plural s."""
    words = (word.casefold() for word in _WORDS.findall(text))
    return frozenset(word if len(word) < 4 else word.removesuffix("s") for word in words)


def _first_sentence(text: str, letters: int) -> str:
    """The first sentence of a text on one line, cut to a length."""
    line = _SPACES.sub(" ", visible_line(text[: letters * 4], letters * 4)).strip()
    sentence = _SENTENCE.split(line, maxsplit=1)[0]
    if len(sentence) <= letters:
        return sentence
    cut = sentence[: letters - 3]
    if cut.count("(") > cut.count(")") and (before := cut.rpartition("(")[0].rstrip()):
        return before
    if " " in cut:
        cut = cut.rpartition(" ")[0]
    return f"{cut.rstrip()}..."
