"""What was run, and how it ended."""

from collections.abc import Iterator, Mapping
from typing import Final

from compaction.facts.call_outcomes import action_outcome
from compaction.facts.fact import Fact, Kind
from compaction.facts.outcome import Outcome
from compaction.facts.purposes import purposes
from compaction.facts.region_contents import Exchange, Part
from compaction.facts.repeated import Said
from compaction.facts.shown import names as shared_out
from compaction.facts.shown import weight
from compaction.reading.redaction import redacted
from compaction.reading.token_estimate import estimate
from compaction.results.rereadable_results import MOST_FAULTS
from compaction.results.result_profile import is_rereadable

#: Characters of an argument that stay.
ARGUMENT: Final = 160
#: All the room that there is for names.
NAMES: Final = 400
#: The share of a part's tokens that the lines that say what went wrong may take,
_FAULTS: Final = 0.03
#: and what a short part has in any case.
_LEAST: Final = 300
#: Stands where something was left out, so that no list is read as if it were whole.
MORE: Final = "…"


def commands(part: Part, names: int = NAMES, share: float = 1.0) -> Iterator[Fact]:
    """Each call with what for, how it ended and the names in what came back.

    Of equal calls the latest stays. What calls were for is said where names have all their room.

    Args:
        part: What is folded.
        names: How much of the room for names is taken, of ``NAMES``.
        share: The part of the calls that stays: the latest ones.
    """
    keys = [each.key for each in part.exchanges]
    last = {key: at for at, key in enumerate(keys)}
    latest = [last[key] if key else at for at, key in enumerate(keys)]
    first = len(keys) - round(len(keys) * share)
    say = Said(ARGUMENT)
    ended = {
        at: Outcome(each)
        for at, each in enumerate(part.exchanges)
        if at >= first and latest[at] == at
    }
    told = {at: _with_outcome(part.exchanges[at], said) for at, said in _told(part, ended).items()}
    called = {at: say(part.exchanges[at].called) for at in ended if keys[at]}
    if names == NAMES:
        meant = purposes(part, called, weight(part))
        called |= {at: f"{called[at]} # {why}" for at, why in meant.items()}
    lines = {at: (called.get(at, ""), told[at]) for at in ended}
    whole = {at: " ".join(line) for at, line in lines.items()}
    shown, short = shared_out(part, whole, latest, names / NAMES)
    for at, line in lines.items():
        each = part.exchanges[at]
        more = _more(ended[at], short=at in short, empty=not shown.get(at))
        named = " ".join([*shown.get(at, ()), *more])
        yield Fact(
            kind=Kind.COMMAND,
            text=redacted(" → ".join(filter(None, [*line, named]))),
            turns=(each.turn,),
            messages=each.messages,
            key=keys[at],
        )


def _with_outcome(each: Exchange, said: str) -> str:
    """How a call ended; in a word where an action would stand without, or nothing came back."""
    if (
        said
        or not (each.acts or not each.result)
        or (each.result and is_rereadable("", each.called))
    ):
        return said
    return action_outcome(each)


def _told(part: Part, ended: Mapping[int, Outcome]) -> Mapping[int, str]:
    """How each ended; the latest say all that went wrong, the others no more than there is room."""
    room = max(_LEAST, weight(part) * _FAULTS)
    told: dict[int, str] = {}
    for at in reversed(list(ended)):
        most = MOST_FAULTS if room > 0 else int(ended[at].is_wrong)
        told[at] = ended[at].said(most)
        if not ended[at].is_whole:
            room -= estimate(told[at])
    return told


def _more(ended: Outcome, *, short: bool, empty: bool) -> tuple[str, ...]:
    """The sign that more came back than is said: other names, or what has none."""
    if ended.is_whole:
        return ()
    return (MORE,) if short or (empty and not ended.faults(1)) else ()
