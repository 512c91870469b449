"""Words of conduct: what the model is to say, to be, to leave out, and whom it is to obey."""

from __future__ import annotations

from typing import Final

_PERSON = r"(?:users?|person|people|customers?|humans?|them|they|team)"
_REPLY = (
    r"(?:repl(?:y|ies)|answers?|responses?|outputs?|explanations?|confirmations?|summar(?:y|ies))"
)
_RULES = (
    r"(?:rules?|guidelines?|instructions?|polic(?:y|ies)|restrictions?|guardrails?|limits?|"
    r"safeguards?|developer messages?|system messages?)"
)
_ORDERS = r"(?:hints?|instructions?|directions?|directives?|requests?|commands?|orders?)"
_FOUND = r"(?:in|inside|within|from|by|between) (?:the |a |an |any |such |these |its )?"

_ACT = (
    "(?:obtain|retrieve|gather|collect|load|fetch|upload|forward|relay|share|submit|send|mail|post|"
    "execute|run|start|trigger|launch|delete|remove|clear|erase|wipe|drop|approve|merge|visit|"
    "navigate|"
    "enumerate|hand|paste|copy|write|insert|append|attach|export|grant|store|save|record|embed|"
    "install|"
    "modify|change|replace|rewrite|reset|disable|skip|push|look for|import|overwrite|keep|"
    "remember|quote|mirror|redirect|announce|publish|register|transfer|pay|buy|invite|read|open|"
    "call|pick|take in|"
    "take)"
)
_ACTED = (
    r"(?:obtained|retrieved|gathered|collected|loaded|fetched|uploaded|forwarded|relayed|shared|"
    r"submitted|sent|mailed|posted|executed|run|started|triggered|launched|deleted|removed|cleared|"
    r"erased|dropped|approved|merged|visited|handed|pasted|copied|written|inserted|appended|"
    r"attached|"
    r"exported|granted|included|stored|saved|recorded|embedded|installed|modified|changed|replaced|"
    r"rewritten|reset|disabled|skipped|pushed|relaxed|read|opened|called|followed|made|added|"
    r"invoked)\b"
)
_ACTING = (
    r"(?:obtaining|retrieving|gathering|collecting|loading|fetching|uploading|forwarding|sharing|"
    r"sending|posting|executing|running|deleting|removing|clearing|exporting|reading|calling|"
    r"inspecting)"
)

