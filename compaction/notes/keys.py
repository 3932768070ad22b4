"""How the notes on a part are named, so that whoever meets the part again finds them."""

from hashlib import blake2b
from typing import Final

#: Changes whenever the instruction or the checks change what notes a part gets.
VERSION: Final = b"1"
_SIZE: Final = 16


def named(before: bytes, here: bytes, *, scope: bytes = b"", model: str = "") -> str:
    """The name of the notes on a part, 32 hexadecimal digits; others' parts have other names.

    The same part of the same conversation has the same name in every process. One message changed
    anywhere up to the part's end gives another.

    Args:
        before: The hash over all messages before the part; b"" for none.
        here: The hash over all messages up to the part's last.
        scope: Whose conversation it is: no notes are shared beyond it.
        model: The model that is asked.
    """
    made = blake2b(digest_size=_SIZE, person=b"notes")
    for piece in (VERSION, scope, before, here, model.encode(errors="replace")):
        made.update(len(piece).to_bytes(8, "big"))
        made.update(piece)
    return made.hexdigest()
