"""The words by which a caller says how a cache may answer: ``cache-control``, and tags; pure.

Source: RFC 9111, section 5.2.1, request directives (2022-06).
"""

import re
from functools import lru_cache
from typing import Final

import msgspec

_MAX_HEADER_CHARS: Final = 256
#: Headers that are remembered; most callers send the same few.
_MAX_CACHED_HEADERS: Final = 64
_MAX_TAGS: Final = 8
_TAG: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,63}")


class CacheControl(msgspec.Struct, frozen=True):
    """A caller's wishes.

    Attributes:
        no_store: True if the call is neither answered from the cache nor its answer kept.
        no_cache: True if its answer is kept, and itself answered anew.
        max_age: Seconds that an answer may be old; None for as old as the policy allows.
    """

    no_store: bool = False
    no_cache: bool = False
    max_age: int | None = None


ANYTHING: Final = CacheControl()


@lru_cache(maxsize=_MAX_CACHED_HEADERS)
def parse_cache_control(header: str) -> CacheControl:
    """The wishes in a header; what it says beside them is passed over."""
    control = ANYTHING
    for word in header[:_MAX_HEADER_CHARS].lower().split(","):
        name, _, value = word.strip().partition("=")
        if name == "no-store":
            control = msgspec.structs.replace(control, no_store=True)
        elif name == "no-cache":
            control = msgspec.structs.replace(control, no_cache=True)
        elif name == "max-age" and (seconds := value.strip('"')).isascii() and seconds.isdecimal():
            control = msgspec.structs.replace(control, max_age=int(seconds))
    return control


def parse_tags(header: str) -> tuple[str, ...]:
    """The tags in a header, at most eight, each once; what is no tag is left out."""
    words = (word.strip() for word in header[: _MAX_TAGS * 66].split(","))
    return tuple(dict.fromkeys(word for word in words if _TAG.fullmatch(word)))[:_MAX_TAGS]
