"""The caller's own cache markers in an OpenAI-type body, as the cache of its route takes them.

==========================  ======================================================
cache of the route          markers
==========================  ======================================================
OpenAI from GPT-5.6 on      ``cache_control`` becomes ``prompt_cache_breakpoint``
another without markers     taken off: most of these APIs refuse fields unknown to them
another, or an unknown one  unmodified
==========================  ======================================================

Source: OpenAI, prompt caching guide (2026-09): models before GPT-5.6 refuse the new fields;
Anthropic, prompt caching (2026-08).
"""

import re
from collections.abc import Mapping
from functools import partial
from typing import Final

import msgspec

from proxy.catalog.entries import REGIMES
from proxy.prefix.prompts.marks import MARKS, may_mark
from proxy.prefix.prompts.objects import Unplannable, members, write_object
from proxy.providers.fitting.unseen_parts import CONTENTS, LISTS, map_elements

_OPENAI: Final = "openai-breakpoint"
_ANTHROPIC: Final = "anthropic-breakpoint"
_CONTROL, _BREAKPOINT = MARKS
_OPTIONS: Final = "prompt_cache_options"
#: Contents of a body that may have to change; found in one pass.
_FOREIGN: Final = re.compile(rb'"cache_control"')
_ANY: Final = re.compile(rb'cache_(?:control|breakpoint|options)"')
#: 5m costs what OpenAI's 30m does, 1h less than its 12h does: so a caller never pays more for a
#: write than it asked to, and what asked for five minutes lives for thirty.
_POINT: Final = b'{"mode":"explicit"}'
#: Types of parts that may carry a breakpoint.
#: Source: OpenAI API reference, chat and Responses (2026-11).
_PARTS: Final = frozenset(
    {"text", "image_url", "input_audio", "file", "input_text", "input_image", "input_file"}
)
_NULL: Final = b"null"
_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_text = msgspec.json.Decoder(str).decode


class TranslatedMarks(msgspec.Struct, frozen=True):
    """A body, and what was changed in it, in short sentences."""

    body: bytes
    notes: tuple[str, ...] = ()


def translate_marks(body: bytes, regime: str) -> TranslatedMarks:
    """The body with its markers as this kind of cache takes them; unmodified where it has none.

    Whatever else is in it stays as it was written. A body that cannot be read is left to the
    upstream to judge.

    Args:
        regime: The name of its route's cache rules; "" for unknown.
    """
    if regime not in REGIMES or regime == _ANTHROPIC:
        return TranslatedMarks(body)
    if not (_FOREIGN if regime == _OPENAI else _ANY).search(body):
        return TranslatedMarks(body)
    reader = _Reader(translates=regime == _OPENAI)
    try:
        given = members(body)
        changed = reader.fields(given)
    except (Unplannable, msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return TranslatedMarks(body)
    return TranslatedMarks(body if changed == given else write_object(changed), reader.notes())


class _Reader(msgspec.Struct):
    """Translates or removes cache markers, and counts both.

    Attributes:
        translates: True if Anthropic's markers are said as OpenAI's.
        was_optioned: True if options were taken off.
    """

    translates: bool
    as_breakpoints: int = 0
    dropped: int = 0
    was_optioned: bool = False

    def fields(self, given: Mapping[str, bytes]) -> dict[str, bytes]:
        """The body's fields."""
        changed = dict(given)
        # It asks for the end of the prompt to be stored, as OpenAI does with every prompt.
        changed.pop(_CONTROL, None)
        if not self.translates:
            self.was_optioned = changed.pop(_OPTIONS, _NULL) != _NULL
        if "tools" in changed:
            changed["tools"] = map_elements(changed["tools"], self._tool, may_mark)
        for name, text in LISTS.items():
            if name in changed:
                changed[name] = map_elements(changed[name], partial(self._message, text), may_mark)
        return changed

    def notes(self) -> tuple[str, ...]:
        """The changes that were made, a sentence each."""
        notes = []
        if self.as_breakpoints:
            count = self.as_breakpoints
            notes.append(f"said {count} cache markers as breakpoints, stored for 30 minutes")
        if self.dropped:
            notes.append(f"dropped {self.dropped} cache markers: this model takes none there")
        if self.was_optioned:
            notes.append(f"dropped {_OPTIONS}: this model has none")
        return tuple(notes)

    def _message(self, text: bytes, raw: bytes) -> bytes:
        """A message, or an item of the Responses API."""
        given = members(raw)
        takes = self.translates and given.get("role") != b'"assistant"'
        changed = {name: value for name, value in given.items() if name not in MARKS}
        for name in CONTENTS:
            if name in changed:
                changed[name] = map_elements(changed[name], partial(self._part, takes), may_mark)
        if "tool_calls" in changed:
            changed["tool_calls"] = map_elements(
                changed["tool_calls"], self._without_marks, may_mark
            )
        if _is_marked(given):
            closed = _mark_last_part(changed, text) if takes else None
            self.as_breakpoints += closed is not None
            self.dropped += closed is None
            changed = closed or changed
        return raw if changed == given else write_object(changed)

    def _part(self, takes: bool, raw: bytes) -> bytes:  # noqa: FBT001 - bound before it is called
        """A content part."""
        given = members(raw)
        if not takes or _kind(given) not in _PARTS or not _is_marked(given):
            return self._without_marks(raw)
        if _CONTROL not in given:
            return raw
        self.as_breakpoints += _BREAKPOINT not in given
        changed = {name: value for name, value in given.items() if name != _CONTROL}
        return write_object({**changed, _BREAKPOINT: _breakpoint_of(given)})

    def _tool(self, raw: bytes) -> bytes:
        """A tool's definition; its function may carry a marker of its own."""
        outer = self._without_marks(raw)
        given = members(outer)
        inner = given.get("function", _NULL)
        bare = self._without_marks(inner) if inner[:1] == b"{" and may_mark(inner) else inner
        return outer if bare == inner else write_object({**given, "function": bare})

    def _without_marks(self, raw: bytes) -> bytes:
        """The object without markers of its own."""
        given = members(raw)
        changed = {name: value for name, value in given.items() if name not in MARKS}
        self.dropped += _is_marked(given)
        return raw if len(changed) == len(given) else write_object(changed)


def _is_marked(members_found: Mapping[str, bytes]) -> bool:
    return any(members_found.get(name, _NULL) != _NULL for name in MARKS)


def _mark_last_part(message: Mapping[str, bytes], text: bytes) -> dict[str, bytes] | None:
    """The message with a breakpoint on its last part; None where none can stand there."""
    name = next((name for name in CONTENTS if message.get(name, _NULL) != _NULL), CONTENTS[0])
    content = message.get(name, _NULL)
    if content[:1] == b'"':
        content = b'[{"type":' + text + b',"text":' + content + b"}]"
    parts = [bytes(element) for element in _list(content)] if content[:1] == b"[" else []
    last = members(parts[-1]) if parts and parts[-1][:1] == b"{" else {}
    if _kind(last) not in _PARTS:
        return None
    parts[-1] = write_object({**last, _BREAKPOINT: _breakpoint_of(last)})
    return {**message, name: b"[" + b",".join(parts) + b"]"}


def _breakpoint_of(part: Mapping[str, bytes]) -> bytes:
    """The breakpoint that the part has; a new one where it has none."""
    own = part.get(_BREAKPOINT, _NULL)
    return _POINT if own == _NULL else own


def _kind(part: Mapping[str, bytes]) -> str:
    raw = part.get("type", _NULL)
    return _text(raw) if raw[:1] == b'"' else ""
