# ruff: noqa: T201 - a script prints its result

"""The field's own case: a system text and 20 turns of about 12,000 tokens, brought under 3,000.

No recorded set holds such chats whole; they are put together from what was recorded, unchanged:

- *desk*: τ-bench's conversations of one agent, one customer after the other, one policy, up to the
  20th turn, beginning with each conversation. Those of 9,000 to 15,000 tokens.
- *clerk*: AgentDojo's banking tasks of one model without injections, one order after the other: 16
  turns, about 8,000 to 9,000 tokens.
- *coder*: every run of 20 turns of pi's long session that weighs 9,000 to 15,000 tokens and does
  not overlap the one before.
- *reader*: the same of GoodAI's chats, where users paste whole chapters.

Each is sent up to the words of the user that its last turn begins with. The *floor* is what may not
be compacted: the system text and the last three turns. Where it leaves no room under the target for
anything else, no compaction can come under it; "roomy" are the chats with a floor of at most half
of the target. "Values" are the ids, numbers, dates, addresses and paths that the compacted turns
hold; "later" those that calls behind the compaction name, of those that stand nowhere else.

AgentDojo's other tasks weigh too much (20 in a row 23,000 to 51,000 tokens), SGD's and MultiWOZ's
dialogues too little (20 turns 1,000 to 3,000). Tools count with no chat: they cannot be compacted.

Usage: python -m tests.bench.compaction_field [--target 3000] [--lost 20]
"""

import argparse
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

import orjson

from compaction.compact import CompactedChat, ConversationContext, compact
from compaction.memory import CompactionMemory
from compaction.policy import CompactionPolicy
from tests.bench.compaction_methods import ends, raws
from tests.bench.compaction_metrics import CompactedRange, Tokens, at_risk, holds, plain
from tests.bench.compaction_sets import dialogues, join_dialogues
from tests.fakes.dialogue import Dialogue, Message, words

_TURNS: Final = 20
_LIGHT, _HEAVY = 9_000, 15_000
_VALUE: Final = re.compile(
    r"[\w.+-]+@[\w-]+\.[\w.]+|(?:[\w.~-]*/)+[\w.-]*\w|\b(?=\w*\d)[\w.:-]*\w\b"
)
Count = Callable[[str], int]


@dataclass(frozen=True)
class DialogueCase:
    """A dialogue and how much of it is sent.

    Attributes:
        dialogue: It.
        now: Messages sent.
    """

    dialogue: Dialogue
    now: int


@dataclass(frozen=True)
class DialogueResult:
    """The result of a case.

    Attributes:
        made: What is sent.
        before: Its tokens unmodified.
        floor: Tokens of its system text and last three turns.
        after: Its tokens as sent.
        values: Values that the compacted turns held, and how many of them still stand.
        later: Values that calls behind need of them, and how many of them still stand.
        lost: Values that do not stand any more.
    """

    made: CompactedChat
    before: int
    floor: int
    after: int
    values: tuple[int, int]
    later: tuple[int, int]
    lost: tuple[str, ...]


def desk(count: Count) -> Iterator[DialogueCase]:
    """Customers one after the other, beginning with each of those recorded."""
    them = dialogues("tau")
    for first in range(len(them)):
        queue: list[Dialogue] = []
        while sum(len(one.turns) for one in queue) < _TURNS and first + len(queue) < len(them):
            queue.append(them[first + len(queue)])
        yield from _cases_of_size([_case(join_dialogues(queue))], count)


def clerk(count: Count) -> Iterator[DialogueCase]:
    """Orders one after the other."""
    by: dict[str, list[Dialogue]] = {}
    for one in dialogues("agentdojo"):
        if one.name.endswith("none/none") and "/banking/" in one.name:
            by.setdefault(one.name.split("/user_task")[0], []).append(one)
    for them in by.values():
        yield _case(join_dialogues(them))


def coder(count: Count) -> Iterator[DialogueCase]:
    """Runs of turns of a session about code."""
    return _runs("pi-mono", count)


def reader(count: Count) -> Iterator[DialogueCase]:
    """Runs of turns of chats with chapters in them."""
    return _runs("goodai", count)


#: Makes the cases of a kind.
KINDS: Final = {"desk": desk, "clerk": clerk, "coder": coder, "reader": reader}


