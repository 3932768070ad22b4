"""Content blocks of the Messages API as parts of a chat message.

::

    text                        text
    image: base64, url          image_url
    document: base64 PDF        file
    document: text, blocks      text between tags with its title; its images as they are
    image, PDF                  a line that says it is left out, where the model cannot see
    search_result               text between tags with its title and source

Source: Anthropic, vision, PDF support, search results and Messages API; OpenAI, chat content parts
(2026-11).
"""

from base64 import b64encode
from collections.abc import Iterable
from typing import Final
from xml.sax.saxutils import quoteattr

from msgspec import Raw

from proxy.providers.chat.chat_body import invalid_parameter, is_given, unsupported_parameter
from proxy.providers.fitting.unseen_parts import UNSEEN_NOTE, unseen_line
from proxy.providers.messages.body import BlockSource, Json, MessagesBlock, blocks_of_content
from proxy.providers.messages.target import ChatTarget

_PDF: Final = "application/pdf"
_UNNAMED: Final = "document.pdf"
_FETCH: Final = "This model cannot fetch it: send it in base64."
_KEPT: Final = "This model cannot see files kept by Anthropic: send the content itself in base64."
_KINDS: Final = "send text, image, document or search_result."
_INDEFINITE: Final = {"image": "An image", "document": "A document"}
_CITED: Final = "dropped citations: this model cites no documents"


def user_parts(
    blocks: Iterable[MessagesBlock], path: str, target: ChatTarget, notes: list[str]
) -> list[Json]:
    """The parts of a user's blocks, in order.

    Args:
        blocks: The blocks; none is a tool's result.
        path: Place of their list in the body, such as ``messages[2].content``.
    """
    return [
        part
        for number, block in enumerate(blocks)
        for part in _with_mark(
            _visible_parts(block, f"{path}[{number}]", target, notes), block, target
        )
    ]


def text_parts(blocks: Iterable[MessagesBlock], path: str, target: ChatTarget) -> list[Json]:
    """The parts of blocks that may be text alone, such as those of a system prompt."""
    parts: list[Json] = []
    for number, block in enumerate(blocks):
        if block.type != "text":
            raise invalid_parameter(
                f"{path}[{number}].type", f"{block.type!r} cannot stand there: send text."
            )
        parts += _with_mark([_text(block, f"{path}[{number}]")], block, target)
    return parts


def chat_content(parts: list[Json], target: ChatTarget, *, joins: bool = False) -> str | list[Json]:
    """The content of a message; a single text without a mark stays plain, which all accept.

    Args:
        joins: True if several texts become one, as for tool messages.
    """
    is_one = len(parts) <= 1 or joins or target.plain_text
    if is_one and all(part.keys() == {"type", "text"} for part in parts):
        return "\n\n".join(part["text"] for part in parts)
    return parts


def mark_member(mark: Raw, target: ChatTarget) -> Json:
    """A cache mark as a member; empty where there is none or the cache takes none."""
    return {"cache_control": mark} if target.takes_marks and is_given(mark) else {}


def plain_part(words: str) -> Json:
    """A text part."""
    return {"type": "text", "text": words}


def _with_mark(parts: list[Json], block: MessagesBlock, target: ChatTarget) -> list[Json]:
    """The parts, the last of them with the block's own mark."""
    if parts and (mark := mark_member(block.cache_control, target)):
        return [*parts[:-1], parts[-1] | mark]
    return parts


def _visible_parts(
    block: MessagesBlock, path: str, target: ChatTarget, notes: list[str]
) -> list[Json]:
    """The parts of a block; a line in place of what the model cannot see."""
    if target.sees or not _is_seen(block):
        return _parts_of_block(block, path, target, notes)
    notes.append(UNSEEN_NOTE)
    return [plain_part(unseen_line(_INDEFINITE[block.type]))]


def _parts_of_block(
    block: MessagesBlock, path: str, target: ChatTarget, notes: list[str]
) -> list[Json]:
    if block.type == "text":
        return [_text(block, path)]
    if block.type == "image":
        return [_image(_source(block, path), f"{path}.source")]
    if block.type == "document":
        return _document(block, path, target, notes)
    if block.type == "search_result":
        return _search_result(block, path)
    if block.type == "tool_reference":
        return [plain_part(f"The tool {block.tool_name or ''} is available.")]
    if block.type == "container_upload":
        raise unsupported_parameter(f"{path}.type", _KEPT)
    raise invalid_parameter(f"{path}.type", f"Unknown block {block.type!r}: {_KINDS}")


