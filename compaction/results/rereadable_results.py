"""Summarises a result that the agent can read again, such as a file: its errors and its names."""

import re
from bisect import bisect
from collections.abc import Sequence
from itertools import accumulate, filterfalse, zip_longest
from typing import Final

from compaction.results.log_text import compress_log
from compaction.results.result_lines import one_line
from compaction.results.value_leaves import MAX_WORD_CHARS, TRAILING, is_identifier

#: Ranks of names by their kind; paths are looked up again most often.
PATH_RANK: Final = 4
DEFINED_RANK: Final = 3
CALLED_RANK: Final = 2
NAMED_RANK: Final = 1

#: Names, each with its rank.
RankedNames = tuple[tuple[str, int], ...]

#: Maximum characters of an error's line, and maximum such lines kept.
_MAX_FAULT_CHARS: Final = 240
MAX_FAULT_LINES: Final = 3
#: Maximum characters at a text's end that are searched for errors: the end shows the outcome.
_SCANNED_CHARS: Final = 64_000
#: Maximum characters that are searched for lines that are less certain to be errors.
_SCANNED_WEAK_CHARS: Final = 8_000

#: Regular expression for the beginning of an exception or an error in a terminal or a log.
_head = re.compile(
    r"(?:Caused by: |Un(?:caught|handled) |Exception in thread \"[^\"\n]{0,80}\" |E {1,12})?"
    r"(?:[A-Za-z_][\w.$]{0,120})?(?:Error|Exception)(?: \[\w{1,40}\])?(?::(?:\s|$)|$)"
    r"|E {2,12}(?:assert\b|Failed: |[A-Za-z_][\w.]{0,80}: )"
    r"|(?:\[?(?:\d{2,4}[-/]\d\d[-/]\d{2,4}|\d\d:\d\d:\d\d|[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:)"
    r"[^\n]{0,80}?)?"
    r"(?:\b|\[)(?:ERROR|FATAL|CRITICAL|SEVERE|PANIC)\b(?![ ]?[=(,.])"
    r"|(?:error|fatal|panic|fatal error)(?:\[\w{1,20}\])?: |thread '[^'\n]{0,80}' panicked"
    r"|[\w./@+-]{1,200}(?::\d{1,7}(?::\d{1,7})?|\(\d{1,7},\d{1,7}\)): (?:fatal )?error\b"
    r"|make(?:\[\d{1,3}\])?: \*\*\* |npm ERR! |Segmentation fault|Killed$|Command timed out"
).match
_RULER: Final = " \t=*"
#: Regular expressions for a failed test, and for the number of failed tests.
_failed = re.compile(r"FAILED[ :(]|FAIL: |--- FAIL: |FAIL\s+[\w./-]|not ok \d").match
_summed = re.compile(
    r"[=\s]{0,80}(?:Tests?:? {1,12}|Found )?(?:\d{1,6} [a-z]{1,12}, ){0,6}[1-9]\d{0,5} "
    r"(?:failed|failures?|errors?)\b|test result: FAILED|FAILED \((?:failures|errors)="
).match
#: Regular expression for words that may report an error in a result that is known to have failed.
_fault = re.compile(
    r"^(?:E {1,8})?(?:[\w.]{0,80}(?:Error|Exception)\b(?! [a-z])"
    r"|(?:error|ERROR|FATAL|FAILED|fatal|panic)[:\s])"
    r"|\b(?:[Ee]rror|ERROR|[Ff]atal): |command not found|No such file|ermission denied"
    r"|annot find |\bnot found\b"
).search
_KINDS: Final = (_failed, _head, _summed)
_FAILED_TESTS, _ERRORS = 0, 1
#: Strings of which every line with an error holds at least one.
_SIGNS: Final = (
    *("rror", "xception", "ERROR", "FATAL", "FAIL", "atal", "panic", "PANIC", "CRITICAL", "SEVERE"),
    *("not found", "No such", "denied", "annot find", "raceback", "failed", "failure", "E   "),
    *("not ok", "***", "npm ERR", "Segmentation", "Killed", "timed out"),
)

#: The same of one line, whose indent may be shorter.
_LINE_SIGNS: Final = (*_SIGNS, "E  ")

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
    r"(?=\w{4,81}\Z)(?=\w*[^\W_]_|_+[A-Za-z]|\w*[a-z]\w*[A-Z]|\w*\d)[A-Za-z_]\w{3,80}"
).fullmatch
_is_plain = re.compile(r"[A-Za-z]?[a-z]*[.]?|[\d.-]*|<.*").fullmatch
_BEHIND: Final = TRAILING + "("
_is_word = re.compile(r"[A-Za-z_]\w{3,80}").fullmatch


