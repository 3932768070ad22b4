"""Chat messages as a system prompt and the alternating turns of the Messages API.

Every call of a tool is answered in the next message, and only calls are; no two calls of a
conversation share an id.

Source: Anthropic, Messages API and mid-conversation system messages (2026-08); tool use (2026-11).
"""

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Literal

from msgspec import Raw

from proxy.providers.anthropic.parts import blocks, has_words, text, texts
from proxy.providers.anthropic.tools import tool_result, tool_use
from proxy.providers.chat.block_order import (
    OPAQUE,
    PLACES,
    Content,
    entry_kind,
    restore_order,
    without_number,
)
from proxy.providers.chat.chat_body import (
    ChatMessage,
    invalid_parameter,
    is_given,
    unsupported_parameter,
)
from proxy.providers.chat.compaction_blocks import is_compaction
from proxy.providers.chat.marked_blocks import Block, mark_last_block

#: Stands where the Messages API wants a user turn and the caller has none.
_OPENING: Final = "(The conversation begins.)"
_CONTINUE: Final = "(Continue.)"
_EMPTY: Final = "(empty message)"

_SYSTEM: Final = frozenset({"system", "developer"})
_Speaker = Literal["user", "assistant", "system"]


@dataclass(slots=True)
class Turn:
    """One message of the Messages API; opaque blocks in it are raw JSON."""

    role: _Speaker
    content: Content = field(default_factory=list)

    @property
    def blocks(self) -> list[Block]:
        """The blocks that are not opaque, in order."""
        return [block for block in self.content if isinstance(block, dict)]


def system(messages: list[ChatMessage]) -> tuple[list[Block], int]:
    """The blocks of the leading system and developer messages, and how many messages those are.

    One block per part: boundaries are the caller's, so its cache markers keep their place.
    """
    system_blocks: list[Block] = []
    for number, message in enumerate(messages):
        if message.role not in _SYSTEM:
            return system_blocks, number
        system_blocks += mark_last_block(_text_blocks(message, f"messages[{number}]"), message)
    return system_blocks, len(messages)


def turns(
    messages: list[ChatMessage], start: int, traits: frozenset[str], notes: list[str]
) -> list[Turn]:
    """The turns from message ``start`` on: the first is the user's, roles alternate.

    A compaction may come first in the place of all that it stands for.
    """
    conversation: list[Turn] = []
    for number in range(start, len(messages)):
        message, path = messages[number], f"messages[{number}]"
        if message.role in _SYSTEM:
            mid = "mid_system" in traits and _is_allowed_midway(conversation, messages, number)
            _add_system(
                conversation, mark_last_block(_text_blocks(message, path), message), notes, mid=mid
            )
        elif message.role == "user":
            user_blocks = mark_last_block(blocks(message, path) or [text(_EMPTY)], message)
            _turn(conversation, "user").content.extend(user_blocks)
        elif message.role == "assistant":
            _add_assistant(conversation, message, path)
        elif message.role == "tool":
            _add_result(conversation, tool_result(message, path))
        else:
            raise invalid_parameter(f"{path}.role", f"Unknown role {message.role!r}: {_ROLES}")
    if not conversation or (
        conversation[0].role != "user" and not is_compaction(conversation[0].content[0])
    ):
        conversation.insert(0, Turn("user", [text(_OPENING)]))
        notes.append("added a first user turn: this model's conversations begin with one")
    return conversation


def close_turns(conversation: list[Turn], notes: list[str], *, prefill: bool) -> list[Turn]:
    """The turns with an end the model answers: the user's words, or the start of its own.

    It goes on from a compaction at the end, for it paused after writing that.

    Args:
        prefill: True if the model goes on from an assistant message.
    """
    last = conversation[-1].content[-1]
    if conversation[-1].role != "assistant" or is_compaction(last):
        return conversation
    if prefill and isinstance(last, dict) and last["type"] == "text":
        last["text"] = last["text"].rstrip()
        return conversation
    notes.append("added a user turn at the end: this model does not go on from an assistant's")
    return [*conversation, Turn("user", [text(_CONTINUE)])]


_ROLES: Final = "use system, developer, user, assistant or tool."


def _turn(conversation: list[Turn], role: _Speaker) -> Turn:
    """The last turn if it has this role, else a new one."""
    if not conversation or conversation[-1].role != role:
        conversation.append(Turn(role))
    return conversation[-1]


def _is_allowed_midway(conversation: list[Turn], messages: list[ChatMessage], number: int) -> bool:
    """True if a system message here follows a user turn and is last or answered by the model."""
    if not conversation or conversation[-1].role == "assistant":
        return False
    later = (message.role for message in messages[number + 1 :] if message.role not in _SYSTEM)
    return next(later, "assistant") == "assistant"


