"""The credentials of an operation: which ones its document asks for, and where they are sent."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Literal, Self, cast, get_args
from urllib.parse import quote, unquote_plus, urlsplit, urlunsplit

from ..errors import ToolError

SchemeKind = Literal["bearer", "basic", "header", "query", "cookie", "unsupported"]
_KINDS: tuple[SchemeKind, ...] = get_args(SchemeKind)
#: Octets of a cookie besides letters and digits that stay as they are (RFC 6265).
_COOKIE_CHARS = "!#$%&'()*+-./:<=>?@[]^_`{|}~"


@dataclass(frozen=True, slots=True)
class SecurityScheme:
    """One kind of credential of a document.

    Args:
        name: its name in the document, under which a credential is given.
        kind: `bearer` and `basic` are sent as `Authorization`, an API key as a `header`, in the
            `query` or as a `cookie`. `unsupported`: it cannot be given as a text.
        parameter: name of the API key's header, query parameter or cookie.
    """

    name: str
    kind: SchemeKind
    parameter: str = ""

    @property
    def place(self) -> tuple[str, str]:
        """Place and name in a request, with a header's name in lower case."""
        if self.kind in ("query", "cookie"):
            return self.kind, self.parameter
        return "header", self.parameter.lower() or "authorization"

    @property
    def takes_text(self) -> bool:
        """Whether its credential can be given as a text."""
        return self.kind != "unsupported"


#: Alternatives, each with schemes: a request needs all schemes of one of them. If one has none, the
#: request may go without a credential.
Security = tuple[tuple[SecurityScheme, ...], ...]


@dataclass(frozen=True, slots=True)
class RequestCredentials:
    """The credentials of one request, as they are sent.

    Args:
        headers: name to value.
        query: name to text, not encoded.
        cookies: name to text, not encoded.
    """

    headers: Mapping[str, str]
    query: Mapping[str, str]
    cookies: Mapping[str, str]

    @classmethod
    def of(cls, schemes: Iterable[SecurityScheme], credentials: Mapping[str, str]) -> Self:
        """The credentials of some schemes.

        Args:
            schemes: schemes that each have a credential and can be sent.
            credentials: name of the scheme to token, key, or `NAME:PASSWORD` for `basic`.
        """
        headers, query, cookies = dict[str, str](), dict[str, str](), dict[str, str]()
        for scheme in schemes:
            text = credentials[scheme.name]
            if scheme.kind == "bearer":
                headers["Authorization"] = f"Bearer {text}"
            elif scheme.kind == "basic":
                headers["Authorization"] = f"Basic {base64.b64encode(text.encode()).decode()}"
            else:
                table = {"header": headers, "query": query, "cookie": cookies}[scheme.kind]
                table[scheme.parameter] = text
        return cls(headers, query, cookies)

    def url(self, url: str) -> str:
        """An address with the credentials of the query, in place of others of their names."""
        if not self.query:
            return url
        parts = urlsplit(url)
        pairs = [
            pair
            for pair in parts.query.split("&")
            if pair and unquote_plus(pair.partition("=")[0]) not in self.query
        ]
        pairs += [
            f"{quote(name, safe='')}={quote(text, safe='')}" for name, text in self.query.items()
        ]
        return urlunsplit(parts._replace(query="&".join(pairs)))

    def all_headers(self, cookie_header: str = "") -> dict[str, str]:
        """The headers with credentials.

        Args:
            cookie_header: cookies of the request, of which others of the same names are left out.
        """
        if not self.cookies:
            return dict(self.headers)
        pairs = [
            pair
            for pair in re.split(r";\s*", cookie_header)
            if pair and pair.partition("=")[0] not in self.cookies
        ]
        pairs += [
            f"{name}={quote(text, safe=_COOKIE_CHARS)}" for name, text in self.cookies.items()
        ]
        return {**self.headers, "Cookie": "; ".join(pairs)}


def usable_schemes(
    security: Security,
    names: Collection[str],
    is_sent: Callable[[SecurityScheme], bool] = lambda _: False,
) -> tuple[SecurityScheme, ...] | None:
    """The schemes to send a request with; None if a credential is missing.

    Args:
        security: what the operation needs.
        names: names of schemes with a credential.
        is_sent: whether a scheme's credential is in the request already.
    """
    for schemes in security:
        unsent = tuple(scheme for scheme in schemes if not is_sent(scheme))
        if schemes and all(scheme.takes_text and scheme.name in names for scheme in unsent):
            return unsent
    return None if security and () not in security else ()


def all_schemes(security: Security) -> Iterator[SecurityScheme]:
    """The schemes of all alternatives."""
    return chain.from_iterable(security)


def needed_names(security: Security) -> str:
    """Names of the schemes that an operation needs, such as `'key', or 'id' and 'token'`.

    Empty if no alternative can be given as texts.
    """
    alternatives = [
        " and ".join(repr(scheme.name)[:80] for scheme in schemes)
        for schemes in security
        if schemes and all(scheme.takes_text for scheme in schemes)
    ]
    return ", or ".join(alternatives)


def security_row(security: Security) -> list[dict[str, str]]:
    """JSON form: for each alternative, name of the scheme to kind and parameter."""
    return [
        {scheme.name: f"{scheme.kind} {scheme.parameter}".rstrip() for scheme in schemes}
        for schemes in security
    ]


def read_security(value: object) -> Security:
    """What an operation needs, from the result of `security_row`.

    Raises:
        ToolError: it is not such a form.
    """
    alternatives = value if isinstance(value, list) else [None]
    security: list[tuple[SecurityScheme, ...]] = []
    for row in alternatives:
        if not isinstance(row, dict) or not all(isinstance(text, str) for text in row.values()):
            raise ToolError(field="operation.security", reason="must be a list of objects of texts")
        schemes = []
        for name, text in row.items():
            kind, _, parameter = text.partition(" ")
            if kind not in _KINDS:
                reason = f"must begin with one of {', '.join(_KINDS)}"
                raise ToolError(field=f"operation.security.{name:.80}", reason=reason)
            schemes.append(SecurityScheme(name, cast("SchemeKind", kind), parameter))
        security.append(tuple(schemes))
    return tuple(security)
