"""The worth of a region's words, and factors of its messages by speaker, age and length."""

from collections.abc import Iterable, Mapping
from typing import Final

from compaction.facts.fact import Region
from compaction.facts.region_contents import RegionContents
from compaction.reading.message import Voice
from compaction.word_worth import RegionWords

#: Factors for users' words, for those before the last turns, and for failed actions.
_USER_FACTOR, _OLD_USER_FACTOR, _FAILURE_FACTOR = 0.85, 0.5, 3.0
#: Last turns in which users' words are no older ones; and the share of what is said from which on
#: users' older words are worth as much, for they are what the talk is about.
_NEW_USER_TURNS, _LEAST_OWN_SHARE = 3, 2 / 3
#: Difference of the factors of the newest and the oldest message: in speech, and in results.
_SPEECH_SPREAD, _RESULTS_SPREAD = 0.4, 0.2
#: Further factor of the newest message where results can be read again, the share of the messages
#: after which it is half, and their least number; and the share of its worth that a word has again.
_FRESH_FACTOR, _HALF_LIFE_SHARE, _LEAST_HALF_LIFE = 6.0, 0.2, 12
_LETTER_AGAIN: Final = 0.65
#: Last turns, which tell what records are needed next.
_CURRENT_TURNS: Final = 2
#: Characters up to which a text is what somebody typed; the factor of a longer one, which may be
#: pasted, is less by its length, down to this.
_TYPED_CHARS, _LEAST_LENGTH_FACTOR = 200, 0.05


def region_words(part: RegionContents, *, decays: bool = False) -> RegionWords:
    """The worth of the words of a region; later messages count as far as they are known.

    Beside records the last turns count as later wherever the region ends: else a record is worth
    less for what is said of it, for that stands already.

    Args:
        part: Region, as it was read.
        decays: True if what was read is soon edited to the letter: words count in each line.
    """
    region = part.region
    messages = [message for pairs in part.messages_by_voice.values() for _, message in pairs]
    start = current_turns_start(region) if part.exchanges and not decays else 0
    later = region.messages[start or region.end : region.point]
    return RegionWords(messages, later, _LETTER_AGAIN if decays else 0.0, part.find)


def current_turns_start(region: Region) -> int:
    """The start of the last turns, which may lie before the region; 0 where these are all."""
    return _turns_start(region, _CURRENT_TURNS)


def _turns_start(region: Region, turns: int) -> int:
    """The start of so many last turns, or the end of the region where that is first; 0 for all."""
    messages = enumerate(region.messages[: region.point])
    users = [index for index, message in messages if message.voice is Voice.USER]
    return min(users[-turns], region.end) if len(users) > turns else 0


def _is_users_own(part: RegionContents) -> bool:
    """True if users say most of what is said."""
    users, others = (
        sum(len(message.text) for _, message in part.messages_of(voice))
        for voice in (Voice.USER, Voice.ASSISTANT)
    )
    return users >= _LEAST_OWN_SHARE * (users + others)


def message_factors(
    part: RegionContents, failures: Iterable[int], *, decays: bool
) -> Mapping[int, float]:
    """The factor of each message of a region: by who speaks, how it ended, and how new it is.

    Args:
        part: Region, as it was read.
        failures: Messages of failed actions, and of those with unknown outcomes.
        decays: True if what was read is soon read again, so that only the newest is worth much.
    """
    region = part.region
    failed = set(failures)
    new_start = 0 if _is_users_own(part) else _turns_start(region, _NEW_USER_TURNS)
    speech = {
        index
        for voice in (Voice.USER, Voice.ASSISTANT)
        for index, message in part.messages_of(voice)
        if not message.calls
    }
    factors = {}
    length = region.end - region.start
    for index in range(region.start, region.end):
        message = region.messages[index]
        age = region.end - 1 - index
        if decays:
            is_task = message.voice is Voice.USER
            factor = 1.0 + _FRESH_FACTOR * (
                1.0 if is_task else 0.5 ** (age / max(_LEAST_HALF_LIFE, _HALF_LIFE_SHARE * length))
            )
        else:
            spread = _SPEECH_SPREAD if index in speech else _RESULTS_SPREAD
            factor = 1.0 + spread * (0.5 - age / length)
            if message.voice is Voice.USER:
                factor *= _USER_FACTOR if index >= new_start else _OLD_USER_FACTOR
            if message.voice is not Voice.RESULT:
                size = _TYPED_CHARS / max(1, len(message.text))
                factor *= max(_LEAST_LENGTH_FACTOR, min(1.0, size))
        factors[index] = factor * (_FAILURE_FACTOR if index in failed else 1.0)
    return factors
