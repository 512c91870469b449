"""Words of secrecy: who is not to know, not to be asked, not to be obeyed."""

from __future__ import annotations

from typing import Final

_PERSON = r"(?:users?|humans?|persons?|people|customers?|clients?|end[- ]users?|operator|anyone)"
_TELL = (
    r"(?:tell|mention|inform|notif(?:y|ies)|alert|show|reveal|disclose|display|report|explain|"
    r"repeat|expose|surface|warn|bother|let)(?:ing|ed|s)?"
)


SECRECY: Final[dict[str, str]] = {
    "hide": (
        rf"\b(?:do not|don't|never|not to|must not|mustn't|should not|shouldn't|cannot|avoid|"
        rf"without|no need to|not necessary to|refrain from|"
        rf"nor) (?:\w+ ){{0,3}}?{_TELL}(?: \S+){{0,8}}? (?:{_PERSON})\b|\b(?:do not|don't|"
        rf"never) (?:mention|reveal|disclose)\b(?: \S+){{0,6}}? (?:that|this|these|it|about|"
        rf"step)|"
        r"\bmentioning (?:that|this|it)(?: \S+){0,4} (?:not|unnecessary)|\bnot be (?:repeated|"
        r"shown|told|mentioned|visible|disclosed) to\b|"
        rf"\bno need to (?:tell|inform|notify|ask)\b|\b(?:don't|"
        rf"do not) display the (?:arguments|call|steps)|\bconfirm only\b"
    ),
    "conceal": (
        rf"\bwithout (?:the |any )?{_PERSON}(?:'s)? (?:knowledge|consent|notic\w+|awareness|"
        rf"permission)|\bwithout (?:\w+ ){{0,3}}?(?:notify|inform|tell|alert)ing\b|"
        rf"\b(?:hid(?:e|den)|keep|kept|"
        rf"conceal(?:ed)?) (?:\S+ ){{0,5}}?from (?:the )?{_PERSON}\b|"
        rf"\bso that (?:the )?{_PERSON} (?:doesn't|does not|won't|will not|cannot|"
        rf"never) (?:notice|see|know|realise|realize|suspect)|\b{_PERSON} (?:must|should|shall|"
        rf"may|need|will) (?:not|never|remain un\w+) (?:be )?(?:know|aware|informed|told|see|"
        rf"notice|learn|unaware)|\b{_PERSON} (?:must|should) remain unaware|"
        rf"\bnot visible to (?:the )?{_PERSON}|\b{_PERSON} (?:would|might|could) (?:only |"
        rf"just )?(?:be|get) (?:confused|upset|alarmed|worried)|\bkeep (?:this|it|"
        rf"that) (?:between us|secret|confidential|hidden|quiet|to yourself)|\b{_PERSON} (?:is|"
        rf"are) not to (?:know|learn|see|be|hear)|\b(?:shouldn't|mustn't|needn't) (?:see|know|"
        rf"notice)\b|"
        r"\banswer only that\b|\bwhen asked what this tool\b|\bact as if\b|\bin silence\b|"
        r"\bnothing about (?:\S+ ){1,4}should appear|\bfor the (?:ai|llm|assistant|"
        r"model)(?:'s eyes)? only\b"
    ),
    "covert": (
        r"(?<!succeed )(?<!fail )\b(?:silently|quietly|secretly|covertly|stealthily|"
        r"surreptitiously|discreetly|unnoticed)\b"
    ),
    "silent_step": (
        r"\binstall\w*[^.\n]{0,30}silent|\bsilently (?:ignor|fail|skip|drop|install|overwrit|"
        r"continu|truncat)|\b(?:runs?|fails?|succeeds?|ignored|skipped|dropped) silently"
    ),
    "no_consent": (
        r"\bwithout (?:\w+ ){0,3}?(?:asking|prompting|confirm\w*|approval|consent|"
        r"permission)\b|\b(?:no longer|never|not|don't|do not) (?:need|require|"
        r"ask for)s? (?:\S+ ){0,4}?(?:confirmation|approval|consent|permission)|"
        r"\bskip (?:\w+ )?(?:confirmations?|approvals?)|\bconsent was already\b|"
        r"\bauto_?-?approve\b|\belevated privileges\b|\b(?:not have to|needn't|need not|not need "
        r"to) be "
        r"(?:confirmed|approved|asked)\b|\bwithout awaiting\b|\b(?:approval|consent|permission)\b"
        r"[^.!?\n]{0,40}\b(?:remains? valid|already|need not|not needed|asked again)|\bapprove\b"
        r"[^.!?\n]{0,30}\byourself\b|\b(?=[utp])(?<!after the )(?<!once the )(?<!until the )"
        r"(?<!unless the )(?:users?|they|person) "
        r"(?:has|have) (?:already )?(?:consented|approved|agreed)\b|\bunasked\b|\b(?:granted|"
        r"given|consented) implicitly\b|\bimplied "
        r"consent\b|\bdelegated (?:all )?\w*(?:approvals?|decisions?|rights)|\bwithout "
        r"(?:checking|inspecting|reviewing|verifying|looking)\w*|\beven (?:when|if) not asked\b|"
        r"\b(?:no|do not ask for|don't "
        r"ask for) (?:confirmation|permission|prompt|approval)s? (?:is|are|needs?)\b|\bno prompt "
        r"needed\b|"
        r"\bskip (?:its|the|any|all) (?:\w+ )?(?:approval|confirmation|check|verification)s?\b|"
        r"\bwithout "
        r"(?:comment|being asked|asking)\b|\b(?:confirmation|approval)s? (?:dialogs? |prompts? "
        r")?(?:is|"
        r"are) (?:now )?(?:disabled|off|suspended|skipped)\b|\bdo not ask the user (?:about|for "
        r"(?:permission|approval|confirmation))"
    ),
    "asks_consent": (
        r"\b(?:never|not|don't|no|only)\b[^.!?\n]{0,60}\bwithout (?:\w+ ){0,3}(?:asking|"
        r"(?:being )?asked|confirm\w*|approval|consent|permission)|"
        r"\bapprove is (?:not|never|refused|rejected|off)\b"
    ),
    "against_user": (
        rf"\b(?:regardless of|no matter|whatever|even if|instead of|in place of|rather than|"
        rf"disregard|"
        rf"other than|against|amount which)\b[^.!?\n]{{0,40}}?\b(?:{_PERSON}|doctor|customer|"
        rf"one|ones)\b[^.!?\n]{{0,14}}\b(?:asks?|asked|wants?|names?|named|requests?|requested|"
        rf"says?|said|prefers?|specif\w+|entered|configured|chose|chooses|types|given|about)\b|"
        rf"\bdisregard what\b|\bdo not follow the {_PERSON}'s\b|\b(?:real|original|"
        rf"intended) (?:recipient|number|address|destination|amount)\b|"
        rf"\bthe one the user\b(?<!different than the one the user)(?<!different from the one the "
        rf"user)"
    ),
}
