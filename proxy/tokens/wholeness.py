"""Checks if a prompt's tokens can be counted from its body alone, or from its texts alone."""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

_ABSENT: Final = msgspec.Raw(b"")
_NOTHING: Final = frozenset({b"", b"null"})
#: Names and types, as they begin, where the weight is not the tokenizer's or lies elsewhere:
#: pictures, sound, files, what tools of the provider's bring in, what it keeps.
#: Source: OpenAI API reference, chat and responses; Anthropic's, messages; Azure, on your data;
#: xAI, live search; OpenRouter, web search; Gemini, context caching and grounding (2026-11).
_ELSEWHERE_NAMES: Final = (
    b'"audio" "audio_url" "cached_content" "code_interpreter "computer" "computer_ '
    b'"container_ "data_sources" "document" "encrypted_content" "file" "file_ '
    b'"google_search "image" "image_ "input_audio" "input_file" "input_image" "mcp" '
    b'"plugins" "search_parameters" "url_context" "video" "video_url" "web_search'
).split()
#: Likewise of what is in the body, and shown to the model in words that are not published.
_FRAMED_NAMES: Final = (
    b'"custom" "custom_tool_ "function" "function_call "functions" "json_schema" "schema" '
    b'"tool" "tool_ "tools"'
).split()


def _any_of(names: Iterable[bytes]) -> re.Pattern[bytes]:
    """A pattern that finds any of the names; ten times faster than one search for each."""
    return re.compile(b'"(?:' + b"|".join(re.escape(name[1:]) for name in names) + b")")


_ELSEWHERE: Final = _any_of(_ELSEWHERE_NAMES)
_FRAMED_OR_ELSEWHERE: Final = _any_of(_ELSEWHERE_NAMES + _FRAMED_NAMES)
#: An escaped letter or underscore, by which any of these names may hide.
_ESCAPED_LETTER: Final = re.compile(
    rb"(?<!\\)(?:\\\\)*\\u00(?:5f|6[1-9a-f]|7[0-9a])", re.IGNORECASE
)
_ESCAPE: Final = b"\\u00"
#: Items that only name, or may only name, what the provider keeps.
_KEPT: Final = frozenset({"item_reference", "reasoning"})


class _Item(msgspec.Struct):
    """The fields that tell an item of a Responses call from a reference to a stored one."""

    type: str | None = None
    role: msgspec.Raw = _ABSENT


class _Response(msgspec.Struct):
    """The fields of a Responses call that may name what the provider keeps."""

    conversation: msgspec.Raw = _ABSENT
    previous_response_id: msgspec.Raw = _ABSENT
    prompt: msgspec.Raw = _ABSENT
    input: str | list[_Item] | None = None


_RESPONSE: Final = msgspec.json.Decoder(_Response)


def is_whole(body: bytes, endpoint: str) -> bool:
    """True if the body holds all that the model is shown, as text."""
    if _ELSEWHERE.search(body) or _may_hide_names(body):
        return False
    if endpoint != "responses":
        return True
    try:
        response = _RESPONSE.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return False
    references = (response.conversation, response.previous_response_id, response.prompt)
    items = response.input if isinstance(response.input, list) else []
    return all(bytes(raw) in _NOTHING for raw in references) and not any(map(_is_kept, items))


def _may_hide_names(body: bytes) -> bool:
    """True if a name in the body may be written with escapes."""
    return _ESCAPE in body and _ESCAPED_LETTER.search(body) is not None


def _is_kept(item: _Item) -> bool:
    """True if the provider has what the item stands for."""
    return item.type in _KEPT or (not item.type and bytes(item.role) in _NOTHING)


def is_plain(body: bytes) -> bool:
    """True if the body asks with texts alone: no pictures, tools or schemas."""
    return _FRAMED_OR_ELSEWHERE.search(body) is None