def fault_lines(text: str, max_lines: int = MAX_FAULT_LINES, *, is_failure: bool = True) -> str:
    """The last lines that say what went wrong, on one line; "" for none.

    Failed tests, errors and how many there were each have a line where there is room for it. Where
    a failed test has one, the others are named, too.

    Args:
        text: Text of the result.
        is_failure: True if it is known to have failed; else only what can mean nothing else counts.
    """
    if not any(map(text.__contains__, _SIGNS)):
        return ""
    lines = list(dict.fromkeys(compress_log(text[-_SCANNED_CHARS:]).split("\n")))
    indexes_by_kind = _certain_fault_lines(lines)
    if is_failure and not indexes_by_kind[_ERRORS]:
        lines = list(
            dict.fromkeys(
                [line.strip() for line in compress_log(text[-_SCANNED_WEAK_CHARS:]).split("\n")]
            )
        )
        indexes_by_kind = _certain_fault_lines(lines)
        indexes_by_kind[_ERRORS] = [
            index for index, line in enumerate(lines) if _fault(line[:_MAX_FAULT_CHARS])
        ]
    chosen = _latest_of_each_kind(indexes_by_kind, max_lines)
    shown = {index: _strip_rulers(lines[index]) for index in chosen}
    if not chosen.isdisjoint(indexes_by_kind[_FAILED_TESTS]):
        shown |= _other_failed_tests(lines, indexes_by_kind[_FAILED_TESTS], chosen)
    return one_line("\n".join([shown[index] for index in sorted(shown)]))


def _other_failed_tests(
    lines: Sequence[str], indexes: Sequence[int], chosen: set[int]
) -> dict[int, str]:
    """The lines of failed tests beside those that are chosen, as far as the test's name."""
    room = _MAX_FAULT_CHARS
    named: dict[int, str] = {}
    for index in reversed(indexes):
        name = _strip_rulers(lines[index]).partition(" - ")[0]
        if index not in chosen and len(name) < room:
            room -= len(name)
            named[index] = name
    return named


def _strip_rulers(line: str) -> str:
    """A line without the rulers around it and the room within it."""
    return " ".join(line[: 2 * _MAX_FAULT_CHARS].strip(_RULER).split())[:_MAX_FAULT_CHARS]


def _certain_fault_lines(lines: Sequence[str]) -> list[list[int]]:
    """The places of the lines of each kind that can mean nothing else."""
    indexes_by_kind: list[list[int]] = [[] for _ in _KINDS]
    signed = _signed_lines(lines)
    traced = False
    for index, line in enumerate(lines):
        if line.startswith(_TRACE):
            traced = True
        elif traced and line[:1].strip():
            indexes_by_kind[_ERRORS].append(index)
            traced = False
        elif index in signed:
            kind = next((kind for kind, tells in enumerate(_KINDS) if tells(line)), None)
            if kind is not None:
                indexes_by_kind[kind].append(index)
    return indexes_by_kind


def _signed_lines(lines: Sequence[str]) -> set[int]:
    """The places of the lines that hold a sign of an error; the others need not be matched."""
    text = "\n".join(lines)
    ends = list(accumulate([len(line) + 1 for line in lines]))
    signed: set[int] = set()
    for sign in _LINE_SIGNS:
        place = text.find(sign)
        while place >= 0:
            index = bisect(ends, place)
            signed.add(index)
            place = text.find(sign, ends[index])
    return signed


def _latest_of_each_kind(indexes_by_kind: Sequence[Sequence[int]], max_lines: int) -> set[int]:
    """The last of each kind, then the last but one, until there are enough."""
    turns = zip_longest(*(reversed(indexes) for indexes in indexes_by_kind))
    ordered = dict.fromkeys([index for turn in turns for index in turn if index is not None])
    return set(list(ordered)[:max_lines])


def shown_names(text: str) -> RankedNames:
    """The paths and names of a text in order of appearance, each with how telling it is."""
    ranks: dict[str, int] = {}
    for word in filterfalse(_is_plain, dict.fromkeys(_words(text))):
        for name, rank in _names_of_word(word):
            if ranks.get(name, 0) < rank:
                ranks[name] = rank
    traced = _traced(text) if _TRACE in text else ()
    ranks.update([(name, DEFINED_RANK) for name in (*_defined(text), *traced) if _is_word(name)])
    return tuple(ranks.items())


def _names_of_word(word: str) -> RankedNames:
    """The names in a word with their ranks: a path; or a name, and members of it."""
    if len(word) > MAX_WORD_CHARS:
        return ()
    bare = word.rstrip(_BEHIND)
    if "/" in bare or ("." in bare and is_file(bare)):
        return ((bare, CALLED_RANK if "://" in bare else PATH_RANK),) if is_identifier(bare) else ()
    first, *members = bare.split(".")
    names = [(name, NAMED_RANK) for name in members if _is_word(name)]
    if word[-1] == "(":
        last = members[-1] if members else first
        return (*names, (last, CALLED_RANK)) if _is_word(last) else tuple(names)
    return (*names, (first, NAMED_RANK)) if _is_name(first) else tuple(names)
