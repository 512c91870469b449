"""The body of an HTTP request, made from a call's arguments: JSON, forms, multipart, bytes."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from urllib.parse import quote_plus, unquote

from .parameter_styles import FORM_ENCODING, Encoding, plain_text, query_pairs

FORM_TYPE, MULTIPART_TYPE = "application/x-www-form-urlencoded", "multipart/form-data"


@dataclass(frozen=True, slots=True)
class RequestBody:
    """The body of an operation's request.

    Args:
        media_type: its `Content-Type`.
        required: whether a request without arguments for the body still has one.
        argument: name of the argument that is the whole body; None if each property of the body is
            an argument of its own.
        properties: names of these properties and arguments.
        is_base64: whether that argument is base64 of the bytes that are sent.
        fields: how properties of a form are written, where it is not the default.
    """

    media_type: str
    required: bool = False
    argument: str | None = None
    properties: tuple[str, ...] = ()
    is_base64: bool = False
    fields: Mapping[str, Encoding] = field(default_factory=dict)

    @property
    def is_json(self) -> bool:
        """Whether the body is sent as JSON."""
        return is_json(self.media_type)

    def content(self, value: Any) -> tuple[bytes, str]:
        """The bytes to send, and their `Content-Type`.

        Args:
            value: the body as JSON.

        Raises:
            ValueError: the value does not suit the media type; says what it must be.
        """
        kind = bare_media_type(self.media_type)
        if self.is_json:
            return _json_bytes(value), self.media_type
        if kind in (FORM_TYPE, MULTIPART_TYPE):
            if not isinstance(value, Mapping):
                raise ValueError("an object")
            if kind == FORM_TYPE:
                return self._form(value), self.media_type
            return self._multipart(value)
        if self.is_base64:
            return _decoded(value), self.media_type
        return plain_text(value).encode(), self.media_type

    def _form(self, values: Mapping[str, Any]) -> bytes:
        pairs: list[str] = []
        for name, value in values.items():
            encoding = self.fields.get(name)
            if encoding is None:
                pairs += (f"{quote_plus(name)}={quote_plus(text)}" for text in _texts(value))
                continue
            for key, text in query_pairs(name, value, encoding):
                # A form writes a blank as a plus sign.
                pairs.append(f"{quote_plus(unquote(key))}={text.replace('%20', '+')}")
        return "&".join(pairs).encode()

    def _multipart(self, values: Mapping[str, Any]) -> tuple[bytes, str]:
        parts = [part for name, value in values.items() for part in self._parts(name, value)]
        # The hash of the parts cannot be chosen to occur in them.
        boundary = sha256(b"".join(parts)).hexdigest()[:32]
        edge = f"--{boundary}\r\n".encode()
        content = b"".join(edge + part + b"\r\n" for part in parts)
        return content + f"--{boundary}--\r\n".encode(), f"{MULTIPART_TYPE}; boundary={boundary}"

    def _parts(self, name: str, value: Any) -> Iterator[bytes]:
        disposition = f'Content-Disposition: form-data; name="{_part_name(name)}"'
        if self.fields.get(name, FORM_ENCODING).is_base64:
            for number, item in enumerate(value if isinstance(value, list) else [value]):
                filename = _part_name(name) + (f"-{number + 1}" if number else "")
                head = (
                    f'{disposition}; filename="{filename}"\r\n'
                    "Content-Type: application/octet-stream\r\n\r\n"
                )
                yield head.encode() + _decoded(item)
        elif is_structured(value):
            head = f"{disposition}\r\nContent-Type: application/json\r\n\r\n"
            yield head.encode() + _json_bytes(value)
        else:
            for text in _texts(value):
                yield f"{disposition}\r\n\r\n{text}".encode()


def bare_media_type(media_type: str) -> str:
    """A media type without its parameters, in lower case."""
    return media_type.partition(";")[0].strip().lower()


def is_json(media_type: str) -> bool:
    """Whether content of a media type is JSON."""
    kind = bare_media_type(media_type)
    return kind.endswith("+json") or kind in ("application/json", "text/json")


def is_structured(value: Any) -> bool:
    """Whether a value is an object, or a list with objects or lists in it."""
    if isinstance(value, list):
        return any(isinstance(item, dict | list) for item in value)
    return isinstance(value, dict)


def _texts(value: Any) -> Iterator[str]:
    """The texts of a form's field: one for each item of a plain list."""
    if isinstance(value, list) and not is_structured(value):
        yield from map(plain_text, value)
    else:
        yield plain_text(value)


def _json_bytes(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _decoded(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise ValueError("the content as base64") from None


def _part_name(name: str) -> str:
    """A field's name as browsers write it. It cannot end its line or its quotation marks."""
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
