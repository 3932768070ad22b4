"""A result that can be read again: what went wrong in it, and the names that it shows."""

import re
from typing import Final

from compaction.results.leaves import LONGEST_WORD, TRAILING, identifies
from compaction.results.logs import terse
from compaction.results.record import one_line

#: How telling a name is by what it stands for; a path is looked up again more than all else.
PATH: Final = 4
DEFINED: Final = 3
CALLED: Final = 2
NAMED: Final = 1

#: Names with how telling each is.
Names = tuple[tuple[str, int], ...]

#: Characters of a line that says what went wrong, and how many such lines stay.
_LONGEST_FAULT: Final = 160
_MOST_FAULTS: Final = 2
#: Characters of a text that is searched for them: its end says how it ended.
_SEEN: Final = 8_000

_fault = re.compile(
    r"^(?:E {1,8})?(?:[\w.]{0,80}(?:Error|Exception)\b"
    r"|(?:error|ERROR|FATAL|FAILED|fatal|panic)[:\s])"
    r"|\b(?:[Ee]rror|ERROR|[Ff]atal): |command not found|No such file|ermission denied"
    r"|annot find |\bnot found\b"
).search
#: No line tells of a fault without one of these.
_SIGNS: Final = (
    *("rror", "xception", "ERROR", "FATAL", "FAILED", "atal", "panic"),
    *("not found", "No such", "denied", "annot find"),
)

_words = re.compile(r"[\w.@/+~%#-]{4,}(?:\(|://[^\s\"'<>`|\\^{}()]+)?|</[\w:.-]{1,64}").findall
_defined = re.compile(
    r"(?:def|class|function|func|fn|interface|struct|enum|trait|type|const|let|var)"
    r"[ \t]{1,4}(\w{2,80})(?=[ \t]?(?:[(:<={]|extends|implements))"
).findall
_traced = re.compile(r", line \d{1,7}, in (\w{2,80})").findall
_TRACE: Final = "Traceback"
is_file = re.compile(
    r".*\.(?:py|pyi|ipynb|tsx?|jsx?|[cm]js|vue|json[cl]?|ya?ml|toml|cfg|ini|env|lock|mdx?|rst"
    r"|txt|log|csv|sql|xml|html?|s?css|svg|png|[ch]|cc|[ch]pp|go|rs|java|kt|swift|rb|php|pl|sh|lua)"
).fullmatch
_is_name = re.compile(
    r"(?=\w*[^\W_]_|_+[A-Za-z]|\w*[a-z]\w*[A-Z]|\w*\d)[A-Za-z_]\w{3,80}"
).fullmatch
_is_plain = re.compile(r"[A-Za-z]?[a-z]*[.]?|[\d.-]*|<.*").fullmatch
_BEHIND: Final = TRAILING + "("
_is_word = re.compile(r"[A-Za-z_]\w{3,80}").fullmatch


def faults(text: str) -> str:
    """The last lines that say what went wrong, on one line; "" for none."""
    end = text[-_SEEN:]
    if not any(map(end.__contains__, _SIGNS)):
        return ""
    lines = [line.strip()[:_LONGEST_FAULT] for line in terse(end).split("\n")]
    found = dict.fromkeys([line for line in lines if _fault(line)])
    return one_line("\n".join(list(found)[-_MOST_FAULTS:]))


def shown(text: str, known: dict[str, Names] | None = None) -> dict[str, int]:
    """The paths and names of a text in order of appearance, each with how telling it is.

    Args:
        text: It.
        known: What words name, for the next text of the same part.
    """
    known = {} if known is None else known
    found: dict[str, int] = {}
    for word in dict.fromkeys(_words(text)):
        names = known.get(word)
        if names is None:
            names = known[word] = _named(word)
        if names:
            found.update([each for each in names if found.get(each[0], 0) < each[1]])
    traced = _traced(text) if _TRACE in text else ()
    found.update([(name, DEFINED) for name in (*_defined(text), *traced) if _is_word(name)])
    return found


def _named(word: str) -> Names:
    """What a word names, with how telling it is: a path; or a name, and members of it."""
    if _is_plain(word) or len(word) > LONGEST_WORD:
        return ()
    bare = word.rstrip(_BEHIND)
    if "/" in bare or ("." in bare and is_file(bare)):
        return ((bare, CALLED if "://" in bare else PATH),) if identifies(bare) else ()
    first, *members = bare.split(".")
    names = [(name, NAMED) for name in members if _is_word(name)]
    if word[-1] == "(":
        last = members[-1] if members else first
        return (*names, (last, CALLED)) if _is_word(last) else tuple(names)
    return (*names, (first, NAMED)) if _is_name(first) else tuple(names)
