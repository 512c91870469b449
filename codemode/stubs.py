"""Python stubs of tools: an async function with docstring for each, a class for each server."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from ..catalog import Tool
from ..catalog.text_cleaning import visible_line
from ..loaders.summaries import plain_sentences
from .python_types import ANY_TYPE, TYPE_NAMES, TypeDefinitions, TypeWriter, scalar_default
from .script_names import ToolNames, identifiers

#: Imports at the start of the stubs. Scripts do not need them.
STUB_IMPORTS = (
    "from __future__ import annotations\nfrom typing import Any, Literal, NotRequired, TypedDict\n"
)
#: Most arguments of one function. Further ones become `**more: Any`.
_MAX_ARGUMENTS = 150
_RESERVED_ARGUMENT_NAMES = frozenset({"self"})
_ASKS_LINE = "Each call needs a person's approval."
#: Before the arguments that several functions of a server describe alike.
_SHARED_ARGUMENTS_LINE = "Arguments, unless a function says otherwise:"


class Stubs:
    """The stubs of some tools, as one text.

    Args:
        tools: the tools.
        names: their names in scripts.
        namespaces: further servers to declare, without tools.
        asking_ids: ids of the tools of which each call needs a person's approval.
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        names: ToolNames,
        *,
        namespaces: Iterable[str] = (),
        asking_ids: Collection[str] = (),
    ) -> None:
        self._names = names
        self._namespaces = tuple(namespaces)
        self._tools = tuple(tools)
        self._asking_ids = frozenset(asking_ids)

    def text(self) -> str:
        """The stubs as the text of a `.pyi` file; empty if there are no tools."""
        reserved = frozenset(self._names.namespaces) | TYPE_NAMES
        definitions = TypeDefinitions(reserved)
        servers: dict[str, list[tuple[Tool, str]]] = {name: [] for name in self._namespaces}
        for tool in self._tools:
            namespace, function = self._names.function_of(tool.id)
            servers.setdefault(namespace, []).append((tool, function))
        classes = []
        for name, tools in servers.items():
            notes = {tool.id: argument_notes(tool, argument_names(tool)) for tool, _ in tools}
            shared = shared_notes(notes.values())
            hyphens = _tool_names_have_hyphens(tools)
            functions = [
                _function_stub(
                    tool,
                    function,
                    definitions,
                    [
                        summary(
                            tool,
                            "" if hyphens and _with_hyphens(function) == tool.name else function,
                        ),
                        *([_ASKS_LINE] if tool.id in self._asking_ids else []),
                        *(note for note in notes[tool.id].values() if note and note not in shared),
                    ],
                )
                for tool, function in tools
            ]
            header_lines = ["Tools have - in place of _ in their names."] if hyphens else []
            if shared:
                header_lines += [_SHARED_ARGUMENTS_LINE, *shared]
            body = (f"    {docstring(header_lines, 4)}\n" if header_lines else "") + "".join(
                functions
            )
            classes.append(f"class _{name}:\n{body or '    pass'}")
        variables = [f"{name}: _{name}\n" for name in servers]
        return "\n".join([STUB_IMPORTS, *definitions.texts, *classes, *variables])

    def for_model(self) -> str:
        """The stubs for a model, in few tokens; "" if there are no tools."""
        return compact(self.text().removeprefix(STUB_IMPORTS)).strip()


def _with_hyphens(function: str) -> str:
    return function.replace("_", "-")


def _tool_names_have_hyphens(tools: Sequence[tuple[Tool, str]]) -> bool:
    """Whether names of tools and functions differ only by hyphens; at least two must differ."""
    changed = [(tool.name, function) for tool, function in tools if "_" in function]
    return len(changed) > 1 and all(name == _with_hyphens(function) for name, function in changed)


