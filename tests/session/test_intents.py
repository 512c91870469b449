from __future__ import annotations

from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.session.intents import MAX_PARTS, parts_of_message


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            "Make a PDF of yearend.xlsx and beep at me once finished",
            ("Make a PDF of yearend.xlsx", "beep at me once finished"),
        ),
        (
            "Find the post, sum up the replies and read the summary aloud.",
            ("Find the post", "sum up the replies", "read the summary aloud"),
        ),
        (
            "Busca los correos nuevos y luego crea una reunión mañana",
            ("Busca los correos nuevos", "crea una reunión mañana"),
        ),
        (
            "Zeig mir die Termine morgen und schick Anna eine Nachricht",
            ("Zeig mir die Termine morgen", "schick Anna eine Nachricht"),
        ),
        ("查一下北京的天气，然后发邮件给李雷", ("查一下北京的天气", "发邮件给李雷")),
        (
            "List my drafts. Then delete the oldest draft.",
            ("List my drafts", "Then delete the oldest draft"),
        ),
        ("Where is Litecoin trading, and any news?", ("Where is Litecoin trading, and any news?",)),
        ("salt and pepper", ("salt and pepper",)),
        ("Últimas notícias, só umas dez, resumo curto", None),
        ("I opened a firmware image. Show the first routines.", None),
        ("", ()),
        (" ,; ", ()),
    ],
)
def test_boundaries(text: str, parts: tuple[str, ...] | None) -> None:
    found = parts_of_message(text)
    if parts is None or len(parts) == 1:
        assert len(found) == 1
    else:
        assert found == parts


@settings(deadline=None)
@given(st.text(max_size=400))
def test_any_text_gives_few_parts_made_of_its_own_words(text: str) -> None:
    found = parts_of_message(text)
    assert len(found) <= MAX_PARTS
    assert all(part == part.strip() and part for part in found)
    words = " ".join(text.split())
    assert all(word in words for part in found for word in part.split())


@pytest.mark.parametrize("text", [" " * 8_000, " , " * 300, " and " * 199, ",\n" * 400, "a " * 499])
def test_hostile_whitespace_takes_no_time(text: str) -> None:
    start = process_time()
    parts_of_message(text)
    assert process_time() - start < 0.5


def test_a_document_is_not_taken_apart() -> None:
    assert len(parts_of_message("Read the report and mail it to Ann. " * 40)) == 1
