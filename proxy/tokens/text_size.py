"""The size of a prompt's texts, from its bytes alone: a quick estimate of its tokens."""

from typing import Final

#: Bytes of a body for each token of its prompt, about.
BYTES_PER_TOKEN: Final = 4
#: Heads of an image's or file's bytes: the field of Anthropic's and of sound, the head of
#: a data URL. Within a text the field's quotes would be escaped.
_ENCODED_HEADS: Final = (b'"data"', b";base64,")
#: Bytes in which they are looked for at a time, so that no search runs through encoded bytes.
_SEARCHED_BYTES: Final = 8 * 1024
#: Encoded parts that are left out; providers take some hundred images. What follows counts whole.
_MAX_PARTS: Final = 1_000


def text_tokens(body: bytes, *, has_parts: bool = True) -> int:
    """About as many tokens as a body's texts have; its encoded images and files count nothing.

    Args:
        has_parts: False if it is known to have neither images nor files, so that none are sought.
    """
    size, start = len(body), 0
    for _ in range(_MAX_PARTS if has_parts else 0):
        opening = _encoded_start(body, start)
        closing = body.find(b'"', opening)
        if opening < 0 or closing < 0:
            break
        size -= closing - opening
        start = closing + 1
    return size // BYTES_PER_TOKEN


def _encoded_start(body: bytes, start: int) -> int:
    """The place of the first encoded byte from there on; -1 if there is none."""
    field, url = _ENCODED_HEADS
    for begin in range(start, len(body), _SEARCHED_BYTES):
        end = begin + _SEARCHED_BYTES
        named = body.find(field, begin, end + len(field) - 1)
        data_url = body.find(url, begin, named if named >= 0 else end + len(url) - 1)
        if data_url >= 0:
            return data_url + len(url)
        if named >= 0:
            return body.find(b'"', named + len(field)) + 1 or -1
    return -1
