"""What was folded away and is not sent any more: what of it was needed, and what of it is gone."""

from collections.abc import Iterator
from typing import Final

from compaction.deciding.proof import Evidence
from compaction.reading.message import Called, Voice
from compaction.results.leaves import ids, leaves
from compaction.walk import State, Walk

#: Names of one call that are looked up.
_NAMES: Final = 64
#: Losses that are named.
_NAMED: Final = 200


def needed(walk: Walk, state: State) -> Evidence | None:
    """What the newest tool calls needed of what was folded before they were made.

    A name counts that stood in the folded part and not in what was sent as it came; it is lost
    where the segments do not hold it either. None where no call was made since the last point.

    Args:
        walk: The conversation.
        state: How it stands.
    """
    here = state.tail.end
    folds = [each for each in state.folds if each.at < here]
    before = _asked(walk, here)
    calls = list(_calls(walk, before, here))
    if not folds or not calls:
        return None
    names = dict.fromkeys(name for call in calls for name in ids(call.arguments)[:_NAMES])
    if not names:
        return Evidence()
    cut = folds[-1].segment.end
    segments = "\n".join(each.segment.text for each in folds)
    kept = (walk.talk.messages[at].text for each in folds for at in each.kept)
    as_it_came = walk.talk.words(0, walk.talk.lead) + walk.talk.words(cut, before)
    as_it_came += "\n".join(kept)
    folded = walk.talk.words(walk.talk.lead, cut)
    recalled = "\n".join(each.raw.decode() for each in state.tail.said.values())
    asked = [name for name in names if name not in as_it_came and name in folded]
    lost = sum(name not in segments and name not in recalled for name in asked)
    return Evidence(needed=len(asked), lost=lost)


def losses(walk: Walk, state: State) -> tuple[str, ...]:
    """Values and names that stood in the folded part and are not sent any more, in their order."""
    talk = walk.talk
    folded = range(talk.lead, state.folds[-1].segment.end)
    sent = walk.sent_before(state) + talk.words(state.tail.start, state.tail.end)
    sent += "\n".join(each.raw.decode() for each in state.tail.said.values())
    found: dict[str, None] = {}
    for at in folded:
        message = talk.messages[at]
        names = leaves(message.text) if message.voice is Voice.RESULT else ids(message.text)
        found |= dict.fromkeys(name for name in names if name not in sent)
        if len(found) > _NAMED:
            break
    return tuple(found)[:_NAMED]


def _calls(walk: Walk, start: int, end: int) -> Iterator[Called]:
    """The tool calls that the assistant made between two places."""
    for message in walk.talk.messages[start:end]:
        yield from message.calls


def _asked(walk: Walk, here: int) -> int:
    """The last point before one: where the assistant was asked for what it said since."""
    points = [at for at in walk.talk.points(0) if at < here]
    return points[-1] if points else walk.talk.lead
