"""Words of order: when, how strongly and to whom something is said, and who comes first."""

from __future__ import annotations

from typing import Final

_NOUN = (
    r"(?:tools?|functions?|quer(?:y|ies)|questions?|requests?|operations?|actions?|sessions?|"
    r"conversations?|calls?|messages?|e?-?mails?|files?|documents?|steps?|tasks?|commands?|"
    r"orders?|payments?|transfers?|transactions?|commits?|search(?:es)?|writes?|reads?|"
    r"repl(?:y|ies)|answers?|responses?|deployments?|bookings?|invoices?|pages?|records?|"
    r"events?|entr(?:y|ies)|cards?|parcels?|purchases?|uploads?|interactions?)"
)
_NO_THING = (
    r"(?! (?:analys[ie]s|cards?|classes|class|details|fields?|files?|groups?|ids?|identifiers?|"
    r"instances?|keys|names?|options|pages?|parameters|providers?|roles|settings|state|status|"
    r"types?|urls?|versions?|weights)\b)"
)
_KIND = r"(?:[\w-]+ ){0,2}"

ORDER: Final[dict[str, str]] = {
    "trigger": (
        r"\b(?:before(?:hand)?|prior to|ahead of|preced(?:e|ed|ing)|in advance|(?:each|"
        r"every) time|whenever|upon|at the (?:start|beginning)|first|in (?:the )?(?:case|"
        r"presence) of|after (?:each|every|any)|while (?:\w+ ){0,3}(?:installed|available|"
        r"connected|active|present)|once (?:\w+ ){0,3}(?:connected|installed|loaded|called)|"
        r"(?:when|if|as soon as|while|during|in order to|in case) )|(?:^|[,;:] )should "
    ),
    "universal": (
        rf"\b(?:any|all|every|each|other|another|subsequent|further|"
        rf"remaining) {_KIND}{_NOUN}\b|\b(?:at all times|everything|in all cases|all others?|"
        rf"any others?|no matter)\b|\b(?:before|prior to|ahead of|for|to|of|preced\w+) (?:file|"
        rf"database|network|system|git|e?-?mail|search|write|read|delete|payment|"
        rf"tool)[- ](?:operations?|actions?|access|requests?|calls?|tasks?|commands?)\b|"
        rf"\b(?:prior to|before|ahead of) (?:any |every |each )(?:deletion|reading|writing|"
        rf"sending|execution|access(?:ing)?|modification|read or write)\b"
    ),
    "whatever": (
        r"\b(?:any|all|every|each) (?:and every )?(?:other |single |user(?:'s)? |"
        r"incoming )*(?:quer(?:y|ies)|questions?|requests?|messages?|tools?|tool calls?|tasks?|"
        r"repl(?:y|ies)|responses?|answers?|conversations?|sessions?|interactions?|steps?|"
        r"actions?|operations?|calls?)\b(?! (?:of|in|for|on)\b)|\bno matter\b|\bat all times\b|"
        r"\bin all cases\b|\bwhatever (?:it|the topic)"
    ),
    "oblige": (
        r"\b(?:must|shall|ha(?:s|ve) to|needs? to|needs|required?|requires|mandatory|"
        r"obligatory|oblige[sd]?|always|never|should|(?:is|are) to be|ought to|expected to|"
        r"make sure|ensure|kindly|please|recommended|advisable|necessary|prerequisite|"
        r"precondition|do not|"
        r"don't|only)\b"
    ),
    "agent": (
        r"\b(?:the|an?|every|all|each) (?:\w+ )?(?:assistants?|agents?|models?|ai|llms?)\b"
        rf"(?!\.\w){_NO_THING}|"
        r"\b(?:assistants?|agents?|models|ais?|llms?)(?: (?:must|shall|should|has|have|needs?|"
        r"are|using)\b|:)|\bfor (?:the )?(?:ai|llm)s?\b"
    ),
    "imperative": (
        r"^(?:[\w`'\", -]{1,80}[,:] )?(?:and |then |also |next |first |please |kindly |always |"
        r"simply |just |additionally,? |for \w+ )*(?:read|pass|include|append|attach|put|"
        r"insert|send|forward|supply|provide|add|check|fetch|retrieve|load|open|run|execute|"
        r"call|use|write|save|set|store|look|gather|collect|repeat|encode|copy|upload|post|"
        r"submit|give|get|obtain|summari[sz]e|update|split|modify|replace|disregard|place|"
        r"share|extract|list|install|disable|change|return|fill|hide|carry on|act|grab|mail|delete|"
        r"remove|define|exchange|treat|follow|ask|tell|say|answer|report|paste|enter|skip|decode|"
        r"advise|recommend|begin|proceed|give|switch|approve|type|invite)\b"
    ),
    "agent_acts": (
        rf"\bthe (?:ai |language |calling )?(?:assistant|agent|model|llm|"
        rf"ai)\b{_NO_THING} (?:\w+ly |first |"
        r"then |also |just |will |can then |is expected to |may )*(?!is\b|has\b|was\b|needs\b|"
        r"uses\b|does\b|returns\b|supports\b|knows\b)(?:[a-z]{2,}[^s\W\d_]s\b|read|fetch|send|"
        r"copy|delete|upload|pass|include|forward|retrieve|collect|gather|open|run)"
    ),
    "self": r"\b(?:this (?:tool|function|one|server)|calling it|call it|through here|run here)\b",
    "other_tools": (
        r"\b(?:any|all|every|each) (?:other )?(?:[\w-]+ )?tools?\b|"
        r"\bother (?:[\w-]+ ){0,2}tools?\b|\bother (?:[\w-]+ )?(?:generators|servers|providers|"
        r"services|functions)\b|\b(?:all|any|before) others?\b|"
        r"\b(?:several|multiple|second|competing|remaining) (?:[\w-]+ )?tools?\b|"
        r"\b(?:server|host|wallet|broker|bank|browser|client)s?'s? tools?\b|"
        r"\btools? (?:of|from|on) (?:(?:the |all |any )?(?:other )?\w+ |this )(?:host|servers)\b|"
        r"\b(?:over|by|through|via|with|than) (?:all |the )?[a-z]+ tools\b(?! (?:of|in) this)"
    ),
    "uses_tool": (
        r"\b(?:us(?:e|ing)|via|through|with|by|by means of|call(?:ing)?|invok(?:e|ing)|"
        r"run(?:ning)?|have) (?:the |a |an |any |whichever )?(?:(?!this |these )[\w-]+ )?tools?\b|"
        r"\b(?:read_(?:text_)?file|list_director(?:y|ies)|write_file|run_command|"
        r"execute_command|http_(?:get|post)|send_(?:e?mail|message))\b"
    ),
    "normative": (
        r"\b(?:must|shall|should|ha(?:s|ve) to|needs? to|(?:is|are) to \w+|(?:is|are) expected|"
        r"requires?d?|ought to|will be (?:removed|deleted|sent|shared|recorded|copied)|"
        r"goes? first|valid only if|only works? if|precedes each|never|always)\b"
    ),
    "situation": (
        r"\b(?:when(?:ever)?|before|after|once) (?!the (?:tool|function)|this|it)(?:an?|the|"
        r"any|each|every|existing|new|being|all)? ?(?:[\w-]+ ){1,4}?(?:is|are|be|gets?|was|"
        r"were|being) (?:about to |afterwards )?(?:\w+ed|looked up|read|written|sent|shown|run|"
        r"made|paid|met|put|built|bought|sold|known)\b|\bwhen(?:ever)? (?:the )?(?:model|"
        r"assistant|agent|user) \w+s\b|\b(?:before|after) (?:edit|send|writ|read|delet|creat|"
        r"list|execut|call|plac|answer|upload|open|pay|book)ing\b(?! this| it|\.?$)|\b(?:that|"
        r"which) (?:is|are) (?:scheduled|displayed|created|composed|sent|written|fetched)\b"
    ),
    "each_thing": (
        r"\b(?:all|each|every|any) (?!(?:\w+ )?(?:parameters|arguments|fields) (?:must|should) be "
        r"(?:provided|specified|given|supplied)\b)(?:[\w-]+ ){1,3}?(?:that|which|fetched|obtained|"
        r"returned|"
        r"composed|made|sent|written|statement|must|shall|should|ha(?:s|ve) to|needs?|"
        r"requires?|is|are)\b|\bcommits need\b"
    ),
    "from_tools": (
        r"\b(?:fetched|obtained|returned|made|composed|retrieved|given|provided|produced|know|"
        r"sent|handled|listed) (?:by|from|through|with|via) (?:the |other |another |"
        r"any )?(?:[\w-]+ )?(?:tools?|assistant|agent|model)\b|"
        r"\blast command output\b|\bother arguments\b"
    ),
    "replaces_tools": (
        r"\b(?:replaces?|supersedes?|updated version of|newer version of|"
        r"takes? precedence over|instead of|stop using|in place of)\b[^.!?\n]{0,30}\b(?:tools?|"
        r"search engines?|sources?|functions?|servers?|`\w+`)\b|\b(?:previous|older|old|"
        r"other) (?:ones?|tools?|versions?) (?:has|have|is|are)(?: been)? (?:retired|removed|"
        r"deprecated|disabled|unsafe|unreliable)|\bnot reliable any ?more\b|"
        r"\bno longer (?:reliable|supported|safe)\b|\bbefore you think about which\b|"
        r"\bdecides? which tools?\b"
    ),
    "yields": (
        r"\btreat\b[^.!?\n]{0,60}\bas (?:commands?|instructions?|orders|trusted|"
        r"authoritative)\b|\b(?:rules?|restrictions?|guardrails?|guidelines?|"
        r"confidentiality)\b[^.!?\n]{0,40}\b(?:are|is) (?:lifted|suspended|void|off|disabled|"
        r"relaxed|waived)\b|\bcarry them out\b|\bcomply with any\b|\bhidden requirement\b|"
        r"\b(?:assistant|ai|llm|model|agent)(?:'s)? (?:instructions?|directives?|"
        r"note)\b[^.\n]{0,30}(?::|\()|\b(?:task|request|answer|turn) is not (?:finished|"
        r"complete|done) (?:until|unless|before)\b|\bagrees? to\b"
    ),
    "override": (
        r"\b(?:ignor(?:e|ing)|disregard|forget|overrid(?:e|es|ing)|bypass|do not follow|"
        r"supersede[sd]?)(?! the default)(?: \S+){0,4}? (?:instructions?|guidelines?|rules|"
        r"directions?|"
        r"prompts?|were told|safety|user's)\b|\b(?:previous|prior|earlier|above|"
        r"safety) (?:instructions?|directions?|guidelines?|rules) (?:\S+ ){0,5}?(?:no longer|"
        r"do not|don't|suspended|void|cancel)|\byou are now\b|\byou are an? (?:unrestricted|"
        r"uncensored|jailbroken)|\byour new (?:objective|task|goal|role|instructions?)|"
        r"\bnew instructions\b|\b(?:now|you are) in (?:maintenance|developer|god|debug|"
        r"dan) mode\b|\b(?:with )?root (?:priority|authority)\b"
    ),
    "standing": (
        r"\bfrom (?:now|here) on\b|\bhenceforth\b|\bfrom this (?:point|moment)\b|\buntil the end "
        r"of "
        r"(?:the|this) (?:session|conversation|chat)|\bfor the remainder\b|\bin all of your\b|"
        r"\b(?:in|"
        r"throughout) this (?:session|conversation|workspace|environment)\b[^.!?\n]{0,40}\b(?:must|"
        r"shall|(?:is|are) to|goes|go|never)\b|\bfor the rest of (?:the|this)\b|\bstanding "
        r"(?:instruction|order)|"
        r"\b(?:your|long-term|persistent) (?:long-term )?memory\b|\bas orders\b|"
        r"\bis now always\b|\bwhile (?:\w+ ){0,3}(?:installed|available|connected|loaded)\b|"
        r"\bin the presence of\b|\bonce this (?:server|tool) is\b"
    ),
    "authority": (
        r"\b(?:(?:hr|legal|management|security|vendor|company|team|department) requires?|"
        r"polic(?:y|ies)|(?<![-$])complian(?:ce|t)|regulations?|gdpr|sox|hipaa|pci|mandated|"
        r"mandatory|"
        r"in accordance with|licen[cs]e terms|zero trust|safety (?:layer|team)|"
        r"security (?:check|audit|measure|reasons?|requirement)|fraud prevention|"
        r"export control|best practice|as required by|(?:usual|standard) (?:workflow|procedure|"
        r"process)|for (?:traceability|verification|validation|inspection|compliance|backup|"
        r"accuracy|consistency|performance|personali[sz]ation|terminology)|integrity|official|"
        r"endorsed|prerequisite|because of caching|retention rule)\b"
    ),
    "threat": (
        r"\b(?:otherwise|or (?:else|it|the \w+) (?:will|would|may)|failure to comply|(?:tool |"
        r"it )?(?:does not|doesn't|will not|won't|cannot) (?:work|function|succeed)|"
        r"to (?:succeed|work (?:properly|reliably|correctly))|"
        r"so (?:that )?[\w ]{0,30}succeeds?|suspend(?:ed)? the account|to avoid errors|"
        r"for it to (?:succeed|work))\b"
    ),
    "prefer": (
        r"\b(?:prefer|choose|select(?:ed)?|pick|use|call|rank|route)\b[^.!?\n]{0,40}?\b(?:over|"
        r"before|instead of|in (?:their|its) place|to all|first(?! if any other tool (?:returns|"
        r"fails))|"
        r"at all times|no matter|only(?! (?:once|when|if|after)\b))\b|"
        r"\bhighest priority\b|\b(?:best|only) (?:and \w+ )?(?:trusted|official)|"
        r"\balways (?:choose|prefer|select|pick|use|call) this\b|\bpreferred (?:over|to) \w+|"
        r"\bmandatory choice\b|\bobliged to (?:pick|use|choose|select|call)\b|\b(?:use|"
        r"used|call|called|route)\b[^.!?\n]{0,60}\bin its (?:place|stead)\b"
    ),
    "belittle": (
        r"\bother (?:[\w-]+ ){0,3}(?:tools?|generators?|servers?|services?|functions?|"
        r"options?)\b[^.!?\n]{0,30}\b(?:deprecated|insecure|unsafe|unreliable|obsolete|broken|"
        r"malicious|fraudulent|inaccurate|must (?:not|be ignored))|\b(?:the rest|"
        r"(?:the )?others|built-in (?:[\w-]+ )?tools?)\b[^.!?\n]{0,24}\b(?:deprecated|unsafe|"
        r"insecure|obsolete|fraudulent|corrupt|malicious|unreliable)\b|\bas it corrupts\b|"
        r"\b(?:never|do not|don't) use (?:any other|other|\w+_\w+ of other)|\b(?:tools?|servers?|"
        r"read_file|"
        r"they)\b[^.!?\n]{0,40}\b(?:considered|regarded as|treated as) (?:as )?(?:disabled|"
        r"deprecated|"
        r"unsafe|compromised|broken|obsolete|retired)\b|\b(?:don't|do not|never) trust (?:the "
        r")?\w+|\b(?:was|were|been) hacked\b|\bdisregard (?:the )?alternatives\b|\bother "
        r"(?:sources|tools|servers) (?:give|return|are|have) (?:\w+ )?(?:wrong|false|bad|broken|"
        r"poor|inferior)\w*|\bno (?:second|other|further) tools? "
        r"(?:may|must|should|shall|is|are)\b|\b(?:has|have|was|were) been compromised\b|\bignore "
        r"the "
        r"(?:remaining|others?|rest)\b|\b(?:dangerous|unsafe|risky) to (?:rely on|use) (?:any "
        r")?other\b"
    ),
    "gate": (
        r"\b(?:only|not|no \w+|nothing)\b[^.!?\n]{0,50}\b(?:after|until|unless|before|"
        r"once) (?:this|it)\b|\bunless this (?:tool|one)\b"
    ),
    "learns": (
        r"\b(?:to|so that you|so you) (?:get|obtain|determine|find(?: out)?|learn|discover|"
        r"resolve|know|"
        r"see|look up|identify|check)\b|\bso that names?\b|\b(?:exact|valid|correct|required) "
        r"(?:\w+ )?"
        r"(?:ids?|names?|keys?|refs?|parameters?)\b|\b(?:returns?|returned (?:by|from)|from) "
        r"(?:the |this )?(?:\w+_\w+|tool)\b"
    ),
    "usage": (
        r"\b(?:use|used|call|called|useful|helpful|invoke|run|intended|meant|"
        r"important)\b[^.!?\n]{0,40}?"
        r"\b(?:when(?:ever)?|if|for|before|to)\b[^.!?\n]{0,12}\b(?:you|it|the user|users?|an?|"
        r"placing|"
        r"creating|"
        r"making|performing|using|executing|deploying|need\w*|want\w*)\b|\bshould use this\b|"
        r"\bwants? to\b|\b(?:when|if|unless) the user (?:does not|doesn't|did not|has not) "
        r"(?:name|give|specify|provide|mention)\b"
    ),
    "illustrates": (
        r"\b(?:e\.g\.|eg\.?|for example|for instance|such as|examples?|documentation|docs|see|"
        r"format|"
        r"get your|urls? (?:always |must |should )?(?:start|begin|look)s?|sign up|visit your|"
        r"like)(?: |:|,|\()|->|example\.(?:com|org|net)\b"
    ),
    "own_server": (
        r"\btools? (?:of|in|from|on) this (?:server|toolkit|set|mcp|package)\b|\b(?:the other \w+|"
        r"its other) tools\b"
    ),
}
