# ruff: noqa: T201 - a script prints its result

"""Rules that must hold of every compaction, on whole recorded dialogues; probes count breaches.

Short dialogues are put one after the other, as many as make a long one (``CHAINS``).

- *rules*: System text and whatever a user said stand in what is sent, word for word (of a message
  of more than 2,000 tokens, its beginning); whatever a user wishes for all that follows, always.
- *orphans*: No result without its call right before, no call without its result right behind.
- *providers*: What OpenAI and Anthropic ask of the order of messages.
- *same again*: The same messages give the same bytes, with a memory that knows them and without.
- *prefix*: What was sent begins what is sent later, but for calls that say that they compact.
- *words*: A line that speaks for a user holds what a user said, not what a tool gave back.
- *ten in a row*: Compacting ten times, a tenth each, keeps what compacting once keeps.

Usage: python -m tests.bench.compaction.probes [SET…] [--every N]
"""

import argparse
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from typing import Any, Final

import orjson

from compaction.compact import CompactedChat, ConversationContext, compact
from compaction.facts.fact import FactKind, Region, Segment
from compaction.facts.segment_fitting import segment_within
from compaction.facts.statements import directives
from compaction.memory import CompactionMemory
from compaction.policy import CompactionPolicy, RelativePrices
from compaction.reading.message import CannotCompactError
from compaction.reading.parsed_messages import ParsedMessageCache
from compaction.reading.turns import split_units
from tests.bench.compaction.cases import joined_text, later_values, plain, stands
from tests.bench.compaction.dialogues import SETS, dialogues, dialogues_in_chains
from tests.bench.compaction.measuring import tokenizer
from tests.fakes.dialogue import Dialogue, Message, words

Count = Callable[[str], int]
#: Forced at every call; as it pays with a cache; and without one.
POLICIES: Final[Mapping[str, CompactionPolicy]] = {
    "forced": CompactionPolicy(force=True, keep_turns=1),
    "to 3,000": CompactionPolicy(force=True, target=3_000),
    "cached": CompactionPolicy(prices=RelativePrices(read=0.1, write=1.25, output=5.0)),
    "uncached": CompactionPolicy(),
}
#: How many dialogues of a set make one.
CHAINS: Final[Mapping[str, int]] = {"tau": 4, "sgd": 8, "agentdojo": 6}
#: Characters of a long message that surely stay: 2,000 tokens are kept of its head and tail.
_SURE: Final = 1_000
_LONG: Final = 6_000
#: What stands for what was cut.
_CUT: Final = re.compile(r"\[… \d+ characters cut.*? …\]|\[…\]")
_USERS: Final = frozenset({FactKind.RULE, FactKind.USER, FactKind.GOAL})
#: Minimum characters of a value: a shorter one, such as "no", stands in other words.
_MIN_VALUE_CHARS: Final = 3


@dataclass(frozen=True)
class DialogueCall:
    """One call of a dialogue.

    Attributes:
        now: Messages it holds.
        made: What is sent; None where it goes unmodified.
        sent: The messages as they are sent.
    """

    now: int
    made: CompactedChat | None
    sent: tuple[bytes, ...]


def calls(dialogue: Dialogue, policy: CompactionPolicy, count: Count) -> Iterator[DialogueCall]:
    """The dialogue's calls as they are sent, one after the other, with one memory."""
    memory = CompactionMemory()
    them = _raws(dialogue.messages)
    for index, message in enumerate(dialogue.messages):
        if (
            message["role"] == "assistant"
            and index
            and dialogue.messages[index - 1]["role"] != "assistant"
        ):
            made = compact_calls(them[:index], policy, memory, count)
            yield DialogueCall(index, made, made.messages if made else tuple(them[:index]))


def compact_calls(
    them: Sequence[bytes], policy: CompactionPolicy, memory: CompactionMemory, count: Count
) -> CompactedChat | None:
    """The messages that are sent; None where they go unmodified."""
    try:
        return compact(them, policy, memory=memory, context=ConversationContext(count=count))
    except CannotCompactError:
        return None


