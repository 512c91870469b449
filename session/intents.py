"""What a message asks for: its parts, one for each thing, or nothing at all.

Parts are split at words and punctuation. Whether a part is an intent depends on its hits, see
`ScoreBoard.intents`.

A message asks for nothing if all its words say thanks, yes, no or goodbye. A message that asks for
something and says thanks is a query.
"""

from __future__ import annotations

import re

from ..text import search_terms, without_accents

#: Parts a request is taken apart into at most; each costs an encoding.
MAX_PARTS = 6
#: Characters beyond which a request is a document, not a list of wishes, and stays whole.
_MAX_CHARS = 1_000
# Distinct terms a part needs: below that it is the end of its neighbour.
_MIN_TERMS = 2
_MARKS = " \n,.;:"

_SENTENCE = re.compile(r"(?<=[.?!;…])\s+|(?<=[。？！；])|\n+|;\s*")
# Longer forms first. Words that are one letter in one language and an article in another
# (`a`, `i`, `o`) are left out.
_CONJUNCTIONS = "|".join(
    (
        "and then|and also|and finally|and|then|also|plus|as well as|after that|afterwards",
        "finally|but|y luego|y después|y también|y|luego|después|también|et puis|et aussi|et|puis",
        "ensuite|und dann|und auch|und|dann|außerdem|e poi|poi|depois|então|e também|e|en dan",
        "daarna|och|sedan|og|oraz|potem|и затем|и|затем|потом|а также|ve sonra|ve|ardından|sonra",
        "ثم|و",
    )
)
_JOINT = re.compile(
    rf"(\s*,?\s+(?:{_CONJUNCTIONS})\s+"
    r"|[，、]\s*(?:然后|并且|并|再|接着|还有|そして|それから|また)?|(?:然后|并且|接着)"
    r"|\s*:\s+)",
    re.IGNORECASE,
)
_CONTINUATION = re.compile(
    rf"\s*(?:{_CONJUNCTIONS}|然后|接着|そして|それから|また|그리고)\b", re.IGNORECASE
)
_BLANKS = re.compile(r"[^\S\n]+")
_COMMA = re.compile(r"(,\s+)")


def parts_of_message(text: str) -> tuple[str, ...]:
    """The parts of a message, in order; one if it cannot be split, none if it is empty.

    Several sentences alone are not several parts, because people often explain one need in two or
    three. If there is a conjunction (in a dozen languages) or a colon, the message is split
    there and at the ends of sentences. It is split at commas only in a series that ends in a
    conjunction ("find X, gather Y and file Z"). A very short part stays with its neighbour.
    """
    bare = _BLANKS.sub(" ", text).strip(_MARKS)
    if len(bare) > _MAX_CHARS:
        return (bare,)
    merged: list[str] = []
    several = False
    for sentence in _SENTENCE.split(bare):
        parts = _join_short(_JOINT.split(sentence))
        several = several or len(parts) > 1 or _CONTINUATION.match(sentence) is not None
        if len(parts) > 1:
            parts = [
                piece for part in parts[:-1] for piece in _join_short(_COMMA.split(part))
            ] + parts[-1:]
        for part in parts:
            if merged and _is_short(part):
                merged[-1] += f" {part}"
            else:
                merged.append(part)
    if not several:
        return (bare,) if bare else ()
    trimmed = (part.strip(_MARKS) for part in merged)
    return tuple(part for part in trimmed if part)[:MAX_PARTS]


def _join_short(pieces: list[str]) -> list[str]:
    """Texts between boundaries; `pieces` alternates texts and boundaries, as `re.split` gives."""
    current, parts = pieces[0], []
    for boundary, piece in zip(pieces[1::2], pieces[2::2], strict=True):
        if _is_short(current) or _is_short(piece):
            current += boundary + piece
        else:
            parts.append(current)
            current = piece
    return [*parts, current]


def _is_short(part: str) -> bool:
    return len(set(search_terms(part))) < _MIN_TERMS


# Asks for nothing whatever was said before.
_ENDING_WORDS = frozenset(
    """
    thanks thank thx thankyou cheers appreciated danke dankeschon merci gracias grazie obrigado
    obrigada bedankt dank tack takk kiitos dzieki dziekuje спасибо благодарю 谢谢 謝謝 多谢 谢谢你
    谢啦 ありがとう ありがとうございます どうも 감사합니다 고마워 고마워요 tesekkurler sagol شكرا
    bye goodbye goodnight ciao tschuss adios
    no nope nah nevermind nein non nao nee nej nie нет 算了 不用了 不用 不要 いいえ 結構です 아니요
    됐어 됐어요 hayir لا lol haha hahaha wow oh ah ugh hm hmm
    """.split()
)
# Asks for nothing, unless something was just offered: then it is a yes.
_ASSENT_WORDS = frozenset(
    """
    yes yeah yep yup sure ok okay k fine good great perfect nice cool awesome lovely excellent
    brilliant wonderful super right alright gotcha noted understood beautiful interesting sweet
    ja gut prima oui bien parfait si vale bueno genial perfecto bene perfetto sim bom otimo ja goed
    tak dobrze да хорошо отлично 好 好的 好吧 可以 行 はい 了解 네 좋아요 evet tamam نعم
    """.split()
)
_FILLING_WORDS = frozenset(
    """
    a all an and but cool dear for got help i im is it its just know lot much my needed night now
    of
    really so for that thats the then there to today too very wanted was well wonderful yet you
    your youre
    schon bien mille muchas mucho molte tante vielen sehr beaucoup bonne soiree journee
    nuit dia noche hoch makes sense see quick
    """.split()
)
_REFUSAL = re.compile(
    r"(?:never ?mind|forget (?:it|that|about it)|not now|leave it(?: be)?|(?:it )?doesnt matter|"
    r"dont (?:bother|do (?:it|that|anything))|let me think(?: about it)?|no need|vergiss es|"
    r"lass (?:es|gut sein)|schon gut|laisse tomber|pas maintenant|dejalo|olvidalo|no importa|"
    r"ahora no|lascia (?:stare|perdere)|deixa (?:pra la|estar)|esquece|laat maar|не надо|забудь|"
    r"不用了|算了吧?|やっぱりいい(?:です)?|괜찮아요?)"
    r"(?: (?:leave it|yet|then|for now|now|please|thanks|ill come back))*$"
)
_OFFER = re.compile(
    r"[?？؟]|\b(?:i can|shall i|want me|if you (?:like|want|wish)|let me know|ready (?:when|to))\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w+")
#: Words of the longest turn looked at.
_MAX_WORDS = 14


def asks_nothing(request: str, before: str) -> bool:
    """Whether a message asks for nothing. Use it only if there was an earlier message.

    Args:
        request: the message of the user.
        before: the assistant's message right before; empty if there is none.
    """
    if len(request) > 120:
        return False
    bare = without_accents(request.replace("\u2019", "").replace("'", "")).casefold()
    request_words = _WORD.findall(bare)
    if not request_words or len(request_words) > _MAX_WORDS:
        return False
    if _REFUSAL.search(" ".join(request_words)):
        return True
    if not all(
        word in _ENDING_WORDS or word in _ASSENT_WORDS or word in _FILLING_WORDS
        for word in request_words
    ):
        return False
    if any(word in _ENDING_WORDS for word in request_words):
        # "No thanks", but also "oh, yes" to an offer.
        return not (
            _contains_offer(before) and any(word in _ASSENT_WORDS for word in request_words)
        )
    return any(word in _ASSENT_WORDS for word in request_words) and not _contains_offer(before)


def _contains_offer(before: str) -> bool:
    return _OFFER.search(before[-200:]) is not None
