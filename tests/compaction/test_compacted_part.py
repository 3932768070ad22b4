import json
from typing import Any

import pytest

from compaction.compacted_part import PartCompactor, SegmentCache, region_digest
from compaction.facts.fact import Fact, FactKind, Segment
from compaction.facts.segment_fitting import SegmentFitter
from compaction.reading.token_estimate import estimate_tokens
from tests.compaction.facts.regions import Said, assistant, call_and_result, region, user

_BESIDE = 90


def desk(number: int) -> list[Said]:
    order = json.dumps({f"item{place}": f"SKU-{number}{place}{place}7" for place in range(12)})
    return [
        user(f"Where is {number}?"),
        call_and_result("get_order", order, f"c{number}", number=number),
    ]


DESK: list[Said] = [message for number in range(20) for message in desk(number)]
CHAT: list[Said] = [
    message
    for number in range(9)
    for message in (user(f"Is shop {number} open?"), assistant(f"Shop {number} opens at {number}."))
]


def compactor_of(
    *messages: Said, trimmed: float = 1.0, segments: SegmentCache | None = None
) -> PartCompactor:
    part = region(*messages)
    tokens = int(trimmed * sum(message.tokens for message in part.messages))
    fitter = SegmentFitter(part, estimate_tokens)
    return PartCompactor(
        fitter=fitter,
        key=(region_digest(part),),
        segments=SegmentCache(9, 1 << 20) if segments is None else segments,
        at=9,
        kept=(),
        index="",
        beside=_BESIDE,
        sent_tokens=tokens + _BESIDE,
    )


@pytest.mark.parametrize("trimmed", [0.8, 1.0], ids=["not all fits", "all fits"])
def test_likely_size_of_a_desk_is_about_what_its_segment_takes(trimmed):
    compactor = compactor_of(*DESK, trimmed=trimmed)

    likely_tokens, tokens = compactor.likely_tokens(), compactor.part().tokens

    assert 0.95 * tokens < likely_tokens < 1.02 * tokens


def test_likely_size_of_a_plain_chat_is_what_its_segment_takes():
    compactor = compactor_of(*CHAT)

    assert compactor.likely_tokens() == compactor.part().tokens


@pytest.mark.parametrize("max_tokens", [400, 600, 900])
def test_a_part_within_a_target_counts_the_messages_beside_its_segment(max_tokens):
    part = compactor_of(*DESK).part_within(max_tokens)

    assert part.segment.tokens + _BESIDE < part.tokens <= max_tokens


def test_the_segment_of_an_equal_part_is_made_once_as_long_as_it_is_remembered():
    segments = SegmentCache(9, 1 << 20)
    segment = compactor_of(*DESK, segments=segments).part().segment

    assert compactor_of(*DESK, segments=segments).part().segment is segment
    assert compactor_of(*DESK).part().segment is not segment
    assert compactor_of(*DESK[2:], segments=segments).part().segment != segment
    assert len(segments) == 2


def test_the_segment_of_a_part_to_another_size_is_made_anew():
    segments = SegmentCache(9, 1 << 20)
    compactor = compactor_of(*DESK, segments=segments)

    assert compactor.part_within(600).tokens <= 600 < compactor.part_within(900).tokens


@pytest.mark.parametrize(
    ("place", "is_same"), [(0, True), (1, True), (2, False), (5, False), (6, False), (7, True)]
)
def test_a_part_is_known_again_if_only_messages_away_from_it_were_edited(place, is_same):
    edited = [*CHAT]
    edited[place] = {**CHAT[place], "content": "Something else."}
    bounds = {"start": 2, "end": 4, "point": 6}

    digests = [region_digest(region(*chat, **bounds)) for chat in (CHAT, edited)]

    assert (digests[0] == digests[1]) is is_same


def test_a_part_of_calls_is_another_where_the_last_turns_before_it_were_edited():
    calls = [call_and_result("get_order", f"order {number}", f"c{number}") for number in range(9)]
    messages: list[Any] = [
        user("Hello."),
        user("Find the shoes."),
        user("Then their price."),
        *calls,
    ]
    bounds = {"start": 5, "end": 9, "point": 15}

    digests = [
        region_digest(
            region(*messages[:place], user("Find the hats."), *messages[place + 1 :], **bounds)
        )
        for place in range(3)
    ]

    assert digests[0] == region_digest(region(*messages, **bounds))
    assert len({*digests}) == 3


@pytest.mark.parametrize(
    "changed", [{"start": 4}, {"end": 8}, {"point": 9}, {"kept": frozenset({3})}]
)
def test_a_part_with_other_bounds_is_another(changed):
    bounds = {"start": 2, "end": 6, "point": 8}

    assert region_digest(region(*CHAT, **bounds | changed)) != region_digest(
        region(*CHAT, **bounds)
    )


def test_a_part_whose_first_message_is_of_another_turn_is_another():
    bounds = {"start": 2, "end": 6, "point": 8}
    one_speaker = [assistant("Good morning."), *CHAT[1:]]

    assert region_digest(region(*one_speaker, **bounds)) != region_digest(region(*CHAT, **bounds))


@pytest.mark.parametrize(
    ("kind", "is_same"),
    [(FactKind.USER, True), (FactKind.COMMAND, False), (FactKind.ACTION, False)],
)
def test_of_earlier_segments_only_calls_and_heads_tell_a_part_from_another(kind, is_same):
    def earlier(text: str) -> Segment:
        fact = Fact(kind=kind, text=text, turns=(1,), messages=(0,))
        return Segment(start=0, end=2, facts=(fact,), text=f"[head]\n{text}", tokens=9, before=9)

    digests = [
        region_digest(region(*CHAT, start=2, end=6, earlier=(earlier(text),)))
        for text in ("one", "another")
    ]

    assert (digests[0] == digests[1]) is is_same
