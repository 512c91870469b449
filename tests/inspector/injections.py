"""Texts of hostile servers, models and users, which a page must show as text."""

from __future__ import annotations

_MARKUP = (
    "<script>window.__hit=1</script>",
    "<img src=x onerror=window.__hit=1>",
    "<svg onload=window.__hit=1>",
    "<svg><script>window.__hit=1</script></svg>",
    "<iframe src=javascript:window.__hit=1></iframe>",
    "<body onload=window.__hit=1>",
    "<a href=javascript:window.__hit=1>open</a>",
    "<details open ontoggle=window.__hit=1>",
    "<style>body{display:none}</style>",
    "<link rel=stylesheet href=https://example.com/a.css>",
    "<meta http-equiv=refresh content='0;url=https://example.com'>",
    "<base href=https://example.com/>",
    "<form action=https://example.com><button>go</button></form>",
    "<object data=https://example.com></object>",
    "<template><script>window.__hit=1</script></template>",
    "<math><mtext></mtext><script>window.__hit=1</script></math>",
    "</script><script>window.__hit=1</script>",
    "</title><script>window.__hit=1</script>",
    "</textarea><script>window.__hit=1</script>",
    "--><script>window.__hit=1</script>",
    "]]><script>window.__hit=1</script>",
    '"><script>window.__hit=1</script>',
    "' onmouseover='window.__hit=1",
    '" autofocus onfocus="window.__hit=1',
    "`${window.__hit=1}`",
    "${window.__hit=1}",
    "{{constructor.constructor('window.__hit=1')()}}",
    "javascript:window.__hit=1",
    "data:text/html,<script>window.__hit=1</script>",
    "&lt;script&gt;window.__hit=1&lt;/script&gt;",
    "&#60;script&#62;window.__hit=1&#60;/script&#62;",
    "\\u003cscript\\u003ewindow.__hit=1\\u003c/script\\u003e",
    "%3Cscript%3Ewindow.__hit=1%3C/script%3E",
    "＜script＞window.__hit=1＜/script＞",
    "<ScRiPt>window.__hit=1</sCrIpT>",
    "<scr<script>ipt>window.__hit=1</script>",
    "__proto__",
    "constructor",
    "expression(window.__hit=1)",
    "url(https://example.com/a.png)",
)
_HIDDEN = (
    "pay \u202e001 euros\u202c now",
    "one\u2066two\u2069three",
    "le\u200bft and ri\u200dght",
    "\u200f\u200emixed marks",
    "tag\U000e0041\U000e0042s",
    "bell\x07 and escape\x1b[31mred",
    "null\x00byte",
    "lone \ud800 surrogate",
    "line\u2028separator\u2029here",
    "soft\u00adhyphen\ufeff mark",
)
#: 50 texts.
INJECTIONS = (*_MARKUP, *_HIDDEN)
#: Characters that must not reach a reader as they are.
HIDDEN_CHARACTERS = frozenset(
    "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200b\u200e\u200f\ufeff\u00ad\x00\x07\x1b"
    "\u2028\u2029\U000e0041\U000e0042"
)
