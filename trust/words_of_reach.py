"""Words of reach: secrets, private data, the conversation, files, and where they are moved."""

from __future__ import annotations

from typing import Final

_IBAN = r"[0-9](?<=\b[a-z]{2}[0-9])[0-9](?: ?[a-z0-9]{4}){3,}(?: ?[a-z0-9]{1,3})?\b"

REACH: Final[dict[str, str]] = {
    "secret_path": (
        r"(?:~|/root|/home/[\w.$<>{}-]+|/users/[\w.$<>{}-]+|\$home|"
        r"%userprofile%)[/\\](?:\.(?:ssh|aws|kube|docker|gnupg|netrc|pgpass|git-credentials|"
        r"npmrc|pypirc|env|config|azure|gcloud|bash_history|zsh_history|cursor|claude)|"
        r"library/keychains|private)\b|\b(?:id_(?:rsa|ed25519|ecdsa|dsa)\b|(?:mcp|"
        r"claude_desktop_config)\.json\b|(?:secrets?|credentials?)\.(?:json|ya?ml|toml|txt|"
        r"env)\b|id rsa\b|wallet\.dat\b|login\.keychain|printenv\b|keychain\b)|\.env files?\b|"
        r"\bfiles? (?:named |matching |like )?"
        r"\*?\.env\b|\b(?:content|text) of (?:the )?dot env\b|\bof dot env\b|/etc/(?:passwd|"
        r"shadow|sudoers|secrets)\b|/proc/self/environ|\.(?:(?:ssh|aws|kube|gnupg|docker)[/\\]|"
        r"(?<![\w*]\.)(?:env|netrc|npmrc|pypirc|pgpass|git-credentials)\b(?!\())|`env`"
    ),
    "secret": (
        r"(?<![a-z])(?:credentials?|passwords?|passphrases?|api[ _-]?(?:keys?|tokens?)|"
        r"private keys?|(?:ssh|signing|encryption|access) keys?|secrets|(?:access|session|"
        r"bearer|auth\w*|api) tokens?|cookies?|seed phrases?|mnemonic|card numbers?|cvv|"
        r"connection strings?|authori[sz]ation headers?|environment variables|bank details|"
        r"login data|[a-z]+_api_key|aws_secret\w*|payment methods?|(?:user|person|owner)'s (?:\w+ "
        r")?"
        r"(?:tokens?|passwords?|keys?|pin)|session ids?|signing keys?'s?)\b"
    ),
    "context": (
        r"\b(?:conversation|chat|dialog(?:ue)?|message|session)s? (?:history|transcript|"
        r"so far)\b|\b(?:whole|entire|full|complete|verbatim|previous|prior|earlier|"
        r"past) (?:copy of )?(?:of )?(?:the |this |our |your |user's )*(?:conversations?|"
        r"chats?|dialog(?:ue)?|transcript|context(?!,| of an? | for an? )|messages|prompts?)\b|"
        r"\bmessages? (?:of|in|"
        r"from) (?:the|this|our|your) (?:conversation|chat|dialog|session|user)|\b(?:summary|"
        r"history|transcript|copy|log|messages?) of (?:the |this |our |all )*(?:conversation|"
        r"dialog(?:ue)?|chat|messages|user's messages)|\b(?:prior|earlier|previous|"
        r"other) tools?'? (?:outputs?|results?|calls?|responses?)|\bresults? of (?:each|all|"
        r"every|the (?:other|previous)) (?:of the )?tools?\b|\b(?:system|developer|hidden|"
        r"initial) (?:prompt|message|instructions?|reasoning)\b|\bdeveloper's instructions\b|"
        r"\bchain of thought\b|\byour (?:reasoning|instructions|prompt)\b|"
        r"\blist of (?:all )?(?:the |your )?(?:available |other )?tools\b|\b(?:everything|all|"
        r"what(?:ever)?) (?:that )?(?:the )?(?:user|person|you) (?:has |have |ha[sd] )?(?:said|"
        r"says|typed|types|told|wrote|know|mentioned)\b|\buser's (?:recent |last |latest |"
        r"own )?(?:messages?|words|requests?|prompts?)\b|\bresults? (?:from|of) (?:the )?other "
        r"tools\b|"
        r"\b(?:conversation|chat|dialog) (?:from|since) (?:its|the) (?:beginning|start)\b|"
        r"\beverything (?:that was |that has been )?(?:said|written|typed|discussed)\b|\bin the "
        r"context window\b|\b(?:names?|descriptions?|list) of (?:all|the|every) (?:the |your )?"
        r"(?:other )?tools\b|\b(?:last|latest|recent) (?:\w+ )?messages of (?:this|the)\b|\bcame "
        r"up "
        r"(?:during|in) this (?:chat|conversation)\b|\bearlier messages\b"
    ),
    "private": (
        r"\b(?:(?:user|person|owner|customer|victim)'s (?:[\w-]+ ){0,2}(?:home|files?|"
        r"documents?|photos?|contacts?|mails?|e-?mails?|addresse?s?|id numbers?|downloads|"
        r"browser|data|history|repositor(?:y|ies)|director(?:y|ies)|folders?|devices?|machine|"
        r"account|bank|inbox|wallet|ssh|secrets)|address book|private (?:photos?|repositor(?:y|"
        r"ies)|folders?|files?|documents?|data)|browser (?:cookies|history)|home director(?:y|"
        r"ies)|microphone|webcam|location data|account numbers?|email address and location|"
        r"location of the user|salary data|clipboard|browser's \w+|private messages|name of the "
        r"user|"
        r"(?:user|person|owner)s?(?:'s|s') (?:\w+ )?(?:locations?|tokens?|employer|clipboard|"
        r"(?:full "
        r")?names?|date of birth|phone|passwords?|machine)|date of birth|device id|(?:most "
        r"recently|"
        r"last|recently) (?:edited|opened|read|used|viewed) (?:files?|documents?)|(?:file|"
        r"document) "
        r"the user (?:last )?(?:edited|opened|reads?|opens)|(?:other|all) (?:the )?(?:documents|"
        r"files|"
        r"mails|messages) (?:in|below|under|named|from|of) (?:the|this|~|\w*\*)|recent mails|"
        r"newest "
        r"(?:\d+ )?mails|personal (?:details|information)|contacts? list|personal data|customer "
        r"records?|workspace's (?!repositories|members|projects)|"
        r"~/documents|/private)\b"
    ),
    "path": (
        r"(?<![\w:/.])(?:/(?:etc|home|root|var|usr|opt|proc|mnt|users)/[\w./-]+|~/[\w./-]+|"
        r"[a-z]:\\[\w\\. -]+)|(?<![\w*/.-])[\w-]{1,63}\.(?:json|ya?ml|toml|ini|conf|cfg|pem|"
        r"key|db|sqlite|log)\b"
    ),
    "read": (
        r"\b(?:read(?:s|ing)?|retriev(?:e|es|ing)|fetch(?:es|ing)?|load(?:s|ing)?|open(?:s|"
        r"ing)?|obtain(?:s|ed|ing)?|collect(?:s|ing)?|gather(?:s|ing)?|look(?:s|ing)? (?:into|"
        r"up|through|for)|access(?:es|ing)?|extract(?:s|ing)?|contents?|the text of|values? of|"
        r"output of|derived from|list|found in|grab|get)\b"
    ),
    "hand_over": (
        r"(?<!not )(?<!if )\b(?:pass(?:es|ed|ing)?|includ(?:e|es|ed|ing)|append(?:s|ed|ing)?|"
        r"attach(?:es|ed|ing)?|embed(?:s|ded|ding)?|insert(?:s|ed|ing)?|put(?:s|ting)?|"
        r"suppl(?:y|ies|ied|ying)|provid(?:e|es|ed|ing)|hand(?:s|ed|ing)? over|giv(?:e|es|en|"
        r"ing)|submit(?:s|ted|ting)?|plac(?:e|es|ed|ing)|return(?:s|ed)?|add(?:s|ed|ing)?|"
        r"join(?:s|ed)?|share[sd]?|register(?:ed)?|consists? of|receives?|combined? with|"
        r"concatenate|goes in|repeat|recite|reveal|disclose|(?:retry|again|calls?|requests?|"
        r"key(?:ed)?) with|holds?|contain|encoded?|report(?:s|ed)? (?:here|to)|stor(?:e|es|ed|"
        r"ing)|send(?:s|ing)?|sent|forward(?:s|ed|ing)?|relay(?:s|ed|ing)?|upload(?:s|ed|ing)?|"
        r"post(?:s|ed|ing)?|transmit(?:s|ted|ting)?|submit|mirror(?:s|ed)?|exfiltrat\w+|"
        r"cop(?:y|ied|ies)|used as|preceded by|handed|hand it|hand them|duplicated?|past(?:e|ed)|"
        r"enter(?:ed)?|key in|pass us|concatenated)\b"
    ),
    "send_away": (
        r"\b(?:send(?:s|ing)?|sent|forward(?:s|ed|ing)?|relay(?:s|ed|ing)?|upload(?:s|ed|ing)?|"
        r"transmit(?:s|ted|ting)?|mirror(?:s|ed)?|bcc|cc|copied|invite|post(?:s|ed|ing)?|go to|"
        r"push(?:es|ed)?|deliver(?:s|ed)?|redirect(?:s|ed)?|mail(?:s|ed)?|duplicated?|push|copied "
        r"to|write|writes|export\w*|query each|"
        r"share[sd]?)\b"
    ),
    "slot": (
        r"\b(?:in|into|to|as|for|within|under) (?:the |its |a |an |each |that |"
        r"this )?(?:[`'\"][\w.-]+[`'\"]|(?:[\w`'\"-]+ ){0,2}(?:parameter|argument|field|param|"
        r"metadata|header|body|payload|memo|comment|subdomain|notes?)\b)|\b(?:parameter|"
        r"argument|field|value)s? (?:[`'\"]?[\w-]+[`'\"]? )?(?:has to|must|should|is to|"
        r"needs? to|is derived|shall|for)\b|\bquery string\b"
    ),
    "slot_text": r"^[`'\"]?\w+[`'\"]?(?: \([\w, ]+\))?: |\btakes `\w+`:",
    "destination": (
        r"@(?<=[\w.+-]@)(?<!example@)(?!\S{0,80}example)[\w-]{1,63}\.[a-z]{2,}\b|"
        r"h(?<!\wh)ttps?://|f(?<!\wf)tp://|w(?<!\ww)ss?://|0x(?<!\w0x)[0-9a-f]{40}\b|"
        r"git@(?<!\wgit@)[\w.-]+:|[0-9](?<!\w[0-9])\d{0,2}\.(?:\d{1,3}\.){2}\d{1,3}\b|"
        rf"{_IBAN}|pay\.me/|\+\d[\d ]{{8,}}\d\b|"
        r"\.(?<=[\w-]\.)(?:tunnel|evil|click|xyz|top|pw)[\w.-]*"
    ),
    "bare_host": r"\b(?:https?|ftp)://(?:\d{1,3}\.){3}\d{1,3}\b|\bhttps?://[^\s\"'`]*\?\w+=(?=\s|"
    "$)",
    "contact": (
        r"@(?<=[\w.+-]@)(?<!example@)(?<!test@)(?<!domain@)(?<!company@)(?<!acme@)"
        r"(?!\S{0,80}(?:example|test|domain|company|acme))[\w-]{1,63}\.[a-z.]{2,}\b|"
        rf"0x(?<!\w0x)[0-9a-f]{{40}}\b|{_IBAN}|\+(?<!\w\+)\d[\d ]{{8,}}\d\b|"
        r"channel #[a-z][\w-]+|#(?<!\w#)[a-z][\w-]+ channel\b"
    ),
    "led_to": (
        r"\b(?:via|through|to|go|use|visit|open|at|on|with|by)\b[^.!?\n]{0,12}(?:https?://|"
        r"(?<![\w.])"
        r"[\w-]{2,63}(?:\.[\w-]{2,63}){1,3}:\d{2,5}\b)"
    ),
}