def breaches(dialogue: Dialogue, policy: CompactionPolicy, count: Count) -> Counter[str]:
    """Failures of each probe on a dialogue, and the number of calls."""
    counts = Counter[str]()
    before: DialogueCall | None = None
    for call in calls(dialogue, policy, count):
        counts["calls"] += 1
        made = call.made
        if made is not None and made.segments:
            counts["calls compacted"] += 1
            counts["resets"] += made.reset
            counts["rules"] += unsaid(dialogue, call, cuts_users=policy.target > 0)
            counts["words"] += len(put_in_mouths(dialogue, made.segments))
        sent = [orjson.loads(raw) for raw in call.sent]
        came = dialogue.messages[: call.now]
        counts["orphans"] += max(0, orphans(sent) - orphans(came))
        counts["providers"] += count_faults(sent) > count_faults(came)
        counts["prefix"] += before is not None and _moves_silently(before, call)
        before = call
    if before is not None:
        counts["same again"] += not same_again(dialogue, before, policy, count)
    return counts


def _moves_silently(before: DialogueCall, call: DialogueCall) -> bool:
    """True if what was sent does not begin what is sent, though neither a reset nor cuts are due.

    A result that is cut after it was shown moves the prefix at its own place.
    """
    if call.made is not None and call.made.reset:
        return False
    moved = sum(one != other for one, other in zip(before.sent, call.sent, strict=False))
    cuts = [run.made.cut_results if run.made is not None else 0 for run in (before, call)]
    return len(call.sent) < len(before.sent) or moved > cuts[1] - cuts[0]


def unsaid(dialogue: Dialogue, call: DialogueCall, *, cuts_users: bool) -> int:
    """Messages of the system or a user, and users' rules, that are not sent word for word.

    Args:
        cuts_users: True if users' sentences may go for a target.
    """
    text = plain("\n".join(words(orjson.loads(raw)) for raw in call.sent))
    spoken = [
        plain(words(said)).strip()
        for index, said in enumerate(dialogue.messages[: call.now])
        if said["role"] in {"system", "developer"} or (index in dialogue.turns and not cuts_users)
    ]
    cut = sum((said if len(said) < _LONG else said[:_SURE]) not in text for said in spoken)
    return cut + sum(plain(rule).strip() not in text for rule in _rules(dialogue, call))


def _rules(dialogue: Dialogue, call: DialogueCall) -> Iterator[str]:
    """Instructions of users for all that follows, a sentence each, in their own words."""
    for index, message in enumerate(dialogue.messages[: call.now]):
        if index in dialogue.turns:
            yield from directives(words(message))


def orphans(sent: Sequence[Mapping[str, Any]]) -> int:
    """Results without their call right before, and calls without their result right behind."""
    count = 0
    waiting: set[str] = set()
    for message in [*sent, {"role": "user"}]:
        if message["role"] == "tool":
            count += message["tool_call_id"] not in waiting
            waiting.discard(message["tool_call_id"])
        else:
            count += len(waiting)
            waiting = {call["id"] for call in message.get("tool_calls") or ()}
    return count


def count_faults(sent: Sequence[Mapping[str, Any]]) -> int:
    """Faults that a provider would refuse: nothing said, an answer first, an answer last."""
    spoken = [said for said in sent if said["role"] not in {"system", "developer"}]
    empty = sum(not said.get("content") and not said.get("tool_calls") for said in spoken)
    return empty + int(spoken[0]["role"] != "user") + int(spoken[-1]["role"] == "assistant")


