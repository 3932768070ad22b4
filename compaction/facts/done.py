"""Results that tell of a change."""

import re
from typing import Final

#: What tools say of a change; only looked for where a result begins.
_DONE: Final = re.compile(
    r"\b(?:success\w*|(?:has|have) been|was|were) (?:\w+ ){0,2}"
    r"(?:booked|cancell?ed|created|updated|deleted|removed|sent|added|saved|moved|paid|transferred)\b",
)
#: None of that is said without one of these.
_SIGNS: Final = ("success", " been ", "was ", "were ")
#: Characters of a result that are searched for that.
_HEAD: Final = 300


def is_done(result: str) -> bool:
    """True if the beginning of a result says that something was changed."""
    small = result[:_HEAD].lower()
    return any(map(small.__contains__, _SIGNS)) and _DONE.search(small) is not None
