"""The caller's own marks on a cache that takes few: the room they leave, and one that may go.

They stay in place, except one that OpenAI's cache makes needless: from GPT-5.6 on it writes the end
of the prompt by itself. Callers that write for Anthropic's cache mark that end, and so take the
place of a mark that other conversations could read.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from proxy.caches import openai_breakpoint
from proxy.caches.regime import Regime
from proxy.prefix.prompts.marks import MARKS, count_caller_marks, without_own_marks
from proxy.prefix.prompts.objects import replace_parts
from proxy.prefix.prompts.prompt import Prompt, PromptBlock, content_parts, parse_message

_OPENAI: Final = "openai-breakpoint"
_USER: Final = "user"
#: Places of a parted message that are marked: the end of the last call, and of the one before.
_MAX_SPLIT_MARKS: Final = 2
#: Keys of Anthropic's marks and of OpenAI's, as they stand in JSON; within a text their quotes
#: would be escaped.
_HINT, _BREAKPOINT = (msgspec.json.encode(name) for name in MARKS)


def free_marks(regime: Regime, caller_marks: Mapping[int, str], *, explicit: bool) -> int:
    """Number of marks that can be added to the caller's; 0 or less for none."""
    room = regime.marks - len(caller_marks)
    if caller_marks and not explicit and regime.name == _OPENAI:
        # The provider writes its own end and fewer of the latest; theirs stay among them.
        rules = openai_breakpoint.provider_rules(regime.provider)
        room -= rules.marks_written - rules.beside_implicit
    return room


def free_splits(
    blocks: Sequence[PromptBlock], regime: Regime, marks: Mapping[int, str]
) -> Mapping[int, str]:
    """The last places at which a user's message is parted, with lifetimes, where marks are free.

    What stands before another mark is written with it. OpenAI writes all of the prompt by itself,
    up to the end of the message. A call that sends it with more behind reads no such entry, but
    what a mark within the message wrote; nor does another cache's call read one that ends in words
    of its own.
    """
    is_written = regime.name == _OPENAI
    end = len(blocks) if is_written else max(marks, default=0)
    room = min(_MAX_SPLIT_MARKS, free_marks(regime, marks, explicit=False))
    places = [
        place
        for place, (block, after) in enumerate(pairwise(blocks[: end + 1]))
        if block.role == _USER and block.part >= 0 and block.message == after.message
    ]
    return {
        place: regime.usual_ttl
        if is_written
        else marks[min(mark for mark in marks if mark > place)]
        for place in (places[-room:] if room > 0 else ())
        if place not in marks
    }


def marks_left(prompt: Prompt, caller_marks: Mapping[int, str], regime: Regime) -> Regime:
    """The regime less the marks of the caller's that share a block with another of theirs.

    Raises:
        Unplannable: If a message cannot be read.
    """
    more = count_caller_marks(prompt, regime) - len(caller_marks) if caller_marks else 0
    return (
        msgspec.structs.replace(regime, marks=max(0, regime.marks - more)) if more > 0 else regime
    )


def without_spare_mark(
    prompt: Prompt,
    blocks: Sequence[PromptBlock],
    caller_marks: dict[int, str],
    regime: Regime,
    lifetime: str = "",
) -> tuple[Prompt, dict[int, str]]:
    """The prompt and the caller's marks without the one that the provider makes needless.

    That is a mark of Anthropic's form at the end that OpenAI writes by itself, for as long as all
    the caller's marks ask. It is left out only where another mark needs its room; what else is
    stored and looked up stays the same.

    ``lifetime`` is that of the breakpoints which the provider chooses; "" for the usual one.

    Raises:
        Unplannable: If a message cannot be read.
    """
    if regime.name != _OPENAI or free_marks(regime, caller_marks, explicit=False) > 0:
        return prompt, caller_marks
    end = next(reversed(openai_breakpoint.implicit_breakpoints(blocks)), -1)
    # One of the caller's own may be written in its place, and must not cost more than the end.
    if end not in caller_marks or {*caller_marks.values()} != {lifetime or regime.usual_ttl}:
        return prompt, caller_marks
    messages, index = list(prompt.messages), blocks[end].message
    bare = _without_end_hint(messages[index])
    if bare is messages[index]:
        return prompt, caller_marks
    messages[index] = bare
    left = {block: ttl for block, ttl in caller_marks.items() if block != end}
    return msgspec.structs.replace(prompt, messages=tuple(messages)), left


def _without_end_hint(message: bytes) -> bytes:
    """A message without the mark of Anthropic's form at its end; as it is with any other mark."""
    if message.count(_HINT) != 1 or _BREAKPOINT in message:
        return message
    bare = without_own_marks(message)
    parts = content_parts(parse_message(bare).content)
    if parts and parts[-1][:1] == b"{":
        bare = replace_parts(bare, [*parts[:-1], without_own_marks(parts[-1])])
    return message if _HINT in bare else bare
