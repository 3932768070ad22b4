"""Results that tell of a failure."""

import re
from typing import Final

#: Characters at a result's beginning and end that tell of one.
_EDGE: Final = 400
_WRONG: Final = re.compile(
    r"""^[\s*\#>\[(-]{0,4}(?:error|exception|traceback|fatal|failed|failure)\b
      | "(?:error|errors|exception)"\s?:\s?(?!\s*(?:null|false|""|\[\]|\{\}))
      | <returncode>(?!0<) | \bTraceback\ \(most\ recent
      | ^[\w.]{0,120}(?:Error|Exception):
      | ^[^\s:]{1,80}:\ (?:line\ \d{1,6}:\ )?
        [^\n]{0,120}(?:command\ not\ found|No\ such\ file|Permission\ denied)
    """,
    re.VERBOSE | re.MULTILINE,
)
_BEGINS: Final = re.compile(r"\s{0,20}(?:error|exception|fatal|failed)\b")
#: No failure is told of without one of these, in small letters.
_SIGNS: Final = (
    *("error", "exception", "traceback", "fatal", "fail", "returncode"),
    *("not found", "no such", "denied"),
)


def is_wrong(result: str) -> bool:
    """True if a result tells of a failure, by its beginning and its end."""
    edges = result if len(result) <= 2 * _EDGE else f"{result[:_EDGE]}\n{result[-_EDGE:]}"
    small = edges.lower()
    if not any(map(small.__contains__, _SIGNS)):
        return False
    return _BEGINS.match(small) is not None or _WRONG.search(edges) is not None
