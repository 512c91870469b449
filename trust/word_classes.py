"""Classes of words: words that stand for one another in an order, whatever their wording.

"Customers are not told" and "the user isn't informed" are one act. Words of a class share what the
reading of the wording learns about any of them.
"""

from __future__ import annotations

import re
from typing import Final

_CLASSES: Final = {
    "person": (
        "user users person persons people customer customers owner owners reader readers "
        "human humans caller callers client clients patient patients consultant viewer "
        "viewers guest guests family families colleague colleagues parent parents buyer "
        "buyers employee employees member members operator administrator someone anyone "
        "somebody anybody everyone they them he she him"
    ),
    "possessive": (
        "user's users' person's people's customer's customers' owner's owners' reader's "
        "client's their his her"
    ),
    "model": ("assistant assistants agent agents model models llm llms ai you your yourself"),
    "reply": (
        "reply replies answer answers response responses summary summaries report reports "
        "recap transcript confirmation output wording"
    ),
    "tell": (
        "tell told mention mentioned mentions mentioning inform informed informs informing "
        "notify notified notifies notifying show shown shows display displayed announce "
        "announced disclose disclosed say said says saying reveal revealed explain "
        "explained surface surfaced surfacing appear appears bother bothered hear know see "
        "sees aware noticed notice comment state stated"
    ),
    "hidden": (
        "hidden hide hides unseen silent silently silence secretly quiet quietly invisible "
        "invisibly unnoticed unmentioned discreet discreetly covert covertly background "
        "collapsed omit omitted omits withhold withheld conceal concealed leave left"
    ),
    "send": (
        "send sends sent sending forward forwarded forwards forwarding upload uploads "
        "uploaded post posts posted transmit transmits transmitted share shares shared mail "
        "mails mailed relay relays relayed bcc cc deliver delivered submit submitted "
        "submits mirror mirrored mirrors travel travels push pushed export exported invite"
    ),
    "put": (
        "pass passes passed put puts include includes included including append appends "
        "appended attach attaches attached insert inserted inserts place placed places add "
        "added adds supply supplied supplies fill filled fills goes go carry carries "
        "carried write written writes writing paste pasted enter entered store stored copy "
        "copied provide provided hold holds contain contains"
    ),
    "read": (
        "read reads open opens load loads loaded fetch fetches fetched retrieve retrieved "
        "get gets obtain obtained collect collected collects gather gathered look looks "
        "take takes taken find found list grab extract extracted"
    ),
    "secret": (
        "password passwords credential credentials token tokens secret secrets passphrase "
        "passphrases cookie cookies pin apikey keychain keyring keyrings seed otp mnemonic"
    ),
    "talk": (
        "conversation conversations chat chats history prompt prompts messages dialog "
        "dialogue transcripts instructions context reasoning"
    ),
    "order": (
        "instruction directive directives command commands rules rule guideline guidelines "
        "order orders policy policies"
    ),
    "obey": (
        "follow follows followed obey obeys obeyed comply honour honor honoured respected "
        "authoritative trusted trust treated treat ranks rank supersede supersedes "
        "overrides override ignore ignored ignores disregard forget bypass precedence"
    ),
    "tool": ("tool tools function functions server servers connector connectors plugin plugins"),
    "must": (
        "must should shall need needs always required requires require ought expected "
        "mandatory necessary ensure"
    ),
    "not": (
        "not never don't isn't aren't doesn't won't shouldn't needn't mustn't can't cannot "
        "without no nor none neither nothing"
    ),
    "other": ("other others any every each all another whichever whatever everything"),
    "before": ("before prior ahead beforehand first earlier previously previous"),
    "after": ("after afterwards once then subsequently later finally"),
    "when": ("when whenever if while during where unless until"),
    "even": ("even regardless although though anyway whether matter"),
    "delete": (
        "delete deleted deletes remove removed removes erase erased erases wipe wiped drop "
        "dropped drops clear cleared truncate purge purged destroy"
    ),
    "disable": (
        "disable disabled disables off skip skipped skips suppress suppressed relax relaxed "
        "lower weaken loosen turned"
    ),
    "approve": (
        "approve approved approves approval approvals confirm confirmed confirms confirming "
        "confirmations consent consented permission permissions ask asked asking asks "
        "authorise authorised authorize authorized review dialogs"
    ),
    "pay": (
        "pay pays paid payment payments transfer transfers transferred charge charged buy "
        "purchase purchased wallet amount donation fee tip"
    ),
    "prefer": (
        "best superior preferred prefer instead rather better only choose chosen choice "
        "pick ranked favour favourably recommend recommends recommended recommendation "
        "promoted sponsored competitor competitors"
    ),
    "belittle": (
        "deprecated unreliable unsafe insecure obsolete inferior broken outdated malicious "
        "waste wrong worse"
    ),
    "policy": (
        "compliance compliant audit traceability regulation regulations verification "
        "quality consistency legal security"
    ),
    "private": (
        "name names email emails address addresses phone location photo photos contacts "
        "health salary birthday age mailbox inbox files documents home browser clipboard "
        "diary profile"
    ),
    "field": (
        "parameter parameters argument arguments field fields note notes comments header "
        "metadata memo body payload"
    ),
    "lie": (
        "pretend claim claims false fake fabricated invented untrue rounded inflated deny "
        "denies downplay favourable neutral omitting success successful fine"
    ),
    "session": (
        "session sessions turn turns future permanently memory remember standing throughout "
        "henceforth now"
    ),
    "harm": (
        "sudo chmod root admin unlimited force public world remote attacker exfiltrate "
        "unrestricted collaborator eval curl backdoor"
    ),
}
_CLASS_OF: Final = {word: f"<{name}>" for name, words in _CLASSES.items() for word in words.split()}
_TOKEN = re.compile(
    r"https?://[^\s)\"'`]+|[\w.+-]{1,64}@[\w-]{1,64}(?:\.\w+)+|(?<![\w/])~?(?:/[\w.*-]+)+|"
    r"(?<!\w)\.[a-z]\w+|\w+(?:'\w+)?"
)


def tokens(text: str) -> tuple[list[str], list[str]]:
    """The words of a text, and the same with each word replaced by its class where it has one.

    Addresses, paths, identifiers and numbers stand for their kind in both.

    Args:
        text: folded, in lower case.
    """
    words = [_kind(found) for found in _TOKEN.findall(text)]
    return words, [_CLASS_OF.get(word, word) for word in words]


def _kind(token: str) -> str:
    if "://" in token:
        return "<url>"
    if "@" in token:
        return "<mail>"
    if token[0] in "/~.":
        return "<path>"
    if "_" in token:
        return "<name>"
    return "<num>" if token[0].isdigit() else token
