"""Content blocks while they are written."""

import orjson
import pytest
from msgspec import Raw

from proxy.providers.messages.blocks import (
    opaque_block,
    read_opaque,
    text_block,
    thinking_block,
    tool_use_block,
)
from proxy.providers.messages.signatures import own_signature


def test_words_are_deltas_and_a_whole_block() -> None:
    block = text_block(2)
    start, (delta,), (stop,) = block.start(), block.write("Hi"), block.close()

    assert start["content_block"] == {"type": "text", "text": ""}
    assert delta["delta"] == {"type": "text_delta", "text": "Hi"}
    assert [event["index"] for event in (start, delta, stop)] == [2, 2, 2]
    assert block.whole() == {"type": "text", "text": "Hi"}


@pytest.mark.parametrize(
    ("shown", "signature", "whole"),
    [
        (True, "", ("Hm.", own_signature())),
        (False, "", ("", own_signature("Hm."))),
        (True, "c2ln", ("Hm.", "c2ln")),
    ],
)
def test_reasoning_is_signed_at_its_end(
    *, shown: bool, signature: str, whole: tuple[str, str]
) -> None:
    block = thinking_block(0, shown=shown, signature=signature)
    thought = [*block.write("Hm.")]
    signed, stop = block.close()

    assert [event["delta"]["thinking"] for event in thought] == (["Hm."] if shown else [])
    assert signed["delta"] == {"type": "signature_delta", "signature": whole[1]}
    assert stop["type"] == "content_block_stop"
    assert block.whole() == {"type": "thinking", "thinking": whole[0], "signature": whole[1]}


def test_an_opaque_block_is_whole_at_its_start() -> None:
    redacted = {"type": "redacted_thinking", "data": "x"}
    block = opaque_block(0, redacted)

    assert block.start()["content_block"] == block.whole() == redacted
    assert read_opaque(Raw(orjson.dumps(redacted))) == redacted
    assert read_opaque(Raw(b"[]")) is None


@pytest.mark.parametrize(
    ("pieces", "whole", "complete"),
    [
        (['{"a": ', "1}"], b'{"a": 1}', True),
        ([], b"{}", False),
        (['{"a": '], b'{"arguments":"{\\"a\\": "}', False),
        (["[1]"], b'{"arguments":"[1]"}', False),
    ],
)
def test_arguments_are_an_input_byte_for_byte_and_never_lost(
    *, pieces: list[str], whole: bytes, complete: bool
) -> None:
    block = tool_use_block(0, "t1", "weather")
    written = [event["delta"]["partial_json"] for piece in pieces for event in block.write(piece)]

    assert written == pieces
    assert block.is_complete is complete
    arguments = block.whole()["input"]
    assert (bytes(arguments) if isinstance(arguments, Raw) else orjson.dumps(arguments)) == whole
