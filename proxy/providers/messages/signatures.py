"""Signs thinking of other providers' models in Messages answers, so that it is recognised later.

Callers of the Messages API send thinking back unmodified, signature included. A signature of ours
says that no Claude model wrote the block: Anthropic would refuse it. It holds all that the upstream
wants to see again and the block does not show: reasoning, what Google attaches to calls, the
reasoning that OpenAI encrypts, and whether it took a message for comment or for the answer::

    tg1.<base64url of JSON>

It is no secret and proves nothing. A caller may write one, so only encrypted reasoning leaves it as
an item, and never a reference to what a provider keeps; a phase is one of those that are known.

Source: Anthropic, extended thinking; Google, thought signatures; OpenAI, reasoning models,
encrypted reasoning items (2026-11), and phase of messages (openai 3.52).
"""

from typing import Annotated, Final, Literal

import msgspec

from proxy.prefix.prompts.objects import (
    Unplannable,
    elements,
    members,
    write_list,
    write_object,
)
from proxy.providers.messages.body import Json, MessagesBlock
from proxy.providers.responses.reasoning import OpaqueParts, seal_parts, unseal_parts
from proxy.records.request_fields import replace_fields

_MARK: Final = "tg1."
_CALL: Final = "call"
_REASONING: Final = "reasoning"
#: Type of the entry that holds a message's phase.
PHASE: Final = "phase"
#: Phases of an assistant's message. Source: openai 3.52, ``EasyInputMessageParam``.
_PHASES: Final = frozenset({"commentary", "final_answer"})
#: The beginning of a signature of ours in a body.
_OPENING: Final = b'"' + _MARK.encode()
_Given = Annotated[str, msgspec.Meta(min_length=1)]


class _SummaryText(msgspec.Struct):
    type: Literal["summary_text"]
    text: str


class _ReasoningItem(msgspec.Struct):
    """All that goes back of a reasoning item."""

    type: Literal["reasoning"]
    id: _Given
    summary: list[_SummaryText]
    encrypted_content: _Given


def own_signature(hidden: str = "") -> str:
    """A signature of a block that no Claude model wrote, with the words that it does not show."""
    return seal_parts(OpaqueParts(reasoning_content=hidden))


def call_signature(chat_id: str, extra_content: Json) -> str:
    """A signature of ours that holds what an upstream attached to one of its calls."""
    attached = {"type": _CALL, "id": chat_id, "extra_content": extra_content}
    return seal_parts(OpaqueParts(thinking_blocks=[attached]))


def reasoning_signature(item: Json, maker: str) -> str:
    """A signature of ours that holds a reasoning item of the Responses API.

    Args:
        maker: The upstream and model that can read it.
    """
    return seal_parts(
        OpaqueParts(thinking_blocks=[{"type": _REASONING, "maker": maker, "item": item}])
    )


def reasoning_items(signature: str | None, maker: str) -> list[Json]:
    """The reasoning items that a signature holds and this upstream and model can read."""
    own_parts = (part for part in _parts(signature, _REASONING) if part.get("maker") == maker)
    items = (_reasoning_item(part.get("item")) for part in own_parts)
    return [item for item in items if item is not None]


def _reasoning_item(sealed: object) -> Json | None:
    """The item as its provider gave it; None for anything else, which a caller has sealed."""
    try:
        item: Json = msgspec.to_builtins(msgspec.convert(sealed, _ReasoningItem))
    except msgspec.ValidationError:
        return None
    return item


def phase_signature(phase: object, maker: str) -> str:
    """A signature of ours that holds the phase of the message that follows; "" for none known.

    Args:
        maker: The upstream and model that said it.
    """
    if not is_phase(phase):
        return ""
    return seal_parts(OpaqueParts(thinking_blocks=[{"type": PHASE, "maker": maker, PHASE: phase}]))


def sealed_phase(signature: str | None) -> Json | None:
    """The phase that a signature holds and its maker, as an entry of its own; None for none."""
    phases = _parts(signature, PHASE)
    entries = ({name: part.get(name) for name in ("type", "maker", PHASE)} for part in phases)
    return next((part for part in entries if is_phase(part[PHASE])), None)


def is_phase(phase: object) -> bool:
    """True for a phase that is known."""
    return isinstance(phase, str) and phase in _PHASES


def has_reasoning_items(signature: str | None) -> bool:
    """True if a signature holds reasoning items of any maker."""
    return bool(_parts(signature, _REASONING))


def call_extras(block: MessagesBlock) -> dict[str, Json]:
    """The contents attached to calls, by the upstream's ids, that a block's signature holds."""
    return {
        part["id"]: part["extra_content"]
        for part in _parts(block.signature, _CALL)
        if isinstance(part.get("id"), str) and isinstance(part.get("extra_content"), dict)
    }


def is_own_signature(signature: str | None) -> bool:
    """True if the gateway signed a thinking block, which Anthropic would refuse."""
    return signature is not None and signature.startswith(_MARK)


def without_own_thinking(body: bytes) -> tuple[bytes, int]:
    """A Messages body without thinking that no Claude model wrote, and the number of such blocks.

    A message that held nothing else is left out; what surrounds it is joined by Anthropic. All
    else is byte for byte the caller's, and so is a body that cannot be read.
    """
    if _OPENING not in body:
        return body, 0
    try:
        given = elements(members(body)["messages"])
        results = [_without_own_blocks(message_json) for message_json in given]
    except (KeyError, Unplannable):
        return body, 0
    count = sum(left_out for _, left_out in results)
    if not count:
        return body, 0
    messages = write_list(message for message, _ in results if message)
    return replace_fields(body, {"messages": messages}), count


def _without_own_blocks(message: bytes) -> tuple[bytes, int]:
    """The message without such blocks, b"" where nothing is left; and their number."""
    fields = members(message)
    content = fields.get("content", b"")
    if _OPENING not in content or content[:1] != b"[":
        return message, 0
    blocks = elements(content)
    rest = [block for block in blocks if not _is_own_block(block)]
    if len(rest) == len(blocks):
        return message, 0
    written = write_object({**fields, "content": write_list(rest)}) if rest else b""
    return written, len(blocks) - len(rest)


def _is_own_block(raw: bytes) -> bool:
    if raw[:1] != b"{" or _OPENING not in raw:
        return False
    fields = members(raw)
    is_thinking = fields.get("type") == b'"thinking"'
    return is_thinking and fields.get("signature", b"").startswith(_OPENING)


def reasoning_of(block: MessagesBlock) -> str:
    """The words of a thinking block: shown, else held by its signature; "" for none."""
    return block.thinking or _unseal(block.signature).reasoning_content


def _unseal(signature: str | None) -> OpaqueParts:
    """The parts that a signature holds; empty where it is none of ours, or was changed."""
    try:
        return unseal_parts(signature)
    except ValueError:
        return OpaqueParts()


def _parts(signature: str | None, kind: str) -> list[Json]:
    """The sealed parts of a type."""
    sealed = _unseal(signature).thinking_blocks
    return [part for part in sealed if isinstance(part, dict) and part.get("type") == kind]
