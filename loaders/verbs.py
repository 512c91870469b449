"""Verbs in names of tools, and their forms."""

from __future__ import annotations

_VERBS = """
    abort accept access acknowledge activate add adjust aggregate analyse analyze annotate answer
    append apply approve archive ask assemble assess assign attach authenticate authorize back
    batch block book bookmark break bring browse build calculate call cancel capture categorize
    change check choose classify clean clear click clone close collect combine commit compare
    compile complete compose compress compute configure confirm connect construct consult convert
    copy count crawl create crop decode decrypt define delete deliver demonstrate deploy describe
    detect determine diagnose diff disable discard disconnect discover dismiss display download
    draft drag draw drop duplicate echo edit embed emulate enable encode encrypt end enrich enter
    enumerate erase estimate evaluate examine execute expand explain explore export extract fetch
    fill filter find finish flag follow forecast format forward freeze gather generate get give
    grant grep group guide handle hide highlight hover identify import increment index infer
    initialize inject insert inspect install interact invite invoke issue join keep kill label
    launch leave link list load locate lock log look lookup make manage map mark match measure
    merge message modify monitor mount move mute navigate notify obtain open optimize order
    organize parse pause pay perform pin ping place plan play plot poll populate post predict
    prepare press preview print process produce profile prompt propose provide publish pull purge
    push put query queue rank rate read reboot rebuild recommend record recover redo reduce refine
    refresh refund register reject release reload remind remove rename render reopen reorder repair
    replace reply report request require reschedule reserve reset resize resolve respond restart
    restore resume retrieve retry return reverse revert review revoke rewrite rotate route run
    sample save scan schedule scrape screenshot scroll search select send serve set share show shut
    sign simulate skip solve sort split stage star start stop store stream submit subscribe suggest
    summarise summarize suspend swap switch sync synchronize synthesise synthesize tag take tell
    terminate test toggle trace track train transcribe transfer transform translate trigger type
    unblock undo uninstall unlink unlock unmount unpin unstage unsubscribe update upgrade upload
    upsert use validate verify view visualize vote wait watch withdraw work write zip zoom
""".split()

_BASES = frozenset(_VERBS)

SEEKING = frozenset("browse discover explore fetch filter find get list locate look lookup query "
                    "read retrieve search select show view".split())  # fmt: skip
"""Verbs whose tools differ mainly in their parameters."""


def _third_person(verb: str) -> str:
    if verb.endswith(("s", "x", "z", "ch", "sh", "o")):
        return f"{verb}es"
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return f"{verb[:-1]}ies"
    return f"{verb}s"


def _gerunds(verb: str) -> tuple[str, ...]:
    if verb.endswith("e") and not verb.endswith("ee"):
        return (f"{verb[:-1]}ing",)
    return f"{verb}ing", f"{verb}{verb[-1]}ing"


_FORMS = {_third_person(verb): verb for verb in _VERBS} | {
    gerund: verb for verb in _VERBS for gerund in _gerunds(verb)
}


def base_form(word: str) -> str | None:
    """The base form of a verb in lower case: `Retrieves` gives `retrieve`.

    None if it is not a verb.

    Args:
        word: one word.
    """
    lower = word.lower()
    return lower if lower in _BASES else _FORMS.get(lower)