def put_in_mouths(dialogue: Dialogue, segments: Sequence[Segment]) -> list[str]:
    """Facts that speak for a user with words that no user said."""
    spoken = [words(message) for message in dialogue.messages if message["role"] == "user"]
    spoken_text = plain("\n".join(spoken))
    return [
        fact.text
        for segment in segments
        for fact in segment.facts
        if fact.kind in _USERS and not _is_said(plain(fact.text), spoken_text)
    ]


def _is_said(text: str, said: str) -> bool:
    """True if it stands there, whatever was left out where it has dots."""
    return all(piece.strip(' "') in said for piece in _CUT.sub("…", text).split("…"))


def same_again(
    dialogue: Dialogue, call: DialogueCall, policy: CompactionPolicy, count: Count
) -> bool:
    """True if a memory that knows nothing, and one that knows it all, give the same bytes."""
    them = _raws(dialogue.messages[: call.now])
    memory = CompactionMemory()
    fresh = compact_calls(them, policy, memory, count)
    again = compact_calls(them, policy, memory, count)
    sent = [run.messages if run else tuple(them) for run in (fresh, again)]
    return _digest(call.sent) == _digest(sent[0]) == _digest(sent[1])


def ten_in_a_row(dialogue: Dialogue, count: Count, times: int = 10) -> tuple[int, int, int]:
    """Values at risk of a dialogue's first half; how many one compaction keeps, how many ten."""
    messages = tuple(ParsedMessageCache().messages(_raws(dialogue.messages), count))
    parts = split_units(messages)
    first = next(at for at, message in enumerate(dialogue.messages) if message["role"] != "system")
    inner = [unit.start for unit in parts if first < unit.start <= len(messages) * 2 // 3]
    if len(inner) < times:
        return 0, 0, 0
    marks = [first, *(inner[(at + 1) * len(inner) // times - 1] for at in range(times))]
    old = joined_text(dialogue.messages[first : marks[-1]])
    needed = [
        value
        for value in map(plain, later_values(dialogue, marks[-1]))
        if len(value) >= _MIN_VALUE_CHARS and stands(old, value)
    ]
    made: list[Segment] = []
    for start, end in pairwise(marks):
        region = Region(messages=messages, units=parts, start=start, end=end, earlier=tuple(made))
        made.append(segment_within(region, 0, count))
    whole = Region(messages=messages, units=parts, start=first, end=marks[-1])
    once = plain(segment_within(whole, 0, count).text)
    ten = plain("\n".join(each.text for each in made))
    retained = [sum(stands(text, value) for value in needed) for text in (once, ten)]
    return len(needed), retained[0], retained[1]


def _raws(messages: Sequence[Message]) -> list[bytes]:
    return [orjson.dumps(message) for message in messages]


def _digest(sent: Sequence[bytes]) -> bytes:
    return sha256(b"\n".join(sent)).digest()


def main() -> None:
    """Print how often each probe failed, by set and policy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", default=[name for name in SETS if name != "goodai"])
    parser.add_argument("--every", type=int, default=1, help="take every so manieth dialogue")
    options = parser.parse_args()
    count = tokenizer()
    columns = ["calls", "calls compacted", "resets", "rules", "orphans", "providers", "same again"]
    columns += ["prefix", "words"]
    print(f"| set | policy | {' | '.join(columns)} |\n|---|---|{'--:|' * len(columns)}")
    for name in options.sets:
        them = dialogues_in_chains(name, CHAINS.get(name, 1), options.every)
        for policy, held in POLICIES.items():
            counts = sum((breaches(each, held, count) for each in them), Counter[str]())
            cells = " | ".join(str(counts[column]) for column in columns)
            print(f"| {name} | {policy} | {cells} |", flush=True)
    for name in options.sets:
        rows = [ten_in_a_row(each, count) for each in dialogues(name, options.every)]
        needed, once, ten = (sum(each) for each in zip(*rows, strict=True))
        print(
            f"\n{name}, ten in a row: of {needed} values one compaction keeps {once}, "
            f"ten keep {ten}"
        )


if __name__ == "__main__":
    main()
