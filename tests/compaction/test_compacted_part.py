import json

import pytest

from compaction.compacted_part import PartCompactor
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


def compactor_of(*messages: Said, trimmed: float = 1.0) -> PartCompactor:
    part = region(*messages)
    tokens = int(trimmed * sum(message.tokens for message in part.messages))
    fitter = SegmentFitter(part, estimate_tokens)
    return PartCompactor(
        fitter=fitter, at=9, kept=(), index="", beside=_BESIDE, sent_tokens=tokens + _BESIDE
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