def outcome(case: DialogueCase, target: int, count: Count) -> DialogueResult:
    """The result for a case that has to come under so many tokens."""
    messages = case.dialogue.messages
    sent = raws(messages[: case.now])
    policy = CompactionPolicy(force=True, once=True, target=target)
    made = compact(
        sent,
        policy,
        memory=CompactionMemory(),
        context=ConversationContext(count=count),
        names_lost=True,
    )
    end = ends(made)
    whole = [words(orjson.loads(raw)) for raw in made.messages]
    text = plain("\n".join(whole))
    first = 1 if messages[0]["role"] == "system" else 0
    values = {
        value: None
        for message in messages[first:end]
        for value in _VALUE.findall(plain(words(message)))
        if len(value) > 2
    }
    lost = tuple(value for value in values if not holds(text, value))
    calls = tuple(need for need in case.dialogue.needs if need >= case.now)
    needed = at_risk(CompactedRange(case.dialogue, first, end, calls)).values if end > first else ()
    return DialogueResult(
        made=made,
        before=_weight(messages[: case.now], count),
        floor=_weight([*messages[:first], *messages[_start_of_last_turns(case) : case.now]], count),
        after=sum(map(count, whole)),
        values=(len(values), len(values) - len(lost)),
        later=(len(needed), sum(holds(text, value) for _, value in needed)),
        lost=lost,
    )


def main() -> None:
    """Print a row for each kind, and what was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=int, default=3_000)
    parser.add_argument("--lost", type=int, default=12, help="how many lost values to name")
    options = parser.parse_args()
    count = Tokens()
    columns = ["chats", "tokens before", "floor", "over target by it alone", "after, median"]
    columns += ["most", "under target", "values %", "later %"]
    print(f"| | {' | '.join(columns)} |\n|---|{'--:|' * len(columns)}")
    named = {}
    for kind, cases in KINDS.items():
        them = [outcome(case, options.target, count) for case in cases(count)]
        print(_row(kind, them, options.target), flush=True)
        roomy = [each for each in them if 2 * each.floor <= options.target]
        if roomy:
            print(_row(f"{kind}, roomy", roomy, options.target), flush=True)
        named[kind] = [value for each in them for value in each.made.lost or each.lost]
    for kind, lost in named.items():
        print(f"\n{kind}, lost ({len(lost)}): {', '.join(lost[: options.lost])}")


def _weight(messages: Sequence[Message], count: Count) -> int:
    return sum(count(words(message)) for message in messages)


def _start_of_last_turns(case: DialogueCase) -> int:
    """Return where the last three turns begin."""
    return [turn for turn in case.dialogue.turns if turn < case.now][-3]


def _row(kind: str, them: Sequence[DialogueResult], target: int) -> str:
    after = [each.after for each in them]
    cells = [
        str(len(them)),
        f"{median(each.before for each in them):,.0f}",
        f"{median(each.floor for each in them):,.0f}",
        str(sum(each.floor > target for each in them)),
        f"{median(after):,.0f}",
        f"{max(after):,}",
        str(sum(each <= target for each in after)),
        _percent([each.values for each in them]),
        _percent([each.later for each in them]),
    ]
    return f"| {kind} | {' | '.join(cells)} |"


def _percent(them: Sequence[tuple[int, int]]) -> str:
    needed, retained = (sum(column) for column in zip(*them, strict=True))
    return f"{100 * retained / needed:.1f} (n={needed})" if needed else "(n=0)"


def _case(dialogue: Dialogue) -> DialogueCase:
    return DialogueCase(dialogue, dialogue.turns[:_TURNS][-1] + 1)


def _runs(name: str, count: Count) -> Iterator[DialogueCase]:
    for dialogue in dialogues(name):
        turns, begin = dialogue.turns, 0
        while begin + _TURNS < len(turns):
            start, now = turns[begin], turns[begin + _TURNS - 1] + 1
            run = replace(
                dialogue,
                name=f"{dialogue.name}@{start}",
                messages=dialogue.messages[start:],
                needs={each - start: n for each, n in dialogue.needs.items() if each >= start},
                results=frozenset(each - start for each in dialogue.results if each >= start),
            )
            cases = list(_cases_of_size([DialogueCase(run, now - start)], count))
            begin += _TURNS if cases else 1
            yield from cases


def _cases_of_size(them: Sequence[DialogueCase], count: Count) -> Iterator[DialogueCase]:
    """Those of the size that is asked for."""
    for case in them:
        messages = case.dialogue.messages[: case.now]
        if _LIGHT <= _weight(messages, count) <= _HEAVY:
            yield case


if __name__ == "__main__":
    main()
