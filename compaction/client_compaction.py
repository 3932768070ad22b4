"""Detects callers that compact their conversation themselves; those calls are sent unmodified.

- An agent asks its model for a summary: compacted before that, it would be a summary of a summary.
- A provider has compacted the conversation: its items are valid only in their place.
"""

import re
from collections.abc import Container, Sequence
from typing import Final

import msgspec

#: Fields of a body with which a provider is asked to shorten the conversation itself.
#: Source: Anthropic, context editing and compaction; OpenAI, compaction (2026-11).
COMPACTION_FIELDS: Final = ("context_management", "compaction")
#: Regular expression for the JSON type of the item by which a provider replaces compacted messages.
_COMPACTION_ITEM: Final = re.compile(rb'(?<!\\)"type"\s*:\s*"compaction')
_COMPACTION_NAME: Final = b'"compaction'
#: Maximum characters scanned at each end of a text, where harnesses put instructions.
_SCANNED_EDGE_CHARS: Final = 4_000
#: Maximum messages scanned at the end: a harness may add reminders after its request.
_SCANNED_LAST_MESSAGES: Final = 2
#: Phrases with which harnesses ask for a summary, in lower case and on one line.
_SUMMARY_PHRASES: Final = (
    # Source: Claude Code, Roo Code and Cline, prompts that condense (2026-11).
    "create a detailed summary of the conversation so far",
    "create a detailed summary of our conversation",
    "create a comprehensive and detailed summary of the conversation",
    'explicit_instructions type="condense"',
    'explicit_instructions type="compact"',
    "summarize the conversation so far, as described in the prompt instructions",
    # Source: openai/codex, core/templates/compact/prompt.md (2026-11).
    "context checkpoint compaction",
    "create a handoff summary for another",
    # Source: google-gemini/gemini-cli, core/src/core/client.ts (2026-11).
    "generate the <state_snapshot>",
    # Source: OpenHands, condenser, summarizing_prompt.j2 (2026-11).
    "maintaining a context-aware state summary",
    # Source: opencode, session/compaction.ts (2026-11).
    "detailed prompt for continuing our conversation",
    # Source: LangChain, SummarizationMiddleware; LangMem, summarization (2026-11).
    "<role> context extraction assistant </role>",
    "distill the above chat messages",
    "create a summary of the conversation above",
    "extend this summary by taking into account the new messages above",
    # Source: Aider-AI/aider, prompts.py (2026-11).
    "summarize this partial conversation",
)
#: Regular expression for a person's request to compact at the beginning of a message: a command
#: alone or with what to keep, or a sentence about nothing but the conversation.
#: Source: Claude Code, slash commands, ``/compact [instructions]`` (2026-11).
_SUMMARY_COMMAND: Final = re.compile(
    r"/(?:compact|compress|condense|summari[sz]e)"
    r"(?:$|[ :]+(?:focus|focusing|focused|keep|keeping|preserve|retain|remember|only|but)\b[^?]*$)"
    r"|(?:please |now |briefly ){0,3}(?:summari[sz]e|compact|condense|compress) "
    r"(?:the |our |this )(?:whole |entire |above |previous |full )?"
    r"(?:conversation|chat|session|discussion|dialogue)"
    r"(?: so far| above| until now| up to now| up to here| up to this point)?"
    r"(?:,? please| briefly| now)?(?:[.!?…]+(?: |$)|$)"
)


class _Part(msgspec.Struct):
    type: str = ""
    text: str | None = None


class _Message(msgspec.Struct):
    role: str = ""
    content: str | list[msgspec.Raw] | None = None


_message = msgspec.json.Decoder(_Message).decode
_part = msgspec.json.Decoder(_Part).decode


def client_compaction_kind(fields: Container[str], raws: Sequence[bytes]) -> str:
    """The kind of compaction that the caller does itself: ``native``, ``client``, or "" for none.

    Args:
        fields: The names of the body's fields.
        raws: Its messages, as JSON.
    """
    if any(name in fields for name in COMPACTION_FIELDS) or any(map(_is_compacted, raws)):
        return "native"
    return "client" if any(map(_asks_for_summary, raws[-_SCANNED_LAST_MESSAGES:])) else ""


def _is_compacted(raw: bytes) -> bool:
    """True if a message holds what a provider made of others."""
    return _COMPACTION_NAME in raw and _COMPACTION_ITEM.search(raw) is not None


def _asks_for_summary(raw: bytes) -> bool:
    """True if a user's message asks for a summary of the conversation."""
    words = _user_words(raw)
    return (
        any(phrase in words for phrase in _SUMMARY_PHRASES)
        or _SUMMARY_COMMAND.match(words) is not None
    )


def _user_words(raw: bytes) -> str:
    """The beginning and end of a user's message, in lower case and on one line."""
    try:
        message = _message(raw)
        if message.role != "user":
            return ""
        parts = message.content if isinstance(message.content, list) else ()
        texts = [message.content] if isinstance(message.content, str) else _texts(parts)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return ""
    text = "\n".join(texts)
    edges = (
        text
        if len(text) <= 2 * _SCANNED_EDGE_CHARS
        else f"{text[:_SCANNED_EDGE_CHARS]} {text[-_SCANNED_EDGE_CHARS:]}"
    )
    return " ".join(edges.lower().split())


def _texts(parts: Sequence[msgspec.Raw]) -> list[str]:
    object_parts = [_part(raw) for raw in parts if bytes(raw).lstrip()[:1] == b"{"]
    return [part.text for part in object_parts if part.type == "text" and part.text is not None]
