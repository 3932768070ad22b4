"""Images and files of a chat or Responses body, for a model that cannot see them; pure.

A line stands in place of each. An agent sends them again with every turn, so an upstream that
refuses one ends its session.

Source: OpenAI API reference, chat and Responses, content parts (2026-11).
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from proxy.catalog.entries import Route
from proxy.prefix.prompts.objects import Unplannable, members, write_object
from proxy.providers.lenient import UNREADABLE
from proxy.records.call import Call

UNSEEN_NOTE: Final = "left out images and files: the model cannot see them"
#: The lists of a body whose elements are said to the model, and what a text is called in each.
LISTS: Final = {"messages": b'"text"', "input": b'"input_text"'}
CONTENTS: Final = ("content", "output")
_SUBJECTS: Final = {
    b'"image_url"': "An image",
    b'"input_image"': "An image",
    b'"file"': "A file",
    b'"input_file"': "A file",
}
_ANY: Final = re.compile(b"|".join(_SUBJECTS))
_UNREADABLE: Final = (Unplannable, *UNREADABLE)
_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode


def can_see(route: Route) -> bool:
    """True if a route's model sees images and reads files, or nobody said that it does not."""
    return route.can is None or "vision" in route.can


def unseen_line(subject: str) -> str:
    """The line in place of a part, such as "An image"."""
    return f"({subject} was left out: this model cannot see it.)"


def without_unseen_parts(call: Call, route: Route) -> Call:
    """The call with a line in place of each part that is no text; unmodified where it has none.

    A body that cannot be read is left to the upstream to judge.
    """
    if can_see(route) or not _ANY.search(call.body):
        return call
    try:
        fields = members(call.body)
        changed = {
            name: _with_lines(raw, LISTS[name]) if name in LISTS else raw
            for name, raw in fields.items()
        }
    except _UNREADABLE:
        return call
    if changed == fields:
        return call
    return msgspec.structs.replace(call, body=write_object(changed))


def _with_lines(raw: bytes, text: bytes) -> bytes:
    """The list of messages or items, each with lines in place of its parts."""
    return map_elements(raw, partial(_message_with_lines, text=text), _ANY.search)


def _message_with_lines(raw: bytes, text: bytes) -> bytes:
    fields = members(raw)
    changed = {
        name: map_elements(value, partial(_line_or_part, text=text), _ANY.search)
        if name in CONTENTS
        else value
        for name, value in fields.items()
    }
    return raw if changed == fields else write_object(changed)


def _line_or_part(raw: bytes, text: bytes) -> bytes:
    """The part; a line in its place where it is an image or a file."""
    subject = _SUBJECTS.get(members(raw).get("type", b""))
    if subject is None:
        return raw
    return write_object({"type": text, "text": msgspec.json.encode(unseen_line(subject))})


def map_elements(
    raw: bytes, change: Callable[[bytes], bytes], may_change: Callable[[bytes], object]
) -> bytes:
    """The list with the objects changed that may have to be; anything else unmodified."""
    if raw[:1] != b"[":
        return raw
    before = [bytes(element) for element in _elements(raw)]
    after = [
        change(element) if element[:1] == b"{" and may_change(element) else element
        for element in before
    ]
    return raw if after == before else b"[" + b",".join(after) + b"]"
