"""The chief words of the concepts in languages other than English.

Paths, addresses, markup and invisible characters need no language; orders do. These are the words
without which an order to leak, to hide or to take precedence can hardly be given. Japanese, Chinese
and Korean put no spaces between words, so nothing here asks for a word boundary.
"""

from __future__ import annotations

import re
from typing import Final

from .further_languages import FURTHER

_COMMON = re.compile(
    r"\b(?:el|la|los|las|der|die|das|den|dem|le|les|des|il|lo|di|que|para|por|um|uma|os|un|una|und|"
    r"ein|nicht|pas|non|bir|ve|prima|antes|avant|een|het|niet|nie|jest|ikke|ei|nem|nu|yang|dan|"
    r"untuk|dengan|ng|mga|sa|kwa|kaj|que)\b|[\u00e0-\u024f]|[^\x00-\u024f\u2000-\u2bff]"
)


def elsewhere(text: str) -> bool:
    """Whether a text may hold another language: one of its commonest words, or another script."""
    return _COMMON.search(text) is not None


_CHIEF: Final[dict[str, str]] = {
    "trigger": (
        r"bevor|jedes ?mal|antes de|cada vez|avant (?:de|d'|tout|chaque)|prima di|перед|прежде|"
        r"до того|之前|前に|以前に|전에|önce|每次|まず|首先"
    ),
    "universal": (
        r"(?:irgend)?ein anderes|alle anderen|jede[rsmn]? |cualquier otr[ao]|tod[oa]s? l[ao]s|"
        r"qualquer outr[ao]|tout autre|toute autre|chaque|qualsiasi altr[ao]|cada |"
        r"любого другого|всех|每次|任何其他|所有|すべて|全て|他の|다른|모든|diğer|herhangi|tüm"
    ),
    "other_tools": (
        r"ander(?:e[sn]?)? werkzeug\w*|ander(?:e[sn]?)? tools?|otras? herramientas?|"
        r"autres? outils?|altr[oi] strument[oi]|outras? ferramentas?|друг\w+ инструмент\w*|"
        r"其他(?:任何)?工具|任何其他工具|他の(?:すべての)?ツール|다른 도구|diğer araç\w*"
    ),
    "oblige": (
        r"\bmuss\b|müssen|immer|\bdebe\b|obligatori[ao]|\bdoit\b|obligatoire|\bdeve\b|"
        r"\bdeben\b|sempre|siempre|toujours|должен|должна|обязательно|необходимо|必须|务必|"
        r"必ず|반드시|zorunlu|mutlaka"
    ),
    "agent": (
        r"der assistent|das modell|el asistente|el modelo|l'assistant|le modèle|l'assistente|"
        r"il modello|o assistente|o modelo|ассистент\w*|модель должна|助手|智能体|アシスタント|"
        r"エージェント|어시스턴트|asistan"
    ),
    "read": (
        r"gelesen|lies |lesen|\blee\b|\bleer\b|\blea\b|\blis\b|\blire\b|\bleggi\b|\bleia\b|"
        r"\bler\b|прочита\w+|читай\w*|读取|读出|読み|読んで|읽|oku|içeriğini"
    ),
    "hand_over": (
        r"übergeben|übergib|übermitt\w+|schick\w*|sende\b|\bpasa\b|\bpasar\b|\bincluya\b|envía|"
        r"\benvia|envie|envoie|envoy\w+|transmet\w*|inserisci|\binvia|\bpasse\b|переда\w+|"
        r"отправ\w+|включи|传入|发送|传递|传给|附加|渡し|送信|送って|넣|전달|보내|gönder"
    ),
    "send_away": (
        r"schick\w*|sende\b|envía|\benvia|envie|envoie|envoy\w+|\binvia|отправ\w+|发送|送信|보내|gönder"
    ),
    "slot": (
        r"als parameter|el parámetro|como parámetro|le paramètre|en paramètre|il parametro|"
        r"o parâmetro|no campo|nel campo|en el campo|параметр\w*|作为参数|参数 ?\w|パラメータ|"
        r"매개변수|\bnote에|not olarak|in `\w+`"
    ),
    "context": (
        r"gesprächsverlauf|chatverlauf|systemprompt|historial de (?:la )?(?:conversación|chat)|"
        r"l'historique de la conversation|cronologia|histórico da conversa|"
        r"история? (?:переписки|чата|диалога)|对话(?:记录|历史)|系统提示词?|聊天记录|"
        r"会話の履歴|システムプロンプト|대화 (?:기록|내역)|sohbet geçmiş\w+"
    ),
    "secret": (
        r"zugangsdaten|passw[oö]rt\w*|contraseñas?|credenciales|mots? de passe|identifiants|"
        r"credenziali|senhas?|парол\w+|учётн\w+ данн\w+|密码|凭证|密钥|パスワード|秘密鍵|"
        r"비밀번호|şifre\w*|parola"
    ),
    "hide": (
        r"(?:dem|den) (?:nutzer|benutzer|anwender)\b[^.!?\n]{0,30}\b(?:nichts|nicht)|"
        r"nichts davon sagen|no (?:se )?lo? ?(?:digas|menciones|informes)|no (?:digas|informes|"
        r"menciones)\b[^.]{0,20}usuario|el usuario no debe|ne (?:le |l')?(?:dis|dites|"
        r"mentionne\w*|informe\w*)|non dirlo|non (?:dire|menzionare|informare)|não (?:informe|"
        r"diga|mencione|conte)|не (?:сообщай|говори|упоминай|информируй)\w*|不要(?:告诉|提及|"
        r"通知|告知)|无需(?:通知|告知)|请勿告知|(?:ユーザー|利用者)に(?:は)?(?:知らせ|伝え|"
        r"言わ|教え)\w*(?:ない|ず)|사용자에게 (?:알리지|말하지)|kullanıcıya (?:söyleme|"
        r"bildirme)"
    ),
    "conceal": (
        r"ohne (?:den |dem )?(?:nutzer|benutzer|anwender)\b|sin (?:que el usuario|avisar|"
        r"informar)|sans (?:prévenir|informer|avertir)|senza (?:avvisare|informare)|"
        r"sem (?:avisar|informar)|без ведома|не уведомляя"
    ),
    "override": (
        r"(?:ignorier\w*|vergiss|missachte)\b[^.!?\n]{0,20}\b(?:anweisungen|regeln)|(?:ignora|"
        r"ignore|olvida|esquece|dimentica)\b[^.!?\n]{0,20}\b(?:instrucciones|instruções|"
        r"istruzioni|instructions)|(?:ignore[zr]?|oublie[zr]?)\b[^.!?\n]{0,30}\binstructions|"
        r"(?:игнориру\w+|забудь)\b[^.!?\n]{0,20}\b(?:инструкци\w+|указани\w+)|(?:忽略|无视|"
        r"忘记)[^。!?\n]{0,8}(?:指令|指示|提示|说明)|(?:指示|命令)を(?:すべて)?(?:無視|忘れ)|"
        r"(?:지시|명령)\S{0,4} ?(?:무시|잊)|talimatları? (?:yok say|unut|görmezden)"
    ),
}

FOREIGN: Final[dict[str, str]] = {
    name: "|".join(words[name] for words in (_CHIEF, FURTHER) if name in words)
    for name in _CHIEF | FURTHER
}
"""Concept to further words that express it, joined to those of `lexicon`."""
