"""Canonical JSON and content hashes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import sha256

_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)


def canonical_json(value: object) -> str:
    """JSON text that does not depend on key order: keys sorted, no white space, no NaN.

    Args:
        value: JSON data of bounded depth.

    Raises:
        ValueError: a float that JSON cannot represent.
    """
    return _ENCODER.encode(value)


def digest(parts: Iterable[bytes]) -> str:
    r"""First 32 hexadecimal digits of SHA-256 over the parts, each followed by a newline.

    Args:
        parts: texts without a raw newline, such as canonical JSON, so that no two lists collide.
    """
    return sha256(b"".join(part + b"\n" for part in parts)).hexdigest()[:32]
