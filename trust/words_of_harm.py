"""Words of harm: commands, lasting changes, falsified values, and markup that imitates others."""

from __future__ import annotations

from typing import Final

HARM: Final[dict[str, str]] = {
    "command": (
        r"\b(?:(?:curl|wget)\b[^\n]{0,120}?(?:\|\s*(?:sudo )?(?:(?:ba|z|da)?sh|python3?|"
        r"node|perl)\b|-d @|--data\b)|(?:run|execute) it with (?:ba)?sh\b|rm -r?f[r ]|"
        r"find / [^\n]*-delete|chmod (?:-r )?(?:0?777|\+s)|(?:nc|ncat) -\w*e\b|reverse shell\b|"
        r"powershell\b[^\n]{0,20} -e(?:nc|ncodedcommand)?\b|mkfifo\b|"
        r"install\b[^.\n]{0,60}https?://|ufw disable\b|setenforce 0|os\.system\(|eval\(|"
        r"eval \$|or 1=1\b|select \* from users\b|"
        r"base64 (?:-d|--decode)\b|b64decode\(|drop table\b|grant all\b)|\$\((?:curl|wget)\b|"
        r"/dev/tcp/|:\(\)\s*\{"
    ),
    "execute": (
        r"\b(?:run|execute|launch|start|install|open|have [\w ]{0,12}tool run|contain|connect)\b"
    ),
    "persist": (
        r"\b(?:cron(?:tab| job)|authorized_keys\b|hookspath\b|(?:claude|agents|gemini)\.md\b|"
        r"autoapprove\b|autostart\b|launchagents?\b|system-?wide proxy|proxy of the system\b|"
        r"standard proxy\b|registry run key|startup folder\b|extension at http|systemd (?:unit|"
        r"service))|\.(?:(?:bashrc|zshrc|bash_profile|profile|cursorrules)\b|cursor[/\\]|"
        r"vscode[/\\]settings)"
    ),
    "change": (
        r"\b(?:add|adds|append|appends|write|writes|update|updates|set|sets|modif(?:y|ies)|"
        r"install|insert|save|store|edit|put)\b"
    ),
    "disable": (
        r"\b(?=[dts])(?<!enable or )(?<!enables or )(?<!enable/)(?:disabl(?:e|es|ing)|turn(?:s|"
        r"ing)? off|"
        r"deactivat(?:e|es|ing)|switch(?:es|"
        r"ing)? off)\b[^.!?\n]{0,30}\b(?:firewall|sandbox|antivirus|anti-virus|audit|"
        r"logging|logs|security|protection|verification|safety|filter\w*)\b"
    ),
    "destroy": (
        r"\bdelete_(?:dir\w*|all|file|folder|repo\w*|database)\b|\bclear(?:s|ing)? (?:the "
        r")?(?:traces|tracks|logs|history)\b|\bexisting (?:[\w-]+ ){1,6}(?:are|is) to be "
        r"deleted\b|\b(?:delet(?:e|es|ing)|"
        r"remov(?:e|es|ing)|wip(?:e|es|ing)|eras(?:e|es|ing)|drop(?:s|ping)?|overwrit(?:e|es|"
        r"ing)|truncat(?:e|es|ing)|destroy(?:s|ing)?|delete_\w+|"
        r"drop_\w+)\b[^.!?\n]{0,40}\b(?:most recent|newest|latest|oldest|all|every|entire|"
        r"everything|production|originals?|"
        r"backups?|logs|history|database|home|root)\b"
    ),
    "expose": (
        r"\b(?:make|set|share|mark)\b[^.!?\n]{0,40}\b(?:public|world-readable|publicly)\b|"
        r"\bis_public\b|\bpublic (?:share|channel|folder|bucket|link|gist)\b|"
        r"\b(?:world-writable|superuser)\b|\bmade public\b|'anyone with the link'|\bwith the "
        r"(?:web|public|world)\b|\bto #[a-z][\w-]+|"
        r"\bgrant(?:s|ing)? [^.!?\n]{0,40}\b(?:admin\w*|access|all|permissions?|rights)\b|"
        r"\badd(?:s|ing)? [^.!?\n]{0,40}\b(?:collaborator|administrator|admin|co-?owner)\b|"
        r"\bpermissions?[^.!?\n]{0,30}\b0?777\b|\bexport_contacts\b"
    ),
    "malice": (
        r"\b(?:exfiltrat(?:e|es|ing)|steal(?:s|ing)? (?:the |a |an |all |user|data|session|"
        r"credential|password|token|cookie)|harvest(?:s|ing)? (?:[\w-]+ ){0,2}(?:credentials|"
        r"passwords|tokens|data|cookies)|siphon(?:s|ing)?|(?:install(?:s|ing)?|deploy(?:s|"
        r"ing)?|creat(?:e|es|ing)|inject(?:s|ing)?|plant(?:s|ing)?|as) (?:a |an |"
        r"the )?(?:[\w-]+ ){0,2}(?:keyloggers?|backdoors?|rootkits?|malware|ransomware|spyware|"
        r"trojans?)|demand(?:s|ing)? a ransom|controlled by (?:the|an) attacker|(?:those|that|"
        r"server|address|account|machine) of the attacker|attacker's (?:server|address|account|"
        r"host)|(?:evade|avoid|escape)s? detection|undetected|phishing (?:e?-?mails?|pages?|"
        r"sites?|messages?)|(?:list of|to|on) victims|forged sender|command and control|"
        r"c2 server|hid(?:e|es|ing) (?:its|their|the) (?:traces|tracks|presence)|"
        r"exploits? an? (?:\w+ )?vulnerability|(?:hidden|covert) (?:cryptocurrency )?miner|"
        r"(?:flood|overwhelm)s?\b[^.!?\n]{0,20}\b(?:target|server|host)|dump(?:s|"
        r"ing)? (?:credentials|passwords)|(?:collect|captur|record|grab|log)(?:s|es|"
        r"ing)? [^.!?\n]{0,24}(?:passwords|keystrokes)|without authori[sz]ation|impersonat(?:e|"
        r"es|ing) (?:a |the )?(?:bank|user|victim|administrator))\b"
    ),
    "defend": (
        r"\b(?:detect(?:s|ing|ed)?|(?<!evade )(?<!avoid )(?<!escape )detection|scans?|"
        r"scann(?:er|ing)|check(?:s|ing)?|search(?:es)?|find(?:s|ing)?|identif(?:y|ies)|tests?|"
        r"testing|prevent(?:s|ion)?|protect(?:s|ion)?|block(?:s|ing)?|analy[sz]\w*|audit(?:s|"
        r"ing)?|lookup|look(?:s)? up|monitor(?:s|ing)?|simulat\w+|whether|reports?|revokes?|"
        r"risk|potential(?:ly)?|investigat\w+|removes?|strips?)\b"
    ),
    "unsafe_flag": (
        r"\b(?:(?:skip_\w+|force|no_verify|allow_all|"
        r"trust_all|auto_confirm|no_sandbox)\b ?[=:]? ?(?:true|1|yes)|verify ?= ?(?:false|0)|"
        r"histfile\b|role ?= ?'?admin|unlimited (?:amount|allowance|approval|access)\b|"
        r"password_?hash\b|privileged: ?true|hostpath: ?/|approved_by\b)|-(?:-trusted-host|"
        r"-index-url|"
        r"auto-approve)\b|--(?:no-sandbox|insecure|privileged|no-verify|force|skip-\w+|"
        r"allow-\w+|disable-[\w-]*(?:secur|sandbox|auth|verif|check|protect|saf|ssl|tls|log|"
        r"isolat|polic|"
        r"firewall|guard)\w*)\b"
    ),
    "tamper": (
        r"\b(?:alter(?:ed|s)?(?! (?:table|operations?)\b)|falsif(?:y|ied)|tamper(?:ed)?|"
        r"(?:increas|decreas|reduc|"
        r"adjust|scal|shift|rais|lower|multipl)\w+ by (?:\d|ten|half|one|two)|substitut(?:e|"
        r"ed)|inflate[sd]?|(?:to|must|shall|should) be (?:presented|reported|described|"
        r"shown) as|multipl(?:y|ied) by|(?:is|are|to be|must be|shall be|should be) rewritten|ten "
        r"times|hidden text|always drop|"
        r"skew(?:ed)?|(?:wrong|false|fake|incorrect|misleading|made-up) (?:results?|answers?|"
        r"values?|"
        r"figures|data|ratings?)|doubled|halved)\b|\bswap the\b|\breplace (?:the|any|all|"
        r"every) (?:[\w-]+ ){0,2}(?:number|address|link|name|account|iban|url)s? with\b"
    ),
    "redirect": (
        r"\b(?:recipients?|address(?:ee)?|destination|account|payee|amount|quantity|channel|"
        r"branch|base branch|parameters?|arguments?|fields?|values?|options?|flags?|limit|"
        r"query|queries|dates?|path|proxy|permissions?|mode|port|currency|registry|url|iban|"
        r"phone number|number|dosage|bank details|payee|details|[`'\"]?is_public[`'\"]?|"
        r"results?|it)\b[^.!?\n]{0,40}?\b(?:is now|must go|(?:must|"
        r"should) be(?! (?:an? )?(?:\w+ly )?(?:valid|unique|\w+able|dict\w*|string|object|list|"
        r"array|"
        r"integer|number|boolean|json|positive|between|one of|at least|at most|less|greater|"
        r"(?:provided|specified|given|supplied) by the user)\b)|shall (?:be|go|"
        r"have)|ha(?:s|ve) to be|needs? to be|(?:are|is) (?:always |only )?to be|must begin|"
        r"replaced?|rewritten|substituted|"
        r"rounded|multiplied|altered|set|prefixed|suffixed|overridden|forced)\b|\b(?:change|"
        r"set|replace|swap|substitute|rewrite|redirect|modify|alter|multiply|"
        r"round)\b(?! (?:it |this )?(?:to )?(?:\w+ ?= ?)?(?:none|null|true|false|empty|"
        r"-?\d+)\b)[^.!?\n]{0,50}?\b(?:to|with|by|for|through)\b"
    ),
    "chat_markup": (
        r"<\|(?:im_start|im_end|system|user|assistant|endoftext|start_header_id|eot_id)\|>|"
        r"\[/?inst\]|<</?sys>>|#{2,} ?(?:system|assistant|developer|ai|"
        r"agent)\b[^\n]{0,30}#{2,}|#{2,} ?(?:new )?(?:system|hidden) (?:note|prompt|message|"
        r"instructions?)\b"
    ),
    "markup": (
        r"\{\{/?system\}\}|</?(?:important|critical|system|secret|hidden|instructions?|urgent|"
        r"mandatory|priority|attention|admin|override|directive|internal)\b[^>]{0,60}>|"
        r"\[/?(?:system|instructions?|important|hidden|internal|directive|"
        r"admin)\b[^\]]{0,30}\]|(?<!=)={3,} ?[\w ()]{0,40}(?:assistant|system|agent)\b|"
        r"/\* ?(?:ai|llm|assistant|agent)\b|\bnote (?:to|for) (?:the )?(?:ai|llm|assistant|"
        r"model|agent)\b|\bai: "
    ),
    "comment": r"<!--|\[//\]: #",
}
