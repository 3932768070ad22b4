"""Parts of a chat message as Messages content blocks.

Source: Anthropic, vision, PDF support and Messages API; OpenAI, chat content parts (2026-11).
"""

import base64
import binascii
import re
from typing import Any, Final

from proxy.providers.chat.chat_body import (
    ChatMessage,
    ContentPart,
    invalid_parameter,
    unsupported_parameter,
)
from proxy.providers.chat.marked_blocks import Block, with_marker

_DATA_URL: Final = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.+-]+)*?(;base64)?,", re.ASCII)
_IMAGES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_TYPES: Final = {"image/jpg": "image/jpeg"}
_ENDINGS: Final = {"pdf": "application/pdf", "txt": "text/plain", "md": "text/plain"}


def blocks(message: ChatMessage, path: str) -> list[Block]:
    """The content of a message as blocks, in order; blank text is left out.

    Args:
        path: Its place in the body, such as ``messages[2]``.
    """
    return [block for block in _blocks(message, path) if has_words(block)]


def texts(message: ChatMessage, path: str) -> list[Block]:
    """The same for roles that may hold text only; blank text stays."""
    for number, part in enumerate(message.content if isinstance(message.content, list) else ()):
        if part.type not in {"text", "refusal"}:
            raise invalid_parameter(
                f"{path}.content[{number}].type",
                f"{part.type!r} cannot stand in a {message.role} message: send text there.",
            )
    return _blocks(message, path)


def has_words(block: Block) -> bool:
    """True if the block is not blank: Anthropic refuses text of whitespace alone."""
    return block["type"] != "text" or bool(block["text"].strip())


def text(words: str) -> Block:
    """A text block."""
    return {"type": "text", "text": words}


def _blocks(message: ChatMessage, path: str) -> list[Block]:
    content = message.content
    if content is None:
        return []
    if isinstance(content, str):
        return [text(content)]
    return [
        with_marker(_block(part, f"{path}.content[{number}]"), part)
        for number, part in enumerate(content)
    ]


def _block(part: ContentPart, path: str) -> Block:
    """The block for one part."""
    if part.type == "text" and part.text is not None:
        return text(part.text)
    if part.type == "refusal" and part.refusal is not None:
        return text(part.refusal)
    if part.type == "image_url" and part.image_url is not None:
        return {"type": "image", "source": _image(part.image_url.url, f"{path}.image_url.url")}
    if part.type == "file" and part.file is not None:
        return _document(part, f"{path}.file")
    if part.type in {"text", "refusal", "image_url", "file"}:
        raise invalid_parameter(
            path, f"`{path}` says it is {part.type!r} but has no such field: add it."
        )
    if part.type == "input_audio":
        raise unsupported_parameter(
            path, "This model cannot hear: send a transcript, or ask another model."
        )
    raise invalid_parameter(
        f"{path}.type", f"Unknown part {part.type!r}: send text, image_url or file."
    )


def _image(url: str, path: str) -> dict[str, str]:
    """The source of an image.

    The prefix of a data URL is read alone: the picture behind it may be megabytes.
    """
    if url.startswith(("https://", "http://")):
        return {"type": "url", "url": url}
    kind, encoded = _parse_data_url(url, path)
    if kind not in _IMAGES:
        raise unsupported_parameter(path, f"Images of type {kind!r}: send JPEG, PNG, GIF or WebP.")
    return {"type": "base64", "media_type": kind, "data": encoded}


def _parse_data_url(url: str, path: str) -> tuple[str, str]:
    """The media type and the base64 text of a data URL."""
    head = _DATA_URL.match(url)
    if head is None or head[2] is None:
        raise invalid_parameter(path, f"`{path}` must be an http(s) URL or a data URL in base64.")
    kind = (head[1] or "text/plain").lower()
    return _TYPES.get(kind, kind), url[head.end() :]


def _document(part: ContentPart, path: str) -> Block:
    """A file as a document block."""
    file = part.file
    if file is None or file.file_data is None:
        raise unsupported_parameter(
            f"{path}.file_id", "This model cannot see files kept by OpenAI: send `file_data`."
        )
    ending = (file.filename or "").rpartition(".")[2].lower()
    source = _source(file.file_data, _ENDINGS.get(ending, "application/pdf"), f"{path}.file_data")
    return {"type": "document", "source": source} | (
        {"title": file.filename} if file.filename else {}
    )


def _source(content: str, kind: str, path: str) -> dict[str, Any]:
    """The source of a document's content; ``kind`` is its type where the content does not say."""
    if content.startswith("https://"):
        return {"type": "url", "url": content}
    encoded = content
    if content.startswith("data:"):
        kind, encoded = _parse_data_url(content, path)
    if kind == "application/pdf":
        return {"type": "base64", "media_type": kind, "data": encoded}
    if not kind.startswith("text/"):
        raise unsupported_parameter(path, f"Files of type {kind!r}: send PDF or plain text.")
    try:
        words = base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, ValueError):
        raise invalid_parameter(path, f"`{path}` must be UTF-8 text in base64.") from None
    return {"type": "text", "media_type": "text/plain", "data": words}