def _add_system(
    conversation: list[Turn], system_blocks: list[Block], notes: list[str], *, mid: bool
) -> None:
    """A later system message where the model takes one, else labelled text of the user's turn.

    It is never moved to the front: that would change the prefix of the whole conversation.
    """
    if mid and system_blocks:
        _turn(conversation, "system").content.extend(system_blocks)
        return
    for block in system_blocks:
        block["text"] = f"<system_message>\n{block['text']}\n</system_message>"
        _turn(conversation, "user").content.append(block)
        notes.append("sent a later system message as labelled user text")


def _add_assistant(conversation: list[Turn], message: ChatMessage, path: str) -> None:
    """Add a message of the model: words, calls and opaque blocks unmodified."""
    if is_given(message.audio):
        raise unsupported_parameter(
            f"{path}.audio", "This model cannot hear: send the transcript as content."
        )
    words = texts(message, path)
    if message.refusal:
        words.append(text(message.refusal))
    calls = [
        (call.id, tool_use(call, f"{path}.tool_calls[{number}]"))
        for number, call in enumerate(message.tool_calls or ())
    ]
    entries = _opaque_blocks(message, f"{path}.thinking_blocks")
    content = _without_empty_blocks(restore_order(entries, words, calls))
    # No assistant message may end with a thought.
    if not content or (isinstance(content[-1], Raw) and not is_compaction(content[-1])):
        opaque = [raw for raw in entries if entry_kind(raw) in OPAQUE]
        content = _without_empty_blocks([*opaque, *words, *(call for _, call in calls)])
    if content:
        mark_last_block([block for block in content if isinstance(block, dict)], message)
        _turn(conversation, "assistant").content.extend(content)


def _opaque_blocks(message: ChatMessage, path: str) -> list[Raw]:
    """The opaque blocks, byte for byte, as their signatures cover what they say; and places."""
    entries = [without_number(raw) for raw in message.thinking_blocks or ()]
    if any(entry_kind(raw) not in OPAQUE | PLACES for raw in entries):
        raise invalid_parameter(
            path, f"`{path}` must hold blocks as an answer of this model gave them there."
        )
    return entries


def _without_empty_blocks(content: Content | None) -> Content:
    return [block for block in content or () if isinstance(block, Raw) or has_words(block)]


def _text_blocks(message: ChatMessage, path: str) -> list[Block]:
    return [block for block in texts(message, path) if has_words(block)]


def _add_result(conversation: list[Turn], result: Block) -> None:
    """The answer to a call: before any words of the user's turn, after other answers."""
    content = _turn(conversation, "user").content
    place = sum(isinstance(block, dict) and block["type"] == "tool_result" for block in content)
    content.insert(place, result)


def pair_tool_calls(turns: list[Turn]) -> list[Turn]:
    """The turns, in which each call is answered by the next; ids used again made different.

    A new id depends only on the turns before, so a growing conversation keeps its prefix.
    """
    seen: Counter[str] = Counter()
    for turn, after in pairwise([Turn("user"), *turns, Turn("user")]):
        calls, results = _ids_of_kind(turn, "tool_use"), _ids_of_kind(after, "tool_result")
        ids = _check_ids(
            [call["id"] for call in calls], [answer["tool_use_id"] for answer in results]
        )
        seen.update(ids)
        fresh = {name: f"{name}_{seen[name]}" if seen[name] > 1 else name for name in ids}
        for call in calls:
            call["id"] = fresh[call["id"]]
        for result in results:
            result["tool_use_id"] = fresh[result["tool_use_id"]]
    return turns


def _ids_of_kind(turn: Turn, kind: str) -> list[Block]:
    return [block for block in turn.blocks if block["type"] == kind]


def _check_ids(calls: list[str], results: list[str]) -> set[str]:
    """The ids, once they are the same on both sides."""
    called, answered = Counter(calls), Counter(results)
    if called == answered and all(times == 1 for times in called.values()):
        return set(calls)
    if open_calls := called - answered:
        raise invalid_parameter(
            "messages",
            f"No answer to tool call {next(iter(open_calls))!r}: add its result right after it.",
        )
    if strays := answered - called:
        raise invalid_parameter(
            "messages",
            f"Result {next(iter(strays))!r} answers no call right before it: leave it out or send"
            " it once.",
        )
    raise invalid_parameter(
        "messages", "Two tool calls of one message share an id: give each its own."
    )
