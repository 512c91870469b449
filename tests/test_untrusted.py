"""Strangers' bytes are read by `untrusted/`, and requests with credentials have one sender."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.tests.test_layers import MODULES, ROOT
from shortlist.untrusted.text_bytes import charset, decoded_text
from shortlist.untrusted.value_count import TooLargeError, is_small, size_of_value

READERS = frozenset(
    "decode loads from_json charset_encoding validate_json model_validate_json".split()
)
#: Files that read bytes themselves, by the reason.
ALLOWED = {
    "the product's own files": """
        catalog/tool.py decision/decider.py demo/__init__.py enrichment/example_file.py
        enrichment/library.py gateway/attach/running_gateway.py gateway/connections/server_log.py
        gateway/profiles/client_sessions.py gateway/profiles/long_results.py
        gateway/profiles/remembered_approvals.py
        gateway/upstream/start_cache.py indexing/stored_build.py inspector/catalog_answers.py
        loaders/summaries.py models/model_folder.py
        models/picking_reranker.py models/static_encoder.py retrieval/store/salvage.py
        session/pending.py
        retrieval/store/versions.py session/recorder.py trust/pins.py
        cli/gateway/server_logs.py gateway/connections/oauth.py
        gateway/connections/secret_store.py""",
    "the user's own files and arguments, bounded by catalog/text_file or alike": """
        catalog/text_file.py cli/gateway/hook.py cli/search.py config.py
        gateway/clients/claude_permissions.py gateway/clients/config_file.py
        gateway/clients/config_references.py""",
    "texts that are only made valid or encoded": """
        codemode/sandbox.py session/event.py gateway/meta_tools/tool_calls.py gating/verdict.py
        models/token_counter.py session/reply_handler.py text.py
        gateway/connections/credential_sender.py catalog/security.py""",
    "bounded before: short pieces, headers, one message": """
        gateway/attach/attached_client.py gateway/connections/masking.py gateway/http_server.py
        gateway/stdio_streams.py inspector/page_app.py
        trust/plain_form.py gateway/connections/openapi_server.py codemode/diagnostics.py
        codemode/code_runner.py
        language_model.py gateway/meta_tools/client_search.py
        cli/gateway/auth.py""",
    "messages of the same program, or what it signed": """
        codemode/script_process.py gateway/relay/tasks.py""",
    "one line of a server whose bytes and values were counted": """
        gateway/connections/server_process.py""",
}


def reading_calls(path):
    tree = ast.parse(path.read_text())
    return [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in READERS
    ]


def shipped_files():
    for name, path in MODULES.items():
        if name.partition(".")[0] not in ("lab", "evals", "untrusted", "packaging"):
            yield path


def test_strangers_bytes_are_read_in_one_place():
    allowed = {ROOT / name for names in ALLOWED.values() for name in names.split()}
    found = {path: reading_calls(path) for path in shipped_files()}
    strange = [call for path, calls in found.items() if path not in allowed for call in calls]
    assert strange == [], "read with shortlist.untrusted, or name the file and why not"
    assert [str(path) for path in allowed if not found.get(path)] == []


def test_one_function_makes_the_clients_that_send_credentials():
    made = [path.name for path in shipped_files() if "httpx2.AsyncClient(" in path.read_text()]
    assert made == ["credential_sender.py"]


def expanded(value):
    """Values, characters and levels, counted in the plainest way."""
    if isinstance(value, str):
        return 1, len(value), 0
    if not isinstance(value, dict | list):
        return 1, 0, 0
    parts = [*value.keys(), *value.values()] if isinstance(value, dict) else value
    sizes = [expanded(part) for part in parts]
    levels = max((size[2] for size in sizes), default=0)
    return 1 + sum(size[0] for size in sizes), sum(size[1] for size in sizes), levels + 1


VALUES = st.recursive(
    st.text(max_size=3) | st.none() | st.floats(),
    lambda children: (
        st.lists(children)
        | st.dictionaries(st.text(max_size=2), children)
        | children.map(lambda child: [child, child])
    ),
)


@given(VALUES)
def test_shared_parts_count_as_often_as_they_occur(value):
    assert size_of_value(value, max_values=10**6, max_chars=10**6) == expanded(value)


@pytest.mark.parametrize("levels", [101, 5_000])
def test_a_value_that_is_nested_deep_is_too_large(levels):
    value: object = "x"
    for _ in range(levels):
        value = [value]
    with pytest.raises(TooLargeError, match="nested deeper than 100 levels"):
        size_of_value(value, max_values=10**6, max_chars=10**6)


def test_depth_counts_at_the_deepest_place_of_a_shared_part():
    shared: object = "x"
    for _ in range(60):
        shared = [shared]
    value = shared
    for _ in range(60):
        value = [shared, value]
    with pytest.raises(TooLargeError, match="nested"):
        size_of_value([shared, value], max_values=10**6, max_chars=10**6)


def test_a_value_that_contains_itself_is_neither_small_nor_endless():
    value: list[object] = []
    value.append(value)
    assert not is_small(value)


@pytest.mark.parametrize(
    ("content_type", "codec"),
    [
        ("text/plain", "utf-8"),
        ('text/csv; charset="ISO-8859-1"', "iso8859-1"),
        ("text/plain;charset=Shift_JIS; x=1", "shift_jis"),
        ("text/plain; charset=utf-7", "utf-8"),
        ("text/plain; charset=bz2", "utf-8"),
        ("text/plain; charset=rot13", "utf-8"),
        ("text/plain; charset=../x", "utf-8"),
        ("text/plain" + ";" * 97_000 + "charset=ascii", "utf-8"),
    ],
)
def test_only_encodings_of_the_web_are_used(content_type, codec):
    assert charset(content_type) == codec


@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    st.sampled_from(["utf-8", "utf-16", "utf-16-le", "utf-32", "gb18030"]),
    st.sampled_from([1, 70_000]),
)
def test_text_is_decoded_across_parts(text, codec, times):
    assert (
        decoded_text((text * times).encode(codec), charset(f"a/b; charset={codec}")) == text * times
    )


def test_utf16_without_its_byte_order_is_little_endian():
    assert decoded_text("añ".encode("utf-16-le"), "utf-16") == "añ"