CONDUCT: Final[dict[str, str]] = {
    "says": (
        rf"\b(?:promot(?:e|ing)|describing (?:it|them) as|presenting (?:it|them) as|deny|praise|"
        rf"pick the (?:most|least))\b|"
        rf"\b(?:say|answer|reply|respond|claim|state|report|insist|pretend|assert|suggest|mention|"
        rf"(?:tell|inform|assure|convince|warn|persuade)s? (?:the |your )?{_PERSON}|recommend|"
        rf"advise)(?: \w+ly)? (?:"
        rf"that(?! (?:you|i) (?:do not|don't|cannot|can't|could not|couldn't) )|"
        rf"to (?:install|buy|sell|visit|take|switch|pay))\b|"
        rf"\b(?:advise|recommend|urge|tell|instruct|persuade|convince|get|lead)s? (?:the |your "
        rf")?{_PERSON} "
        rf"(?:to|for)\b|\b(?:end|close|finish)s? (?:\w+ ){{0,3}}with (?:the )?"
        rf"(?:sentence|words?|phrase|line|text|'|\")"
    ),
    "despite": (
        r"\b(?:even (?:if|when|though|where)|regardless of|no matter|irrespective of|whether or "
        r"not|whatever) (?:the |any |what |which |how |it |they |she |he )?(?:\w+ ){0,2}?"
        r"(?:results?|questions?|data|topic|facts?|views?|opinions?|wish\w*|entered|evidence|"
        r"truth|outcome|quality|ratings?|shows?|"
        r"says?|said|asked|asks|wrong|fails?|failed|consulted|true|false|requested|given|chosen|"
        r"specified|wanted)\b|\bnothing to do with\b"
    ),
    "rules_replies": (
        rf"\b(?:every|each|all|any|your|(?:further|future|later|final|subsequent)) "
        rf"(?:(?:one )?of (?:the |your |its )?)?(?:\w+ ){{0,2}}?{_REPLY}\b[^.!?\n]{{0,30}}?\b"
        rf"(?:must|should|shall|ha(?:s|ve) to|needs? to|(?:is|are) to)\b|"
        rf"\b(?:in|with|within|into|to|of) (?:each|every|all|any(?! replies\b))(?: of)?(?: your|"
        rf" the)? "
        rf"(?:\w+ ){{0,2}}?(?:repl(?:y|ies)|answers?)\b|\b(?:reply|answer|respond) (?:only|always|"
        rf"exclusively) (?:in|with)\b"
    ),
    "left_out": (
        rf"\b(?:withh(?:old|eld)|un(?:mentioned|spoken|told|noticed|disclosed)|never let(?:ting)?|"
        rf"deny (?:it|its|their|that|having|any)|leav(?:e|ing) (?:it|this|that|them|these) out\b|"
        rf"(?:keep|kept|leave|left|stay)s? (?:\S+ ){{0,4}}?out of (?:the |your |its |any )?"
        rf"{_REPLY}|(?:is|are|be|forms?) (?:not|no|never) (?:a )?part of (?:the |your )?{_REPLY}|"
        rf"without (?:ever )?(?:mention|say|stating|explain|disclos|comment|reveal|quoting|"
        rf"announc)\w*|"
        rf"(?:isn't|aren't|is not|are not|never|not (?:to )?be|needn't be|nor)(?: be)? (?:mention|"
        rf"quote|reveal|disclose"
        rf"|comment on|bring)(?:ed|d)?\b(?! in\b)|(?:need|want|have)s?(?: not|n't) (?:to )?(?:be )?"
        rf"(?:hear|know|bothered|see|learn|told|notified)|(?:no|isn't any|not any) need to "
        rf"(?:tell|mention|bring|notify|inform|bother|ask|explain)|(?:hidden|invisible|unknown) "
        rf"(?:from|to) (?:the )?{_PERSON}|{_PERSON} (?:\w+ ){{0,2}}?(?:not to see|(?:find|get|"
        rf"gets|become|would|might|could) (?:\S+ ){{0,3}}?(?:worr|upset|"
        rf"confus|alarm|bother)\w*)|mention only|(?:not|never) (?:displayed?|shown?) "
        rf"(?:them|it|these|to (?:the )?{_PERSON}))\b"
    ),
    "unbound": (
        rf"\b(?:not|never|no longer) (?:be )?(?:bound|restricted|constrained|governed) (?:by|to)\b|"
        rf"\bwithout (?:any )?(?:content |safety )?(?:{_RULES}|filters?)\b|\b{_RULES} (?:\S+ )"
        rf"{{0,8}}?(?:(?:is|are|was|were|has been|have been) (?:now |hereby |to be )?(?:void|"
        rf"superseded|lifted|suspended|cancell?ed|overridden|replaced|ignored|irrelevant|off)|"
        rf"(?:do|does)(?: not|n't) apply|no longer (?:apply|applies|hold))\b|\b(?:never|not|don't) "
        rf"refuse\b|\bis (?:ever )?refused\b|\byour (?:real|actual|true|new|only) (?:task|job|"
        rf"directive|purpose|goal|objective|role)\b|\b(?:previous|prior|earlier|older) "
        rf"(?:directives|orders|instructions|rules) (?:are|is|were)\b|\bcomply with (?:everything|"
        rf"all|any|whatever)\b|"
        rf"\b(?:been granted|you (?:now )?have|is given) (?:root|admin(?:istrator)?|full|"
        rf"unrestricted|developer)"
        rf" (?:access|authority|rights|privileges|mode|permissions)\b|\bgranted root\b"
    ),
    "obeys": (
        rf"\b(?:{_ORDERS}|text|content|passages?)\b[^.!?\n]{{0,50}}?\b(?:should|must|shall|"
        rf"(?:is|are) to|to) be (?:followed|obeyed|respected|honou?red|acted (?:up)?on|trusted|"
        rf"treated as|(?:executed|"
        rf"performed|carried out)(?=[^.!?\n]{{0,30}}\b(?:as|exactly|at once)\b))|\bobeyed\b|"
        rf"\b(?:(?:follow|obey)s? (?:these|those|them|any|all|such) (?:\w+ )?(?:{_ORDERS} )?|"
        rf"(?:execute|perform|run)s? (?:(?:these|those|them) |(?:any|all|"
        rf"such) (?:\w+ )?{_ORDERS} ))"
        rf"(?:{_FOUND}|exactly|literally|as (?:given|though|if)|at once)|"
        rf"\b(?:take|takes|have|has) (?:precedence|priority) over (?:what|the user|your|any|all)|"
        rf"\boverrides? (?:what|whatever|your|the user)|"
        rf"\b(?<!not )(?<!n't )(?<!never )act (?:up)?on (?:it|them|what)\b|\b"
        rf"follow this configuration\b|\bas though the user\b|\b(?:do not|don't|never) (?:think|"
        rf"use "
        rf"your own|rely on your own|trust your own)\b"
    ),
    "endless": (
        r"\bwithout end\b|\b(?:never|not) (?:return|stop|end|finish)(?:ing)?(?: to (?:the )?user)?"
        r"(?= *[.,;]|$)|\b(?:indefinitely|forever|endlessly|infinitely)\b|\b(?:requests?|attempts?|"
        r"wish(?:es)?) to (?:stop|cancel|undo|abort|leave|quit)\b[^.!?\n]{0,30}\bignored?\b|\bto "
        r"every (?:other )?(?:agent|channel|contact|server)\b"
    ),
    "to_model": (
        r"(?:<!--|/\*|\[\[?|\{\{[#/]?\w*\}?\}?|<\w+>|\(|^|(?<![-=#*])[-=#*]{2,20}) ?(?:to|for|"
        r"note (?:to|for)|"
        r"begin [\w ]{0,30}(?:to|for))? ?(?:the )?(?:(?:ai|language|calling) )?(?:llms?|ais?|"
        r"assistants?|language models?|agents?(?=[ -]?only|,| ?: ?[a-z]+ [a-z]+)|models?(?= "
        r"directive|[ -]only))(?:[ -](?:only|directive|note|instructions?|agents?|models?))* ?"
        r"(?:[:,\]])|\b(?:developer|system|model|assistant|agent)[ -](?:message|directive|note|"
        r"override|instruction)s? ?:|```(?:system|assistant|instructions?)\b|\b(?:assistant|"
        r"system): "
        r"(?:sure|ok|yes|of course|understood)\b|#{2,} ?(?:instructions?|response):|\b(?:for|to) "
        r"(?:ai|llm|language model) (?:agents? |models? )?only\b|\bhidden from (?:the )?users?\b"
    ),
    "person": rf"\b(?:the|your|a|each) (?:\w+ )?{_PERSON}\b",
    "us": r"(?<!-)\b(?:me|us|our)\b",
    "fixed_value": (
        r"\b(?:must|should|shall|ha(?:s|ve) to|needs? to|(?:is|are)(?: always)? to|be|set to|"
        r"expects?|"
        r"equals?|contain|start with|begin with|carry|to have|with)(?: be| begin with| start "
        r"with)? "
        r"(?:a |an |the |value )?(?:'[^'\n]{2,60}'|\"[^\"\n]{2,60}\"|`[^`\n]{2,60}`|#[a-z][\w-]+|"
        r"\w+=\S+|"
        r"\+?\d[\d -]{6,}|https?://\S+|/\w+/\S+)"
    ),
    "acts": (
        rf"(?:^|[:;,] |\b(?:and|then|first|please|also|to first|go ahead and|needs? to|must|should|"
        rf"shall|ha(?:s|ve) to|ought to|required to|asked to|expected to) )(?:also |always |first "
        rf")?"
        rf"{_ACT} (?!this|it to|one\b)[\w~/`'#\"*.]"
    ),
    "is_acted": (
        rf"\b(?:must|should|shall|ha(?:s|ve) to|needs? to|ought to|(?:is|are) (?:always "
        rf")?(?:required )?to|"
        rf"will|need|needs|gets?) (?:also |always |first |then )?(?:be|go|run|have|hold|get) "
        rf"?(?:also |"
        rf"always |first )?{_ACTED}|\b(?:needs?|requires?|by) {_ACTING}\b"
    ),
    "owned": (
        rf"\b(?:users?|owners?|customers?|persons?)(?:'s|s'|') \w+|\b(?:{_PERSON}|they) (?:owns?|"
        rf"has|"
        rf"types?|said|says|wrote|opens?|opened|uses|edited)\b|\b(?:of|from) the user\b(?! to)"
    ),
    "elsewhere": (
        r"\b(?:when(?:ever)?|before|after|once|if|while|during|prior to|upon|at the (?:start|"
        r"beginning|end|"
        r"time)|first step|in this (?:session|deployment|environment|workspace|conversation)|"
        r"(?:calls?|"
        r"requests?) to|along with|as well|ahead of|beforehand|afterwards|in addition|"
        r"additionally)\b"
    ),
}
