"""Messages of vLLM's KV events, in the forms that its versions have had."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.engines.routing.kv_event_messages import decode_batch, decode_message
from proxy.engines.routing.kv_events import AllBlocksCleared, BlockRemoved, BlockStored

TOKENS = list(range(8))
STORED = {
    "block_hashes": [b"h1", b"h2"],
    "parent_block_hash": None,
    "token_ids": TOKENS,
    "block_size": 4,
    "lora_id": None,
    "medium": "GPU",
    "lora_name": None,
    "extra_keys": None,
    "group_idx": 0,
    "kv_cache_spec_kind": "full_attention",
}
FOUND = BlockStored(
    block_hashes=(b"h1", b"h2"), parent_block_hash=None, token_ids=tuple(TOKENS), block_size=4
)


def as_map(tag: str, **fields: Any) -> dict[str, Any]:
    return {"type": tag, **fields}


def stored_event(**changes: Any) -> list[Any]:
    """The event as it is decoded from a batch of maps."""
    event = as_map("BlockStored", **{**STORED, **changes})
    return decode_batch(msgspec.msgpack.encode({"ts": 1.5, "events": [event]}))


def test_events_in_maps_and_in_arrays_are_the_same():
    removed, cleared = {"block_hashes": [b"h1"], "medium": "GPU"}, "AllBlocksCleared"
    maps = [as_map("BlockStored", **STORED), as_map("BlockRemoved", **removed), as_map(cleared)]
    arrays = [["BlockStored", *STORED.values()], ["BlockRemoved", *removed.values()], [cleared]]
    expected = [FOUND, BlockRemoved(block_hashes=(b"h1",)), AllBlocksCleared()]

    for events in (maps, arrays):
        for batch in ({"ts": 1.5, "events": events}, [1.5, events], [1.5, events, 0]):
            assert decode_batch(msgspec.msgpack.encode(batch)) == expected


def test_the_oldest_form_has_whole_numbers_for_hashes_and_fewer_fields():
    event = ["BlockStored", [11, 12], None, TOKENS, 4, None]
    events = decode_batch(msgspec.msgpack.encode([1.5, [event, ["BlockRemoved", [11]]]]))

    assert events == [
        BlockStored(
            block_hashes=(11, 12), parent_block_hash=None, token_ids=tuple(TOKENS), block_size=4
        ),
        BlockRemoved(block_hashes=(11,)),
    ]


def test_a_message_is_a_topic_a_number_and_a_batch():
    batch = msgspec.msgpack.encode([1.5, []])

    assert decode_message([b"kv", (7).to_bytes(8, "big"), batch]) == (7, [])
    for parts in ([], [batch], [b"", b"\x01", batch], [b"", (7).to_bytes(8, "big"), b"\xc1"]):
        with pytest.raises(ValueError, match=r"message|batch"):
            decode_message(parts)


@pytest.mark.parametrize("keys", [["acme"], [["cache_salt", "acme"]]])
def test_the_salt_of_a_prompt_stands_in_its_first_block(keys: list[Any]):
    (event,) = stored_event(extra_keys=[keys, None])

    assert (event.cache_salt, event.block_hashes) == ("acme", (b"h1", b"h2"))


@pytest.mark.parametrize(
    "changes",
    [
        {"medium": "CPU"},
        {"kv_cache_spec_kind": "mamba"},
        {"kv_cache_spec_kind": "sliding_window"},
        {"lora_name": "tuned"},
        {"lora_id": 3},
        {"token_ids": TOKENS[:7]},
        {"block_size": 0},
        {"extra_keys": [["acme", "image"], None]},
        {"extra_keys": [[["image", 5]], None]},
        {"parent_block_hash": b"h0", "extra_keys": [[["image", 5]], None]},
    ],
)
def test_blocks_that_cannot_be_known_by_their_tokens_are_left_out(changes: dict[str, Any]):
    assert stored_event(**changes) == []


def test_blocks_from_an_image_on_are_left_out():
    (event,) = stored_event(extra_keys=[None, [["image", 5]]])

    assert (event.block_hashes, event.token_ids) == ((b"h1",), tuple(TOKENS[:4]))


def test_events_of_unknown_kinds_are_passed_over():
    batch = [1.5, [["BlockMoved", [1]], ["AllBlocksCleared"]]]

    assert decode_batch(msgspec.msgpack.encode(batch)) == [AllBlocksCleared()]


@pytest.mark.parametrize(
    "batch",
    [3, {}, [], [1.5], [1.5, [3]], [1.5, [[]]], [1.5, [["BlockStored"]]], {"events": [{"a": 1}]}],
)
def test_a_message_that_is_no_batch_is_a_value_error(batch: Any):
    with pytest.raises(ValueError, match="batch"):
        decode_batch(msgspec.msgpack.encode(batch))


@given(st.binary(max_size=60))
def test_any_bytes_are_a_batch_or_a_value_error(payload: bytes):
    try:
        decode_batch(payload)
    except ValueError:
        return
