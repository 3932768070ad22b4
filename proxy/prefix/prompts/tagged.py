"""True if JSON may hold the tags that ``proxy.prefix.layouts.declared_slots`` reads; cheap."""

from typing import Final

#: A tag as JSON may spell it: some writers escape ``<``.
_OPENS: Final = (b"<tg:", b"\\u003ctg:", b"\\u003Ctg:")
_NAME: Final = b"tg:"


def may_hold_tags(raw: bytes) -> bool:
    """True if a body, or a message, may hold tags."""
    return _NAME in raw and any(opening in raw for opening in _OPENS)
