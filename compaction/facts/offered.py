"""What the last level may say of a part, and what of it is worth most."""

from collections.abc import Iterator, Mapping, Sequence

from compaction.facts.actions import actions
from compaction.facts.assistant_replies import asked
from compaction.facts.call_records import Say, say_nothing
from compaction.facts.commands import NAMES, commands
from compaction.facts.errors import errors
from compaction.facts.fact import Fact
from compaction.facts.files import files
from compaction.facts.goals import goals
from compaction.facts.mentioned import say_pruned
from compaction.facts.records import records
from compaction.facts.region_contents import Part
from compaction.facts.rules import rules
from compaction.facts.size_fitting import Offer, Ways
from compaction.facts.values import Kept, Told, asked_with, ranked, seen, told, values
from compaction.reading.message import Voice
from compaction.results.pruning import SPOKEN, VALUES
from compaction.results.result_profile import is_rereadable
from compaction.results.value_leaves import ids


def offer_records(part: Part, stands: Sequence[bool]) -> Offer:
    """What may stand for a part whose results are records.

    Args:
        part: What is folded.
        stands: Whether the result of each exchange still stands.
    """

    def exchanged(say: Say) -> list[Fact]:
        return [*actions(part, say, stands), *records(part, say, stands)]

    says = (say_pruned(part, VALUES), say_pruned(part, SPOKEN), say_nothing)
    ways: list[Ways] = [*zip(*map(exchanged, says), strict=True)]
    again = _named_again(part)
    ways.sort(key=lambda each: (again.get(each[0].messages[-1], 0), _last(each)), reverse=True)
    spoken = Kept("\n".join([message.text for _, message in part.spoken(Voice.USER)]))
    said = [*asked(part, 0, spoken), *values(part, spoken)]
    return Offer(marks=_marks(part), exchanged=ways, said=_newest(said))


def offer_commands(part: Part) -> Offer:
    """What may stand for a part whose results can be had again."""
    full, bare = commands(part, NAMES // 4), commands(part, 0)
    ways: list[Ways] = [*zip(full, bare, strict=True)]
    ways += [(each,) for each in (*errors(part), *files(part))]
    ways.sort(key=_last, reverse=True)
    return Offer(
        marks=_marks(part),
        exchanged=ways,
        said=_newest([*asked(part, 0)]),
        names=ranked(seen(_names(part))),
    )


def _marks(part: Part) -> Sequence[Fact]:
    """Goals and rules."""
    return [*goals(part), *rules(part)]


def _last(ways: Ways) -> int:
    """The last message that something is of."""
    return ways[0].messages[-1]


def _newest(facts: Sequence[Fact]) -> Sequence[Fact]:
    """The facts, the newest first."""
    return sorted(facts, key=lambda fact: fact.messages[-1], reverse=True)


def _named_again(part: Part) -> Mapping[int, int]:
    """Of each result whether values of it stand in other messages too: 1 where some do."""
    texts = [*told(part, (Voice.RESULT,))]
    every = [*texts, *told(part, (Voice.ASSISTANT, Voice.USER)), *asked_with(part)]
    found = seen(every)
    return {at: int(any(found[value].times > 1 for value in them)) for at, them in texts}


def _names(part: Part) -> Iterator[Told]:
    """The paths and names of code that messages tell; no record's values, no bare numbers."""
    records = {
        each.messages[-1] for each in part.exchanges if not is_rereadable(each.result, each.called)
    }
    voices = (Voice.RESULT, Voice.ASSISTANT, Voice.USER)
    every = [*told(part, voices, ids), *asked_with(part, ids)]
    for at, them in every:
        if at not in records:
            yield at, [name for name in them if any(map(str.isalpha, name))]
