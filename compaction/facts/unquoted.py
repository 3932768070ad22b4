"""JSON with less around its values: for a model to read, not for a parser."""

import re
from typing import Final

#: A string that is clear without quotes: a name, an id, a date. An opening quote never follows a
#: backslash, and a closing one is never followed by a letter or a digit.
_CLEAR: Final = re.compile(
    r'"(?<!\\")(?!(?:null|true|false)")'
    r'(~|[A-Za-z_][\w./@+:-]{0,200}|\d[\d.]{0,20}[:/@-][\w./@+:-]{0,200}|\d{0,20}[A-Za-z_][\w./@:+-]{0,200})"'
)
_STRING: Final = re.compile(r'("(?<!\\")[^"\\]*(?:\\.[^"\\]*)*")')


def unquoted(text: str) -> str:
    """JSON in one line with quotes only where they are needed, and spaces for commas.

    Any other text comes back as it is.
    """
    if text[:1] not in "[{" or text[-1:] not in "]}":
        return text
    pieces = _STRING.split("".join(_CLEAR.split(text)))
    pieces[::2] = [piece.replace("],[", "; ").replace(",", " ") for piece in pieces[::2]]
    return "".join(pieces)
