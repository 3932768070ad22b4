"""The model's name in a form (``multipart/form-data``), replaced without touching the rest of it.

Source: RFC 7578, section 4 (2015-07); RFC 2046, section 5.1.1 (1996-11).
"""

import re
from collections.abc import Iterator
from typing import Final

from proxy.errors import CallerError

_MEDIA: Final = "multipart/form-data"
_BOUNDARY: Final = re.compile(r';\s*boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))', re.IGNORECASE)
_IS_MODEL: Final = re.compile(
    rb'^content-disposition\s*:[^\r\n]*;\s*name\s*=\s*(?:"model"|model(?=[\s;]))',
    re.IGNORECASE | re.MULTILINE,
)
_MODEL_HEAD: Final = b'\r\nContent-Disposition: form-data; name="model"\r\n\r\n'
#: Parts that are looked at; no endpoint of the OpenAI API takes as many files and fields.
MAX_PARTS: Final = 1_000
#: Bytes of a part's headers that are looked at.
_MAX_HEADERS: Final = 4_096


def is_form(content_type: str) -> bool:
    """True if a body of this content type is a form."""
    return content_type.partition(";")[0].strip().lower() == _MEDIA


def with_model(body: bytes, content_type: str, model: str) -> bytes:
    """The form with this model in place of the one it names, or in front where it names none.

    What is no form is left as it is.

    Args:
        model: Printable.

    Raises:
        CallerError: If it has more parts than are looked at.
    """
    boundary_match = _BOUNDARY.search(content_type)
    if boundary_match is None or not is_form(content_type):
        return body
    boundary = b"--" + (boundary_match[1] or boundary_match[2]).encode("latin-1", "replace")
    first = 0
    if not body.startswith(boundary):
        line = body.find(b"\r\n" + boundary)
        if line < 0:
            return body
        first = line + 2
    value, pieces, done = model.encode(), [], 0
    for start, end in _model_values(body, boundary, first):
        pieces += [body[done:start], value]
        done = end
    if not pieces:
        pieces, done = [body[:first], boundary, _MODEL_HEAD, value, b"\r\n"], first
    return b"".join((*pieces, body[done:]))


def _model_values(body: bytes, boundary: bytes, position: int) -> Iterator[tuple[int, int]]:
    """Starts and ends of the values of the field.

    Args:
        position: Position of the first one.
    """
    for _ in range(MAX_PARTS):
        line = body.find(b"\r\n", position + len(boundary))
        following = body.find(b"\r\n" + boundary, position + len(boundary))
        if line < 0 or following < 0:
            return
        value = body.find(b"\r\n\r\n", line, min(line + _MAX_HEADERS, following)) + 4
        if value > line and _IS_MODEL.search(body[line:value]):
            yield value, following
        position = following + 2
    raise CallerError(
        f"The form has more than {MAX_PARTS:,} parts. Send fewer.", code="too_many_parts"
    )