def _is_seen(block: MessagesBlock) -> bool:
    """True for an image, or a document that is no text."""
    source = block.source if isinstance(block.source, BlockSource) else None
    is_encoded = source is not None and source.type in {"base64", "url", "file"}
    return block.type == "image" or (block.type == "document" and is_encoded)


def _text(block: MessagesBlock, path: str) -> Json:
    if block.text is None:
        raise _incomplete(path, block.type, "text")
    return plain_part(block.text)


def _source(block: MessagesBlock, path: str) -> BlockSource:
    if not isinstance(block.source, BlockSource):
        raise _incomplete(path, block.type, "source")
    return block.source


def _image(source: BlockSource, path: str) -> Json:
    if source.type == "file":
        raise unsupported_parameter(f"{path}.file_id", _KEPT)
    if source.type == "url" and source.url is not None:
        return {"type": "image_url", "image_url": {"url": source.url}}
    if source.type == "base64" and source.data is not None and source.media_type:
        return {
            "type": "image_url",
            "image_url": {"url": f"data:{source.media_type};base64,{source.data}"},
        }
    raise invalid_parameter(
        path, f"`{path}` must be base64 with `media_type` and `data`, or url with `url`."
    )


def _document(block: MessagesBlock, path: str, target: ChatTarget, notes: list[str]) -> list[Json]:
    """A document, after what the caller says about it."""
    source, inside = _source(block, path), f"{path}.source"
    if b"true" in bytes(block.citations):
        notes.append(_CITED)
    if source.type == "file":
        raise unsupported_parameter(f"{inside}.file_id", _KEPT)
    if source.type in {"url", "base64"}:
        parts = [_file(block, _file_data(source, inside, target), target)]
    elif source.type == "text" and source.data is not None and target.takes_extras:
        words = b64encode(source.data.encode(errors="replace")).decode()
        parts = [_file(block, f"data:text/plain;base64,{words}", target)]
    else:
        inner = _document_text(source, inside, target, notes)
        parts = _in_tags("document", {"title": block.title}, inner)
    return [plain_part(block.context), *parts] if block.context else parts


def _file_data(source: BlockSource, path: str, target: ChatTarget) -> str:
    """The content of a PDF as a data URL; its address where the target fetches it."""
    if source.type == "url" and source.url is not None and target.takes_extras:
        return source.url
    if source.type == "url":
        raise unsupported_parameter(f"{path}.url", _FETCH)
    if source.media_type not in {None, _PDF}:
        raise unsupported_parameter(
            f"{path}.media_type", f"{source.media_type!r}: send PDF or plain text."
        )
    if source.data is None:
        raise invalid_parameter(path, f"`{path}` must have `data`: add it.")
    return f"data:{_PDF};base64,{source.data}"


def _document_text(
    source: BlockSource, path: str, target: ChatTarget, notes: list[str]
) -> list[Json]:
    """The parts of a document of text or of blocks."""
    if source.type == "text" and source.data is not None:
        return [plain_part(source.data)]
    if source.type == "content" and source.content is not None:
        return user_parts(blocks_of_content(source.content), f"{path}.content", target, notes)
    raise invalid_parameter(
        path, f"`{path}` must be base64 or text with `data`, or content with blocks."
    )


def _file(block: MessagesBlock, content: str, target: ChatTarget) -> Json:
    """A file part; chat wants a name with each."""
    name = block.title or ("" if target.takes_extras else _UNNAMED)
    return {"type": "file", "file": {"file_data": content} | ({"filename": name} if name else {})}


def _search_result(block: MessagesBlock, path: str) -> list[Json]:
    source = block.source if isinstance(block.source, str) else ""
    inner = [
        _text(text_block, f"{path}.content[{number}]")
        for number, text_block in enumerate(blocks_of_content(block.content))
    ]
    return _in_tags("search_result", {"title": block.title, "source": source}, inner)


def _in_tags(name: str, attributes: dict[str, str | None], inner: list[Json]) -> list[Json]:
    """The parts between an opening and a closing tag; one text where they are one."""
    written = "".join(f" {key}={quoteattr(value)}" for key, value in attributes.items() if value)
    opening, closing = f"<{name}{written}>", f"</{name}>"
    if len(inner) == 1 and inner[0]["type"] == "text":
        return [plain_part(f"{opening}\n{inner[0]['text']}\n{closing}")]
    return [plain_part(opening), *inner, plain_part(closing)]


def _incomplete(path: str, kind: str, field: str) -> Exception:
    return invalid_parameter(path, f"`{path}` says it is {kind!r} but has no `{field}`: add it.")
