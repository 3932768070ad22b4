"""Texts that planning took apart, as one string again: some upstreams take nothing but strings."""

from collections.abc import Sequence
from typing import Final

import msgspec

from proxy.prefix.prompts.objects import is_plain_text, replace_parts
from proxy.prefix.prompts.prompt import (
    Prompt,
    content_parts,
    count_leading,
    parse_message,
    part_text,
)

_QUOTE: Final = b'"'


def join_texts(prompt: Prompt, came: Prompt) -> Prompt:
    """The prompt with the texts of its instructions and of its tail as strings where they came so.

    Its slots are as they were, but ``semi`` points nowhere any more. It depends on nothing that
    changes within a conversation, except in the tail.

    Args:
        prompt: In order, without marks.
        came: As the caller wrote it.

    Raises:
        Unplannable: If a message cannot be read.
    """
    first, messages = count_leading(prompt), list(prompt.messages)
    if prompt.semi is not None and _is_text(came.messages[: count_leading(came)]):
        messages[:first] = map(_joined, messages[:first])
    if prompt.tail and _is_text(came.messages[-1:]):
        messages[-prompt.tail :] = map(_joined, messages[-prompt.tail :])
    if tuple(messages) == prompt.messages:
        return prompt
    return msgspec.structs.replace(prompt, messages=tuple(messages), semi=None)


def _is_text(messages: Sequence[bytes]) -> bool:
    return all(bytes(parse_message(raw).content)[:1] == _QUOTE for raw in messages)


def _joined(message: bytes) -> bytes:
    """The message with its texts as one; as it is where it holds anything else."""
    found = content_parts(parse_message(message).content)
    words = [part_text(part) for part in found if is_plain_text(part)]
    said = "".join(word for word in words if word is not None)
    if len(found) < 2 or len(words) < len(found) or None in words:
        return message
    return replace_parts(message, [msgspec.json.encode(said)])