def _function_stub(
    tool: Tool, function: str, definitions: TypeDefinitions, doc_lines: list[str]
) -> str:
    """A tool as an async method with keyword arguments, indented for a class."""
    schema = tool.input_schema
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    required = _required_names(schema)
    python_names = argument_names(tool)
    writer = TypeWriter(schema, definitions, function, is_argument=True)
    parameters = []
    for name in sorted(properties, key=lambda argument: argument not in required):
        python_name = python_names.get(name)
        if python_name is None:
            continue
        kind = writer.write(properties[name], name)
        default = "" if name in required else f" = {scalar_default(properties[name], kind)}"
        parameters.append(f"{python_name}: {kind}{default}")
    if len(python_names) < len(properties) or _accepts_more(schema):
        parameters.append(f"**{_unused_name('more', python_names.values())}: Any")
    output = tool.output_schema
    returns = (
        TypeWriter(output, definitions, function).write(output, "result") if output else ANY_TYPE
    )
    if not parameters:
        receiver = "self"
    elif parameters[0].startswith("**"):
        receiver = "self, "
    else:
        receiver = "self, *, "
    return (
        f"    async def {function}({receiver}{', '.join(parameters)}) -> {returns}:\n"
        f"        {docstring(doc_lines, 8)}\n"
    )


@lru_cache(20_000)
def argument_names(tool: Tool) -> Mapping[str, str]:
    """Argument's name in the schema to its name in Python, required ones first.

    At most 150. Scripts give the others with `**{"name": value}`.
    """
    schema = tool.input_schema
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return {}
    required = _required_names(schema)
    ordered = sorted(properties, key=lambda argument: argument not in required)
    return identifiers(ordered[:_MAX_ARGUMENTS], reserved=_RESERVED_ARGUMENT_NAMES)


def _required_names(schema: Mapping[str, Any]) -> frozenset[str]:
    listed = schema.get("required")
    names = listed if isinstance(listed, list) else []
    return frozenset(name for name in names if isinstance(name, str))


def _accepts_more(schema: Mapping[str, Any]) -> bool:
    """Whether a schema permits arguments that it does not list."""
    extra = schema.get("additionalProperties")
    if extra is True or isinstance(extra, dict):
        return True
    # Without properties, alternatives or a reference may list arguments.
    return not schema.get("properties") and any(
        keyword in schema for keyword in ("$ref", "anyOf", "oneOf", "allOf", "patternProperties")
    )


def _unused_name(name: str, names: Iterable[str]) -> str:
    used = set(names)
    while name in used:
        name += "_"
    return name


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
        text, label = _describe_argument(properties[name], about), python_name
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


def _describe_argument(schema: Any, known_words: frozenset[str]) -> str:
    """A schema's description of an argument, besides name, type and default; "" if there is none.

    Args:
        schema: schema of the argument.
        known_words: words in the signature and the summary.
    """
    description = schema.get("description") if isinstance(schema, dict) else None
    return _plain_argument_text(description, schema, known_words) if description else ""


def _plain_argument_text(
    description: object, schema: Mapping[str, Any], known_words: frozenset[str]
) -> str:
    """A description of an argument without what the signature says; "" if nothing is left."""
    if not isinstance(description, str):
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


#: Docstrings and other strings, which stay, and what is between them. A docstring of
#: `docstring` holds no double quote.
_STUB_PARTS = re.compile(
    r"""
    (?P<docstring> \"{3}[^"]*\"{3})
    | (?P<string> '(?:\\.|[^'\\])*' | "(?:\\.|[^"\\])*")
    | (?P<gone> [ ]->[ ]Any(?=:) | (?<=:)\n[ ]{8}(?=\"{3}) | \n(?=\n))
    | (?P<indent> ^[ ]+)
    | (?P<sign> [ ]?(?:->|[:=|,])[ ])
    """,
    re.VERBOSE | re.MULTILINE,
)
_INDENT = re.compile(r"\n +")
#: The class of a server, and the name of its only instance.
_SERVER_CLASS_OR_VARIABLE = re.compile(r"^class _(?=\w+:$)|^(\w+): _\1$\n?", re.MULTILINE)


def compact(stubs: str) -> str:
    r"""Stubs with one space of indentation, none around signs, and without result types `Any`.

    A server is a class of its name; the statement that binds the name to an instance is left out.

    Args:
        stubs: as `Stubs.text` writes them.

    Example:
        >>> print(compact('class _a:\n    def b(self, *, c: int = 1) -> Any:\n        ...\n'))
        class a:
         def b(self,*,c:int=1):
         ...
    """
    return _STUB_PARTS.sub(
        _shorten_part,
        _SERVER_CLASS_OR_VARIABLE.sub(lambda match: "" if match[1] else "class ", stubs),
    )


def _shorten_part(part: re.Match[str]) -> str:
    if part["docstring"]:
        return _INDENT.sub("\n ", part[0])
    if part["string"]:
        return part[0]
    if part["gone"]:
        return ""
    return " " if part["indent"] else part[0].strip()
