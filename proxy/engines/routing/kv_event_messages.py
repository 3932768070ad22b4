"""Reads vLLM's messages of KV events; pure.

A message has three parts: a topic, a number that counts batches (8 bytes, big-endian), and a batch
in msgpack. Batches and events are arrays in some versions and maps in others: both are read.

Source: vLLM, ``vllm/distributed/kv_events.py``, of 0.9 and of 2026-11; 0.32.0 as it was run.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from proxy.engines.routing.kv_events import AllBlocksCleared, BlockRemoved, BlockStored, KvEvent

#: Larger batches are not read.
MAX_BATCH_BYTES: Final = 32 * 1024 * 1024
_SEQUENCE_BYTES: Final = 8
_TAG: Final = "type"
_STORED_FIELDS: Final = (
    "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium",
    "lora_name", "extra_keys", "group_idx", "kv_cache_spec_kind",
)  # fmt: skip
_REMOVED_FIELDS: Final = ("block_hashes", "medium", "group_idx")
#: Where blocks lie that a prompt can be read from at once.
_NEAR: Final = frozenset({None, "GPU", ""})
#: Caches of whole prefixes; others, such as of windows or states, hold no prefix by themselves.
_FULL: Final = frozenset({None, "", "full_attention"})
_SALT: Final = "cache_salt"


def decode_message(parts: Sequence[bytes]) -> tuple[int, list[KvEvent]]:
    """The number of a batch, and its events in their order; what is of no use is left out.

    Raises:
        ValueError: If it is no such message.
    """
    if len(parts) < 2 or len(parts[-2]) != _SEQUENCE_BYTES:
        raise ValueError(f"a message has {len(parts)} parts, or no number")
    return int.from_bytes(parts[-2], "big"), decode_batch(parts[-1])


def decode_batch(payload: bytes) -> list[KvEvent]:
    """The events of a batch.

    Raises:
        ValueError: If it cannot be read.
    """
    if len(payload) > MAX_BATCH_BYTES:
        raise ValueError(f"a batch has {len(payload)} bytes")
    try:
        batch = msgspec.msgpack.decode(payload)
        events = batch["events"] if isinstance(batch, dict) else batch[1]
        return [event for raw in events if (event := _event(raw)) is not None]
    except (msgspec.DecodeError, KeyError, IndexError, TypeError, RecursionError) as error:
        raise ValueError(f"a batch cannot be read: {error!r}") from None


def _event(raw: Any) -> KvEvent | None:  # noqa: ANN401 - as it was decoded
    """An event; None for one of another kind, or of blocks that cannot be known by their tokens."""
    tag = raw[_TAG] if isinstance(raw, dict) else raw[0]
    if tag == "AllBlocksCleared":
        return AllBlocksCleared()
    if tag == "BlockRemoved":
        fields = _fields(raw, _REMOVED_FIELDS)
        if fields.get("medium") not in _NEAR:
            return None
        return BlockRemoved(block_hashes=tuple(fields["block_hashes"]))
    return _stored_blocks(_fields(raw, _STORED_FIELDS)) if tag == "BlockStored" else None


def _fields(raw: Any, names: Sequence[str]) -> Mapping[str, Any]:  # noqa: ANN401
    return raw if isinstance(raw, dict) else dict(zip(names, raw[1:], strict=False))


def _stored_blocks(fields: Mapping[str, Any]) -> BlockStored | None:
    hashes, size = fields["block_hashes"], int(fields["block_size"])
    tokens, parent = fields["token_ids"], fields["parent_block_hash"]
    is_known = (
        fields.get("medium") in _NEAR
        and fields.get("kv_cache_spec_kind") in _FULL
        and fields.get("lora_name") is None
        and fields.get("lora_id") is None
        and size > 0
        and len(tokens) == size * len(hashes)
    )
    keys = list(fields.get("extra_keys") or ())
    first = keys[0] if keys else None
    salt = _salt(first) if parent is None else ""
    if not is_known or salt is None or (parent is not None and first):
        return None
    # Images and the like make the blocks after them others than their tokens tell.
    plain = next((n for n, key in enumerate(keys) if n and key), len(hashes))
    return BlockStored(
        block_hashes=tuple(hashes[:plain]),
        parent_block_hash=parent,
        token_ids=tuple(tokens[: plain * size]),
        block_size=size,
        cache_salt=salt,
    )


def _salt(keys: Any) -> str | None:  # noqa: ANN401
    """The salt among the keys of a prompt's first block; "" for none, None for other keys."""
    if not keys:
        return ""
    only = keys[0] if len(keys) == 1 else None
    if isinstance(only, list | tuple) and len(only) == 2 and only[0] == _SALT:
        only = only[1]
    return only if isinstance(only, str) else None
