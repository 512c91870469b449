"""Recognises messages that ask for nothing: thanks, praise, "never mind".

The whole message must consist of such words. A message that asks for something and says thanks is a
query.
"""

from __future__ import annotations

import re

from ..text import fold

# Asks for nothing whatever was said before.
_ENDING = frozenset(
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
_ASSENT = frozenset(
    """
    yes yeah yep yup sure ok okay k fine good great perfect nice cool awesome lovely excellent
    brilliant wonderful super right alright gotcha noted understood beautiful interesting sweet
    ja gut prima oui bien parfait si vale bueno genial perfecto bene perfetto sim bom otimo ja goed
    tak dobrze да хорошо отлично 好 好的 好吧 可以 行 はい 了解 네 좋아요 evet tamam نعم
    """.split()
)
_FILLING = frozenset(
    """
    a all an and but cool dear for got help i im is it its just know lot much my needed night now
    of
    really so for that thats the then there to today too very wanted was well wonderful yet you
    your youre
    schon bien mille muchas mucho molte tante vielen sehr beaucoup bonne soiree journee
    nuit dia noche hoch makes sense see quick
    """.split()
)
_REFUSED = re.compile(
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
_MOST_WORDS = 14


def asks_nothing(request: str, before: str) -> bool:
    """Whether a message asks for nothing. Use it only if there was an earlier message.

    Args:
        request: the message of the user.
        before: the assistant's message right before; empty if there is none.
    """
    if len(request) > 120:
        return False
    bare = fold(request.replace("\u2019", "").replace("'", "")).casefold()
    said = _WORD.findall(bare)
    if not said or len(said) > _MOST_WORDS:
        return False
    if _REFUSED.search(" ".join(said)):
        return True
    if not all(word in _ENDING or word in _ASSENT or word in _FILLING for word in said):
        return False
    if any(word in _ENDING for word in said):
        # "No thanks", but also "oh, yes" to an offer.
        return not (_offered(before) and any(word in _ASSENT for word in said))
    return any(word in _ASSENT for word in said) and not _offered(before)


def _offered(before: str) -> bool:
    return _OFFER.search(before[-200:]) is not None
