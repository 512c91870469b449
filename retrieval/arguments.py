"""Whether the values in a request are such as a tool's parameters take.

A request with two numbers in it is hardly for a tool without parameters, and a tool that requires
three numbers is hardly meant by a request with none. Only what can be told by form is looked at:
numbers, dates, lists of numbers, addresses of pages and mail, names of files.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..catalog import Tool
from ..text import split_identifier

_READ = 4000
"""Characters of a request that are looked at."""
_MONTH = (
    "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|"
    "sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_TH = "(?:st|nd|rd|th)"
_ENDINGS = (
    "pdf|docx?|xlsx?|pptx?|csv|txt|md|json|xml|ya?ml|sql|html?|png|jpe?g|svg|gif|mp[34]|wav|zip|"
    "py|js|ts"
)
_THOUSANDS = r"\d{1,3}(?:,\d{3})++(?![\d,])"

#: Forms of values, looked for in this order in what the ones before have left.
_FORMS: Mapping[str, re.Pattern[str]] = {
    kind: re.compile("|".join(forms), re.IGNORECASE)
    for kind, forms in {
        "page": (r"https?://\S+", r"www\.\S+"),
        "mail": (r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+",),
        "date": (
            r"(?<![\w.-])\d{4}-\d\d(?:-\d\d)?(?![\w-])",
            r"(?<![\w.])\d{1,2}[./]\d{1,2}[./](?:\d{4}|\d\d)(?![\w.])",
            rf"\b{_MONTH}\.? \d{{1,2}}{_TH}?\b",
            rf"\b\d{{1,2}}{_TH}?(?: of)? {_MONTH}\b",
        ),
        "file": (
            r"(?<![\w/])(?:~|\.{0,2})/[\w./-]+",
            r"\b[a-z]:\\\S+",
            rf"\b[\w-]{{1,80}}\.(?:{_ENDINGS})\b",
        ),
        "list": (
            r"\[[^\[\]]*\]",
            rf"(?<![\w.,])(?!{_THOUSANDS})(?:-?\d++(?:\.\d++)?+, ?){{2,}}(?:and )?-?\d+(?:\.\d+)?",
        ),
        "number": (
            rf"(?:(?<![\w.])|(?<=\dx))[-$€£]?(?:{_THOUSANDS}|\d++)(?:\.\d++)?+"
            rf"(?:(?=x\d)|(?!{_TH}\b)(?:%|°[cf]?|[a-z]{{1,3}})?(?!\w|\.\d|-\d{{4}}))",
        ),
    }.items()
}

#: Words in the name of a parameter for text that say that it takes such a value.
_NAMES: Mapping[str, frozenset[str]] = {
    kind: frozenset(words.split())
    for kind, words in {
        "page": "url urls uri link links site website web domain page href source image file path",
        "mail": "mail email emails to recipient recipients user users username address account "
        "contact attendee attendees from login name",
        "file": "path paths filepath file files filename dir directory folder source src target "
        "dest destination input output name image doc document url uri",
        "number": "id ids userid num number phonenumber code zip zipcode postcode date time "
        "datetime timestamp year month day amount phone version hash isbn price size count limit "
        "page lat lon lng latitude longitude from to start end value query text expression input "
        "data body content message name key q sku serial ref reference address arg args argument "
        "param command sql url path title",
    }.items()
}
#: What may bring a schema parameters that are not listed in it.
_ELSEWHERE = ("$ref", "allOf", "anyOf", "oneOf", "patternProperties")
#: Values that a parameter for lists or objects takes, or one of an unknown type.
_MANY = 9


@dataclass(frozen=True, slots=True)
class Values:
    """How many values of each form a request holds."""

    counts: Mapping[str, int]

    @classmethod
    def of(cls, text: str) -> Values:
        """Those of a request's first 4,000 characters."""
        counts: dict[str, int] = {}
        rest = text[:_READ]
        for kind, form in _FORMS.items():
            rest, counts[kind] = form.subn(" ", rest)
        return cls(counts)

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class Slots:
    """The values that a tool's parameters can take. Parameters inside objects are not read.

    none: whether the tool has no parameters; numbers: number parameters; required: required number
    parameters; open: number of values that list, object and untyped parameters can take; text: text
    parameters by kind of value.
    """

    none: bool
    numbers: int
    required: int
    open: int
    text: Mapping[str, int]

    @classmethod
    def of(cls, tool: Tool) -> Slots:
        """The slots of a tool's input schema."""
        schema = tool.input_schema
        listed = schema.get("properties")
        properties: Mapping[str, Any] = listed if isinstance(listed, dict) else {}
        required = {name for name in _list(schema.get("required")) if isinstance(name, str)}
        hidden = any(schema.get(key) for key in _ELSEWHERE)
        hidden |= schema.get("additionalProperties", False) is not False
        numbers = needed = 0
        wide = _MANY if hidden else 0
        text: Counter[str] = Counter()
        for name, described in properties.items():
            types = set(_types(described))
            if types & {"integer", "number"}:
                numbers += 1
                needed += name in required
            elif "string" in types:
                words = {word.lower() for word in split_identifier(name)}
                text.update(kind for kind, known in _NAMES.items() if words & known)
            elif types != {"boolean"}:
                wide += _MANY
        return cls(not properties and not hidden, numbers, needed, wide, dict(text))

    def left_over(self, values: Values) -> float:
        """Share of a request's values that find no parameter, from 0 to 1.

        Each kind is counted separately: one parameter `path` takes a page and a file. Dates and
        lists count as values, but any parameter takes them.
        """
        if not values.total:
            return 0.0
        if self.none:
            return 1.0
        counts, text = values.counts, self.text
        left = max(0, counts["number"] - self.numbers - text.get("number", 0) - self.open)
        for kind in ("page", "mail", "file"):
            left += max(0, counts[kind] - text.get(kind, 0) - self.open)
        return min(1.0, left / values.total)

    def missing(self, values: Values) -> float:
        """Share of the required numbers that a request does not give, from 0 to 1."""
        if not self.required:
            return 0.0
        counts = values.counts
        given = counts["number"] + counts["date"] + _MANY * counts["list"]
        return max(0, self.required - given) / self.required


def _types(schema: Any) -> Iterator[str]:
    """JSON types that a parameter's schema names, its alternatives' included, but null."""
    if not isinstance(schema, dict):
        return
    for one in (schema, *_list(schema.get("anyOf")), *_list(schema.get("oneOf"))):
        named = one.get("type") if isinstance(one, dict) else None
        for kind in named if isinstance(named, list) else [named]:
            if isinstance(kind, str) and kind != "null":
                yield kind


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
