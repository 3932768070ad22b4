"""Cache markers of the caller, kept through the translation."""

import msgspec
import pytest
from msgspec import Raw

from proxy.providers.chat.chat_body import CacheMarkable
from proxy.providers.chat.marked_blocks import Block, limit_markers, mark_last_block, with_marker

_RAW = Raw(b'{"type": "ephemeral", "ttl": "1h"}')


def _blocks(count: int) -> list[Block]:
    return [{"n": n, "cache_control": {"type": "ephemeral"}} for n in range(count)]


def _marked_numbers(blocks: list[Block]) -> list[int]:
    return [block["n"] for block in blocks if "cache_control" in block]


def test_a_marker_of_anthropic_passes_byte_for_byte() -> None:
    assert with_marker({}, CacheMarkable(cache_control=_RAW))["cache_control"] is _RAW


@pytest.mark.parametrize(
    ("ttl", "expected"),
    [
        (None, {"type": "ephemeral"}),
        ("30m", {"type": "ephemeral"}),
        ("12h", {"type": "ephemeral", "ttl": "1h"}),
    ],
)
def test_a_breakpoint_of_openai_becomes_the_marker_of_the_same_price(
    ttl: str | None, expected: dict[str, str]
) -> None:
    mark = CacheMarkable(prompt_cache_breakpoint=Raw(msgspec.json.encode({"ttl": ttl})))

    assert with_marker({}, mark) == {"cache_control": expected}


def test_the_first_carrier_with_a_marker_goes_before_the_others() -> None:
    later = CacheMarkable(prompt_cache_breakpoint=Raw(b"{}"))

    assert (
        with_marker({}, CacheMarkable(), CacheMarkable(cache_control=_RAW), later)["cache_control"]
        is _RAW
    )
    assert with_marker({}, CacheMarkable(), CacheMarkable()) == {}


def test_a_messages_own_marker_goes_to_its_last_block() -> None:
    assert mark_last_block([{}, {}], CacheMarkable(cache_control=_RAW)) == [
        {},
        {"cache_control": _RAW},
    ]
    assert mark_last_block([], CacheMarkable(cache_control=_RAW)) == []


def test_a_blocks_own_marker_goes_before_the_messages() -> None:
    assert mark_last_block([{"cache_control": 1}], CacheMarkable(cache_control=_RAW)) == [
        {"cache_control": 1}
    ]


@pytest.mark.parametrize(
    ("count", "automatic", "numbers"),
    [
        (4, False, [0, 1, 2, 3]),
        (6, False, [0, 3, 4, 5]),
        (4, True, [0, 2, 3]),
        (3, True, [0, 1, 2]),
    ],
)
def test_the_first_marker_and_the_latest_are_kept(
    count: int, numbers: list[int], *, automatic: bool
) -> None:
    blocks = _blocks(count)
    notes: list[str] = []
    limit_markers([{}, *blocks], notes, automatic=automatic)

    assert _marked_numbers(blocks) == numbers
    assert bool(notes) == (len(numbers) < count)
