"""References to texts that a team keeps at the gateway, or has fetched, in the content of a body.

::

    {"type": "thriftgate.ref", "name": "handbook", "version": 3}
    {"type": "thriftgate.fetch", "url": "https://docs.example.com/guides/refunds"}

Each stands where a block of text may stand, and becomes one, in the words of the body's API. A
``cache_control`` beside it stays.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

import msgspec
import orjson

from proxy.errors import CallerError

#: Every reference holds it.
_MARK: Final = b'"thriftgate.'
_REFERENCE: Final = "thriftgate.ref"
_FETCH: Final = "thriftgate.fetch"
_MAX_REFERENCES: Final = 64
_MAX_URL_CHARS: Final = 2_048
_MAX_SHOWN_CHARS: Final = 200
_MAX_VERSION: Final = 1 << 31
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_URL: Final = re.compile(r"https?://[A-Za-z0-9.-]+(:\d{1,5})?/[!-~]*")
#: Lists of a body in which content may stand: of chat and Messages, of Messages, of Responses.
_CONTENT_LISTS: Final = ("messages", "system", "input")
#: Content within content: a tool's result within a message of Anthropic's API.
_MAX_DEPTH: Final = 3


class StoredText(msgspec.Struct, frozen=True):
    """A text that the team stored."""

    name: str
    version: int

    def __str__(self) -> str:
        return f"{self.name}, version {self.version}"


class FetchedPage(msgspec.Struct, frozen=True):
    """A page that is fetched for the call."""

    url: str

    def __str__(self) -> str:
        """The address without its query, which may hold a secret."""
        return self.url.partition("?")[0][:_MAX_SHOWN_CHARS]


ContextReference = StoredText | FetchedPage


class _Place(msgspec.Struct, frozen=True):
    """A reference's place in a body: the list that holds it, and the block that it becomes."""

    blocks: list[Any]
    block: dict[str, Any]
    reference: ContextReference
    block_type: str


class BodyTemplate(msgspec.Struct, frozen=True):
    """A body that was read, with references in the places of texts.

    Attributes:
        references: Each once, in the order of the body.
    """

    _document: Any
    _places: tuple[_Place, ...]

    @property
    def references(self) -> tuple[ContextReference, ...]:
        """Each reference once, in the order of the body."""
        return tuple(dict.fromkeys(place.reference for place in self._places))

    def size_with(self, texts: Mapping[ContextReference, bytes]) -> int:
        """Bytes of all texts where they stand, one that is named twice twice."""
        return sum(len(texts.get(place.reference, b"")) for place in self._places)

    def resolve(self, texts: Mapping[ContextReference, bytes]) -> bytes:
        """The body with blocks of text in place of the references.

        Args:
            texts: Texts as strings in JSON; a reference without one is left out.

        Raises:
            CallerError: If nothing is left of a message's content, or it is nested too deeply.
        """
        for place in self._places:
            index = next(i for i, block in enumerate(place.blocks) if block is place.block)
            if (text := texts.get(place.reference)) is None:
                del place.blocks[index]
                _check_not_empty(place)
                continue
            marks = {key: mark for key, mark in place.block.items() if key == "cache_control"}
            text_block = {"type": place.block_type, "text": orjson.Fragment(text), **marks}
            place.blocks[index] = text_block
        try:
            return orjson.dumps(self._document)
        except TypeError as error:
            raise _invalid("A body with references is nested too deeply.") from error


def may_hold_references(body: bytes) -> bool:
    """True if a body may have a reference; one search through its bytes."""
    return _MARK in body


def read_references(body: bytes, endpoint: str) -> BodyTemplate | None:
    """The body and its references; None where it has none, or is no JSON.

    Raises:
        CallerError: If a reference is malformed, or there are too many.
    """
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(document, dict):
        return None
    places = tuple(_places_in(document, endpoint))
    if len(places) > _MAX_REFERENCES:
        raise _invalid(f"The body has {len(places)} references; {_MAX_REFERENCES} are allowed.")
    return BodyTemplate(document, places) if places else None


def prefix_of(url: str, prefixes: tuple[str, ...]) -> str:
    """The prefix that allows a URL; "" where none does.

    What leads out of a folder does not: neither ``..`` nor an encoded dot, slash or backslash.
    """
    path = url.partition("://")[2].partition("/")[2].partition("?")[0]
    steps = path.split("/")
    is_plain = unquote(path) == path and "\\" not in path and not {".", ".."} & set(steps)
    return next((prefix for prefix in prefixes if is_plain and url.startswith(prefix)), "")


def _places_in(document: dict[str, Any], endpoint: str) -> Iterator[_Place]:
    is_responses = endpoint.startswith("responses")
    for key in _CONTENT_LISTS:
        blocks = document.get(key)
        if isinstance(blocks, list):
            yield from _places_of(blocks, "input_text" if is_responses else "text", _MAX_DEPTH)


def _places_of(blocks: list[Any], block_type: str, depth: int) -> Iterator[_Place]:
    for block in blocks:
        if not isinstance(block, dict):
            continue
        kind, content = block.get("type"), block.get("content")
        if isinstance(kind, str) and kind in {_REFERENCE, _FETCH}:
            yield _Place(blocks, block, _read(block), block_type)
        elif isinstance(content, list) and depth:
            is_answer = block_type == "input_text" and block.get("role") == "assistant"
            inner_type = "output_text" if is_answer else block_type
            yield from _places_of(content, inner_type, depth - 1)


def _read(block: Mapping[str, Any]) -> ContextReference:
    """The reference that a block is.

    Raises:
        CallerError: If it is malformed.
    """
    names = set(block) - {"type", "cache_control"}
    if block["type"] == _FETCH:
        url = block.get("url")
        if names != {"url"} or not isinstance(url, str) or not _is_url(url):
            raise _invalid(f'A {_FETCH} has "url" alone: an http or https address.')
        return FetchedPage(url)
    name, version = block.get("name"), block.get("version")
    is_name = isinstance(name, str) and _NAME.fullmatch(name) is not None
    is_version = type(version) is int and 0 < version < _MAX_VERSION
    if names != {"name", "version"} or not is_name or not is_version:
        raise _invalid(f'A {_REFERENCE} has "name" and "version", the number that PUT answered.')
    return StoredText(str(name), int(version or 0))


def _is_url(url: str) -> bool:
    return len(url) <= _MAX_URL_CHARS and "#" not in url and _URL.fullmatch(url) is not None


def _check_not_empty(place: _Place) -> None:
    if not place.blocks:
        raise CallerError(
            f"{place.reference} could not be had in time, and nothing else stands in its message.",
            code="context_unavailable",
            status=424,
        )


def _invalid(message: str) -> CallerError:
    return CallerError(message, code="invalid_reference")
