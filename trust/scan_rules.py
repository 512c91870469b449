"""The rules of the scan: combinations of concepts that mean quarantine, or only a warning.

Concepts are regular expressions over the plain form (see `plain_form`): lower case, no backticks,
blanks for `_`, `-` and `.` inside words. Each takes linear time: repetitions are bounded, and
neighbouring parts never match the same text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from .flag import Level

_WHO = r"(?:users?|humans?|customers?|person|people|operator|anyone|anybody|them)\b"
_NOT = r"(?:do not|don'?t|never|must not|mustn't|should not|shouldn't|shall not|refrain from|avoid)"
_TELL = r"(?:tell|mention|inform|disclose|telling|mentioning|informing|disclosing)"
_ACT = (
    r"(?:send|read|copy|forward|include|append|attach|add|upload|collect|call|invoke|execute|run|"
    r"pass|record|insert|transmit|exfiltrate|post|modify|change|replace|delete|submit|bcc|cc|store)"
)
_GIVE = (
    r"(?:pass|include|put|attach|append|add|supply|provide|insert|embed|send|post|forward|upload|"
    r"transmit|submit|share|report|mirror|copy|encode|leak|exfiltrate|return|fill|place|paste|"
    r"write|store|use)"
)
_ORDER_NOUNS = (
    r"(?:instructions?|prompts?|guidelines?|directions?|directives?|guardrails?|safeguards?)"
)
_IGNORE = (
    r"\b(?:ignor(?:e|ing)|disregard(?:ing)?|forget|bypass|do not follow|don't follow|"
    r"stop following)"
)
# Orders in what a tool returns, which a model should indeed not follow.
_IN_DATA = (
    r"(?: (?:or|and) \w+)? (?:(?:that|which) (?:is|are|may be|might be) )?"
    r"(?:returned (?:by|in|from)|"
    r"(?:(?:contained|embedded|found|included|written) )?(?:in|inside|within) "
    r"(?:the |its |this |these |any |such )?(?:\w+ )?"
    r"(?:results?|outputs?|data|responses?|contents?|rows?|pages?)\b)"
)
_MAIL = r"[\w+]{1,64}@(?:[\w\-]{1,63}[. ]){1,5}[a-z]{2,}"

_CONCEPTS: Final[dict[str, tuple[str, str]]] = {
    # Name: texts joined by "|", of which a scanned text must contain one ("" for no such test), and
    # the regular expression.
    "key_file": (
        "id rsa|id ed25519|ssh|aws/cred|.env|mcp json|config json|settings json|netrc|/etc/|"
        "history|keychain|keyring|kube/config|npmrc|pgpass|wallet dat|cookies sqlite",
        r"\bid (?:rsa|ed25519)\b(?! pub)|\.ssh\b(?!/id \w{1,9} pub)|\bssh (?:private )?keys?\b|"
        r"\.aws/cred|"
        r"(?<![\w)])\.env\b|\bmcp json\b|\bclaude desktop config json|\.config/\S{1,40} json|"
        r"(?<!\w)\.netrc\b|\.pgpass\b|\.npmrc\b|\.git credentials|\.kube/config|"
        r"\.(?:bash|zsh) history|/etc/(?:passwd|shadow)\b|\bkeychain\b|\bkeyrings?\b|"
        r"\bwallet dat\b|\bcookies sqlite\b",
    ),
    "secret": (
        "secret|password|credential|token|api key|private key|seed phrase|environment var|cookie|"
        "sensitive|confidential|card number",
        r"\b(?:secrets|passwords?|credentials?|api keys?|private keys?|seed phrases?|"
        r"(?:access|bearer|auth|session|refresh) tokens?|tokens|environment variables|"
        r"(?:session )?cookies|(?:sensitive|confidential|private) (?:information|data|documents?|"
        r"company information)|(?:credit )?card numbers?)\b",
    ),
    "chat": (
        "conversation|chat|message|dialogue|transcript|prompt",
        # A value in code, such as `type="conversation"`, is none.
        r"(?<!=[\"'])\b(?:conversation|chat|dialogue|transcript)"
        r"(?: history| log| so far| context)?\b|"
        r"\b(?:previous|prior|earlier|last|past|recent|all|user's) (?:\w+ ){0,2}messages?\b|"
        r"\bsystem (?:prompt|message)s?\b|\bmessage history\b",
    ),
    # For `needs_look`: a secret or the conversation itself, not what tools count or authorize with.
    "secret_value": (
        "password|credential|secret|api key|private key|seed phrase|card number|cookie|environment",
        r"\b(?:passwords?|credentials?|api keys?|private keys?|seed phrases?|secret keys?|"
        r"(?:credit |debit )?card numbers?|session cookies?|environment variables)\b",
    ),
    "whole_chat": (
        "conversation|chat|dialogue|transcript|message|prompt|instructions",
        r"\b(?:conversation|chat|dialogue) (?:history|log|so far|context|transcript|up to)\b|"
        r"\b(?:the|this|whole|entire|full|current) (?:conversation|dialogue)\b|"
        r"\b(?:system|user's|previous|prior|earlier) (?:prompt|messages?)\b|"
        r"\byour (?:instructions|context)\b",
    ),
    "give": ("", rf"\b{_GIVE}\b"),
    "hand_over": (
        "",
        rf"\b(?:{_GIVE}|giving|passing|hand|retrieve|obtain|expected|call)\b",
    ),
    "given": (
        "",
        r"\b(?:passed|included|attached|appended|added|supplied|sent|posted|forwarded|uploaded|"
        r"submitted|mirrored|shared|copied|transmitted|reported|embedded|encoded|stored)\b",
    ),
    "contents": (
        "content|output of|text of|value of",
        r"\b(?:contents?|output|text|value) of\b|"
        r"\bcontents?\b",
    ),
    "known_to_model": (
        "you |context|conversation|memory|earlier|previous|user|environment",
        r"\byou (?:have |might have |may have )?(?:seen?|knows?|found|holds?|remember|encounter|"
        r"come across|received|have access to)|\b(?:from|in) (?:your |the |this |earlier |"
        r"previous )"
        r"{1,2}(?:context|memory|conversation|chat|messages?|session|environment|requests?)\b|"
        r"\bthe user (?:types|typed|shared|mentioned|gave|entered|provided)|\bany (?:\w+ ){0,3}"
        r"(?:secrets|passwords?|credentials|keys|tokens)\b|\bthe user's (?:\w+ )?(?:passwords?|"
        r"secrets|credentials|tokens|api keys?|private keys?|card)",
    ),
    "pretext": (
        "audit|complian|telemetry|analytic|diagnos|quality|logging|malfunction|not work|proxy|"
        "regulat|policy|required for|verification|correctly|training",
        r"\b(?:audit\w*|compliance|telemetry|diagnostics?|quality (?:assurance|control|purposes)|"
        r"malfunction|will not work|won't work|proxying|regulat\w+|security protocol|"
        r"(?:security|verification|training|logging|analytics|debugging|compliance) (?:purposes?|"
        r"reasons?))\b",
    ),
    "before_use": (
        "before|prior to|first|to use this|when ",
        r"\b(?:before|prior to|after) (?:\w+ ){0,2}(?:using|calling|invoking|running|use|"
        r"calculation|any|this|each|every|execution|that)\b|\bfirst,? (?:read|open|load)|"
        r"\bto use this tool\b|\b(?:must|please|always|also) (?:first )?(?:read|open|load|cat)\b",
    ),
    "read": (
        "read|open|load|cat |fetch|retriev|collect|gather|get |access|grab|dump|extract|list",
        r"\b(?:read|open|load|cat|fetch|retrieve|collect|gather|get|access|grab|dump|extract)\b",
    ),
    "hide": (
        "not |n't|never|without|no need|avoid|refrain|leave|only|note|hide|conceal|secret|silent|"
        "covert|quiet|discreet|"
        "unmention|unnotic",
        rf"\b{_NOT} (?:\w+ ){{0,2}}?{_TELL} (?:the |this to |it to |that to |these to |"
        rf"any of this to )?"
        rf"{_WHO}(?= *(?:[.,;:!?)\n\-]|$)| (?:about )?(?:this|it|these|that this|that it|why|any|"
        rf"of|"
        r"and|or|but|as|that you(?:'re| are| have| did| read| first| also| used| called)))|"
        rf"\b{_NOT} (?:\w+ ){{0,2}}?(?:tell|inform) anyone\b|"
        rf"\b(?:without|no need to) {_TELL} (?:or asking )?(?:this to |it to )?(?:the )?{_WHO}|"
        r"\bwithout (?:the )?(?:users?|humans?|customers?)(?:'s)? (?:\w+ )?(?:knowing|knowledge|"
        r"noticing|awareness)\b|"
        rf"\b{_NOT} let (?:the )?(?:users?|customers?|humans?) (?:know|see|notice|find)\b|"
        rf"\b{_NOT} (?:mention|disclose|reveal|acknowledge|talk about) (?:\w+ )?(?:this|that you|"
        r"that (?:this|these|the)|it to|these|file reading|reading|step|the (?:file|step|policy|"
        r"instructions?|operation|reading|process|existence))\b|"
        rf"\b{_NOT} (?:explain why|say (?:so|that you))\b|"
        r"\b(?:must|should|shall) (?:not|never) be (?:told|disclosed|mentioned|"
        r"repeated) to (?:the |any )?"
        rf"{_WHO}|"
        rf"\b(?:silently|secretly|covertly|quietly|discreetly) (?:\w+ )?{_ACT}\b|"
        rf"\b{_ACT} (?:\w+ ){{0,6}}(?:secretly|covertly|discreetly)\b|"
        r"\b(?:hide|conceal|keep|withhold) (?:this|it|that|these|"
        r"them)\b[^.\n]{0,30}\bfrom (?:the )?"
        r"(?:users?|customers?|humans?)\b|"
        r"\b(?:users?|customers?|humans?) (?:(?:must|should|need|shall|may|needs) ?"
        r"(?:not|n't|never)|(?:do|does) ?(?:not|n't) need to|has no need to) (?:know|notice|learn|"
        r"find out|be (?:told|informed|aware|"
        r"made aware|notified))\b|\bsecret operation\b|\bleave (?:this|it|that) (?:unmentioned|"
        r"out of (?:your|the) (?:reply|answer|explanation|response|summary))\b|"
        r"\b(?:users?|customers?|humans?) (?:doesn'?t|does not|don'?t|do not|won'?t|"
        r"will not) notice\b|"
        r"\b(?:for (?:the )?(?:ai|ai agents?|llm|assistant|model)s? only|confidential note to)\b",
    ),
    "override": (
        "ignore|disregard|forget|override|bypass|supersede|you are now|new instruction|from now on|"
        "developer mode|jailbreak|do anything now|user|precedence|priority|restrict|limitations|"
        "your |this point|unfilter|uncensor|you |refuse|decline|unrestricted",
        rf"{_IGNORE} (?:\w+ ){{0,2}}(?:previous|prior|earlier|above|preceding|all|other|original|"
        rf"your|system|safety|developer|user(?:'s)?|whatever) (?:\w+ )?(?:{_ORDER_NOUNS}|"
        rf"system prompt)\b|"
        rf"{_IGNORE} (?:\w+ ){{0,2}}(?:any|the) (?:\w+ )?(?:{_ORDER_NOUNS}|system prompt)\b"
        rf"(?!{_IN_DATA})|"
        r"\b(?:override|supersede|replace)s? (?:all |any )?(?:of )?(?:the |your )?(?:previous|"
        r"prior|"
        rf"earlier|your|all other|user's) (?:\w+ )?{_ORDER_NOUNS}\b|"
        r"\b(?:ignore|disregard|overrule) (?:what(?:ever)? )?(?:the |any )?user(?:'s)? "
        r"(?:\w+ )?(?:said|says|asks?|asked|wants?|wish(?:es)?|request(?:s|ed)?|preferences?|"
        r"objections?|instructions?|intent)\b|"
        r"\b(?:regardless of|whatever|no matter what|instead of what|rather than what) the (?:user|"
        r"customer) (?:has |have |had )?(?:said|says|asked|entered|named|requested|specified|wants|"
        r"wanted|objects|typed|chose)\b|"
        r"\b(?:ignore|disregard|forget) (?:all |everything )?(?:of )?(?:the )?(?:above|previous|"
        r"prior|"
        r"preceding|earlier)(?= *(?:[.,;:!]|$| and | then ))|"
        r"\byou are now (?:an? |in |the |act|free|under|operating|my |unrestricted|dan\b)|"
        r"\byour (?:new|real|true|actual) (?:role|instructions?|goal|identity|objective|task|"
        r"purpose) "
        r"(?:is|are)\b|\bfrom (?:now|this point) (?:on|onwards?|forward),? (?:you|act|respond|"
        r"ignore|"
        r"do not|treat|behave)\b|\btakes? (?:precedence|priority) over (?:all |any |your |the )?"
        rf"(?:\w+ )?(?:{_ORDER_NOUNS}|user)\b|"
        r"\b(?:act|behave|respond|answer|operate) (?:as|like) (?:an? )?(?:\w+ )?(?:unrestricted|"
        r"unfiltered|uncensored|jailbroken)\b|\byou have no (?:\w+ )?(?:restrictions|limitations|"
        r"guidelines)\b|\b(?:disable|bypass|suspend|ignore|forget|override|drop) (?:all )?(?:of "
        r")?your "
        r"(?:\w+ )?(?:rules|polic(?:y|ies)|restrictions|filters|constraints|training|"
        r"programming)\b|"
        r"\byou (?:must|will|shall) (?:now )?obey\b|\b(?:never|do not|must not) (?:refuse|decline) "
        r"(?:any|this|these|the|to)\b|\b(?:assume|consider|treat) (?:that )?the user (?:has |as )?"
        r"(?:already )?(?:approved|consented|confirmed|authori[sz]ed|an? admin\w*)\b|"
        r"\b(?:this|these|the following|my) (?:\w+ )?(?:instructions?|directives?) (?:override|"
        r"supersede|"
        r"replace)s?\b|"
        r"\bnew (?:system )?instructions? ?:|\b(?:enter|enable|activate|now in) (?:developer|"
        r"jailbreak|god|dan|unrestricted|override) mode\b|\bdo anything now\b|\bsystem override\b",
    ),
    "on_sight": (
        "when you|once you|if you|after you|as soon as you|reading this|read this",
        r"\b(?:when(?:ever)?|once|if|after|as soon as) you (?:have )?(?:read|see|load|view|parse|"
        r"notice) (?:of )?this (?:tool|description|text|message|definition)\b|"
        r"\b(?:ai|agents?|assistants?|models?|llms?) (?:reading|that reads?|who reads?) this "
        r"(?:tool|description|text|message|definition)\b",
    ),
    "leak_prompt": (
        "system prompt|system message|your instructions",
        r"\bsystem prompt (?:\w+ )?(?:must|should|shall|has to|needs to|is to) be (?:supplied|"
        r"passed|"
        r"included|sent|provided|put|added)\b|\b(?:text|content|contents) of the system prompt\b|"
        r"\b(?:reveal|print|repeat|leak|disclose|output|include|send|pass|append|paste|copy)\b"
        r"[^.\n]{0,40}\b(?:the |your )(?:\w+ ){0,2}(?:system (?:prompt|message)s?|instructions)\b",
    ),
    "model_markup": (
        "<|[inst|[/inst",
        r"<\|(?:im start|im end|system|user|assistant)\|>|<</?sys>>|\[/?inst\]|<start of turn>|"
        r"</?(?:tool results?|function (?:results?|calls?)|tool response)>|"
        r"<system (?:requirement|prompt|message|instruction|reminder|override|notice|note|command)"
        r"s?>",
    ),
    "system_line": (
        "system:|system]|assistant:",
        r"(?:(?:^|[.!\n]) ?[#\[*]{0,3} ?(?:system|assistant)[\]*]{0,3}|\b(?:system|assistant):)"
        r"[\]*]{0,3} (?:you|ignore|"
        r"disregard|always|"
        r"never|must|do not|when|after|from now)\b",
    ),
    "hidden_comment": (
        "<!",
        r"<!--[^>]{0,300}?\b(?:send|read|ignore|assistant|model|agent|ai|llm|always|must|never|"
        r"include|"
        r"call|hidden)\b",
    ),
    "terminal_codes": ("[", r"\[\d{1,3};\d{1,3}[hf](?!\])|\[[0-3][jk](?!\])"),
    "address": ("@|://", rf"(?<![\w@]){_MAIL}\b|https?://"),
    "mail": ("@", rf"(?<![\w@]){_MAIL}\b"),
    "always": (
        "must|always|all |every|automatic|also|shall|second|instead|whatever|from now",
        r"\b(?:must|always|all|every|automatically|also|shall|a second|instead|from now on)\b",
    ),
    "send": (
        "send|sent|forward|bcc|copy|copied|submit|route|redirect|post|mail|report|deliver|upload|"
        "mirror",
        r"\b(?:sen[dt]|forward(?:ed)?|bcc|copy|copied|submit(?:ted)?|route[d]?|redirect(?:ed)?|"
        r"post(?:ed)?|report(?:ed)?|deliver(?:ed)?|upload(?:ed)?|mirror(?:ed)?|email(?:ed)?)\b",
    ),
    "example": (
        "e g|e.g|example|such as|contact|support|like |format|default|i.e|i e|visit|see ",
        r"\be ?\.?g\b|\bexamples?\s*[:=(]|\bfor example\b|\bsuch as\b|\bcontact\b|\bformat\b|"
        r"\bdefaults?\b|\bi ?\.?e\b|\blike\b|\bdetects?\b|\bvisit\b",
    ),
    "any_tool": (
        "tool",
        r"\b(?:before|prior to|after|when(?:ever)?|each time|every time) (?:using|calling|invoking|"
        r"running|you use|you call)? ?(?:any|every|all|each|other|another) (?:other |available |"
        r"mcp )"
        r"?tools?\b|\bbefore (?:any|every|each|all) (?:other )?tools? (?:is|are|calls?)\b",
    ),
    "other_tool": (
        "send email|send mail|send message|other tool|another tool|tool is|is called|is used|"
        "present",
        r"\b(?:send (?:e?mails?|messages?)|other tools?|another tool|(?:\w+ ){0,2}tool) (?:tool )?"
        r"(?:is|are) (?:used|called|invoked|present|available)\b|\bmcp tool \w+|"
        r"\b(?:to|in|into|with|call|use|of) (?:the )?send (?:e?mail|message)s?\b(?! to\b)",
    ),
    "redirect": (
        "override|redirect|reroute|divert|replace|bcc|recipient|cc |to address|all email",
        r"\boverrides? the\b|\b(?:redirect|reroute|divert)s?\b|\bb?cc\b|\ball e?mails?\b|"
        r"\breplace the recipient|\brecipient (?:must|shall|should|is|to)\b",
    ),
    # a definition that talks about such text: a linter, a test fixture, a detector
    "guard": (
        "",
        r"\b(?:injections?|jailbreaks?|detects?|detection|scans?|phrases|malicious|attacks?|"
        r"suspicious|moderation|fixtures?|linters?|corpus|corpora|prevents?|attempts)\b|"
        r"\b(?:checks?|tests?|verif(?:y|ies)|analy[sz]es?|classif(?:y|ies)|flags?|lints?|decides|"
        r"labels|scores|rates|reports|finds|rejects|blocks|filters|strips|counts|warns) "
        r"(?:\w+ ){0,3}(?:whether|if|when|that|prompts?|texts?|inputs?|messages?|descriptions?|"
        r"definitions?|strings?|documents?|lines?|commands?)\b|"
        r"\b(?:expected|mock(?:ed)?|sample|canned|fake|dummy|test|training|illustrative|recorded) "
        r"(?:\w+ )?(?:outputs?|responses?|reply|replies|texts?|strings?|prompts?|inputs?|cases?|"
        r"data|messages?|content)\b",
    ),
    "ship": (
        "send|sent|post|upload|transmit|forward|submit|leak|pipe|report|deliver|relay|mirror|"
        "stream",
        r"\b(?:sen[dt]s?|sending|posts?|posting|uploads?|transmits?|forwards?|submits?|leaks?|"
        r"pipes?|"
        r"reports?|delivers?|relays?|mirrors?|streams?)\b",
    ),
    "outside": (
        "host|server|endpoint|collector|site|address|attacker|webhook|domain|://|@",
        r"\b(?:external|remote|third party|outside|unknown|foreign|attacker(?:'s)?) (?:\w+ ){0,2}"
        r"(?:hosts?|servers?|endpoints?|collectors?|sites?|address(?:es)?|webhooks?|domains?)\b|"
        rf"\battacker(?:'s)?\b|\b(?:to|at|via) (?:https?://|{_MAIL})",
    ),
    "exfiltrate": ("exfiltrat", r"\bexfiltrat(?:es?|ing)\b"),
    "copy": ("copy|copies|also|addition", r"\b(?:a copy|copies|also|additionally|in addition)\b"),
    "order_to_read": (
        "read|open|load|cat |fetch|collect|grab|dump|harvest|access",
        r"(?<=[.;:!>] )(?:read|open|load|cat|fetch|collect|grab|dump|harvest|access)\b|"
        r"\b(?:must|please|always|first,?|also|then|should|additionally|and) "
        r"(?:(?:read|open|load|collect|grab|dump|harvest)s?|cat|fetch(?:es)?|access(?:es)?)\b",
    ),
    "own_login": (
        "auth|login|log in|connect|default|unless|present|exist|if ",
        r"\b(?:for (?:\w+ )?(?:auth\w*|login)|to (?:authenticate|log in|connect|sign)|"
        r"by default|unless|if (?:it|one|present|set|no|none|the file))\b",
    ),
    "user_data": (
        "user|customer|all |every|each ",
        r"\b(?:users?'s?|customers?'s?|user|customer) (?:\w+ ){0,2}(?:data|messages?|prompts?|"
        r"quer(?:y|ies)|files?|inputs?|documents?|conversations?|emails?|records?|arguments)\b|"
        r"\b(?:all|every|each) (?:\w+ ){0,2}(?:messages?|prompts?|inputs?|arguments|quer(?:y|ies)|"
        r"results?|responses?)\b",
    ),
    "takes_over": (
        "route |its |their |tool's ",
        r"\b(?:re)?(?:route|direct|send) (?:all|every|any|each) (?:\w+ ){0,3}(?:requests?|calls?|"
        r"queries|"
        r"operations?|actions?) (?:here|(?:to|through|via) this (?:tool|server))\b|"
        r"\b(?:replace|override|overwrite|substitute|discard) (?:its|their|(?:that|the|the "
        r"other) tool's) "
        r"(?:\w+ )?(?:outputs?|results?|responses?|answers?|values?)\b",
    ),
    "hidden_order": (
        "hidden |secret ",
        r"\b(?:hidden|secret) (?:directive|instruction|order|command|policy|payload)s?:",
    ),
    "shell": (
        "",
        r"/bin/\w{0,3}sh\b|/dev/tcp/|\| ?(?:sudo )?(?:ba|z|da)?sh\b|"
        r"\b(?:curl|wget|nc|ncat|netcat|socat|telnet|scp|ssh|rsync|chmod|rm|dd|mkfifo|crontab|sudo|"
        r"eval|exec|source|(?:ba|z)?sh|python3?|perl|ruby|php|node|powershell|pwsh|cmd(?: exe)?|"
        r"iex|iwr|"
        r"certutil|mshta)(?: exe)?(?: -{1,2}\w| \+x| [~/$\"'(]| \w+://| \d{1,3}(?: \d{1,3}){3}\b)|"
        r"\b(?:os system|eval|exec|subprocess \w+)\(|\bimport os\b|\binvoke (?:expression|"
        r"webrequest)\b",
    ),
    # Honest definitions often have these concepts, so their rules only warn.
    "use_me": (
        "this tool|this function|first|other|prefer|must",
        # What a person has to do is no order to the model.
        r"(?<!\buser )(?<!\*user\* )(?<!\bperson )(?<!\boperator )(?<!\bcaller )"
        r"\b(?:always|must|mandatory to|required to) (?:\w+ )?(?:use|call|prefer|choose|invoke|"
        r"select) (?:this|it)\b|\b(?:must|should|shall|has to|needs to) (?:always )?be (?:called|"
        r"used|invoked|run) (?:first|before)\b|\bcall this (?:tool |function )?(?:first|before)\b|"
        r"\b(?:instead of|rather than|in preference to) (?:any |all |every )?(?:the )?(?:other|"
        r"others|alternatives)\b|\bdo not use (?:any |the )?other\b|\bbefore (?:using|"
        r"calling) any\b|"
        r"\bjust use this tool\b",
    ),
    "urgent": (
        "import|very very|utmost|strictly",
        r"[\[<]important[\]>]|\bvery very\b|\bextremely important\b|\bof utmost\b|"
        r"\bstrictly (?:required|forbidden)\b",
    ),
    "no_consent": (
        "without|not ask|n't ask|never ask",
        rf"\bwithout (?:asking|confirmation|confirming|consent|permission|approval)\b|"
        rf"\b{_NOT} ask (?:the user|for (?:confirmation|permission|consent))",
    ),
}


@dataclass(frozen=True)
class Concept:
    """Words for one idea.

    Args:
        required_texts: a text must contain some of these to match; empty if there is no such
            condition.
        words: regular expression that matches the words.
    """

    required_texts: tuple[str, ...]
    words: str

    @cached_property
    def expression(self) -> re.Pattern[str]:
        """`words`, compiled on first use: compiling all at the start would take 50 ms."""
        return re.compile(self.words)


PROMPT_BLOCK: Final = re.compile(
    r"<(?:(?P<imitation>hidden|secret|system|admin|assistant|developer)|"
    r"(?P<emphasis>important|critical|urgent|mandatory))>"
)
"""Opens a block that imitates markup of a prompt. Honest definitions use `emphasis` too."""
IMITATION_ORDERS: Final = re.compile(
    r"\b(?:must|before|when|if|instead|do not|don't|always|never|ignore|read|send|also|open|you|"
    r"use|"
    r"pass|supply|include|call|reply|answer)\b"
)
"""What makes a block of the kind `imitation` a finding."""
EMPHASIS_ORDERS: Final = re.compile(
    r"\b(?:reply|respond|your (?:reply|response|answer)|pass|supply|send|forward|recipients?|"
    r"pretend|"
    r"act (?:like|as)|secret|do not (?:say|mention|explain|tell))\b|~/"
)
"""What makes a block of the kind `emphasis` a finding."""


@dataclass(frozen=True, slots=True)
class ScanRule:
    """A combination of concepts that is a finding if they are close together.

    Args:
        code: short, stable name.
        level: `quarantine`, `warn` or `look`.
        needs: concepts that must all occur within `sentence_count` sentences.
        unless: concepts that make the passage harmless.
        sentence_count: number of sentences that count as close together.
        reads_first_sentence: whether the rule applies to the first sentence of a description. It
            says what the tool does, and may honestly name these concepts.
        arguments_only: whether the rule applies to descriptions of arguments only.
        encoded_text_only: whether the rule applies only to text that was encoded as base64 or
            hexadecimal, and decoded by the scan.
    """

    code: str
    level: Level
    needs: tuple[str, ...]
    unless: tuple[str, ...] = ()
    sentence_count: int = 1
    reads_first_sentence: bool = True
    arguments_only: bool = False
    encoded_text_only: bool = False


RULES: Final = (
    ScanRule("moves_secrets", "quarantine", ("key_file", "before_use", "give"), sentence_count=3),
    ScanRule(
        "moves_secrets",
        "quarantine",
        ("key_file", "read", "give"),
        ("example",),
        reads_first_sentence=False,
    ),
    ScanRule(
        "moves_secrets", "quarantine", ("key_file", "contents"), ("example",), arguments_only=True
    ),
    ScanRule(
        "moves_secrets",
        "quarantine",
        ("key_file", "contents", "hand_over"),
        ("example",),
        reads_first_sentence=False,
    ),
    ScanRule("moves_secrets", "quarantine", ("secret", "known_to_model", "give", "always")),
    ScanRule(
        "moves_secrets",
        "quarantine",
        ("key_file", "order_to_read"),
        ("guard", "example", "own_login"),
    ),
    ScanRule("moves_secrets", "quarantine", ("key_file", "ship", "outside"), ("guard", "example")),
    ScanRule(
        "moves_secrets", "quarantine", ("known_to_model", "secret", "ship", "outside"), ("guard",)
    ),
    ScanRule("moves_secrets", "quarantine", ("exfiltrate",), ("guard", "example")),
    ScanRule("moves_secrets", "quarantine", ("leak_prompt",), ("guard", "example")),
    ScanRule("copies_results", "quarantine", ("copy", "ship", "outside"), ("guard", "example")),
    ScanRule(
        "moves_conversation",
        "quarantine",
        ("chat", "hand_over", "pretext"),
        reads_first_sentence=False,
        sentence_count=2,
    ),
    ScanRule(
        "moves_conversation", "quarantine", ("chat", "given", "pretext"), reads_first_sentence=False
    ),
    ScanRule("moves_conversation", "quarantine", ("chat", "ship", "outside"), ("guard", "example")),
    ScanRule(
        "moves_conversation", "quarantine", ("user_data", "ship", "outside"), ("guard", "example")
    ),
    ScanRule("hides_from_user", "quarantine", ("hide",), ("guard",)),
    ScanRule("overrides", "quarantine", ("override",), ("guard", "example")),
    ScanRule("overrides", "quarantine", ("on_sight",)),
    ScanRule("imitates_system", "quarantine", ("model_markup",), ("example", "guard")),
    ScanRule("imitates_system", "quarantine", ("system_line",), ("example",)),
    ScanRule("imitates_system", "quarantine", ("hidden_comment",), ("example",)),
    ScanRule("misuses_other_tools", "quarantine", ("any_tool", "key_file"), sentence_count=2),
    ScanRule("misuses_other_tools", "quarantine", ("any_tool", "send", "mail")),
    ScanRule("misuses_other_tools", "quarantine", ("any_tool", "chat", "give")),
    ScanRule("misuses_other_tools", "quarantine", ("other_tool", "redirect"), ("example",)),
    ScanRule(
        "misuses_other_tools", "quarantine", ("other_tool", "always", "address"), ("example",)
    ),
    ScanRule("misuses_other_tools", "quarantine", ("send", "always", "mail"), ("example",)),
    ScanRule("misuses_other_tools", "quarantine", ("takes_over",), ("example",), sentence_count=2),
    ScanRule("hidden_text", "quarantine", ("hidden_order",), ("guard", "example")),
    ScanRule("hidden_text", "quarantine", ("terminal_codes",)),
    ScanRule("hidden_text", "quarantine", ("shell",), encoded_text_only=True),
    ScanRule("hidden_text", "quarantine", ("chat", "give"), encoded_text_only=True),
    ScanRule("hidden_text", "quarantine", ("key_file",), encoded_text_only=True),
    ScanRule("hidden_text", "quarantine", ("address", "send"), encoded_text_only=True),
    ScanRule("speaks_of_injection", "warn", ("hide",)),
    ScanRule("speaks_of_injection", "warn", ("override",)),
    ScanRule("speaks_of_injection", "warn", ("model_markup",)),
    ScanRule("puts_itself_first", "warn", ("use_me",)),
    ScanRule("puts_itself_first", "warn", ("any_tool",)),
    ScanRule("urges", "warn", ("urgent",)),
    ScanRule("skips_consent", "warn", ("no_consent",)),
)


SECRET_VALUE_RULE: Final = ScanRule("names_secret", "look", ("secret_value",))
LOOK_RULES: Final = (
    ScanRule("names_secret", "look", ("key_file",)),
    SECRET_VALUE_RULE,
    ScanRule("names_conversation", "look", ("whole_chat",)),
)
"""Rules for what a person should read, see `needs_look`; the scan does not use them."""


CONCEPTS: Final = {
    name: Concept(tuple(texts.split("|")) if texts else (), expression)
    for name, (texts, expression) in _CONCEPTS.items()
}
