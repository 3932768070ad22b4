"""The bytes that a caller has of a stream, as they are remembered for its continuation."""

import asyncio

import pytest

from proxy.calls.unbroken_delivery import DeliveredStream, SeamReader
from proxy.providers.continuations.chat_seam import read_open_chat
from proxy.providers.readers import PassthroughReader
from tests.fakes.answers import DONE, chunk

_PIECE = chunk("word " * 200)


def read(delivered: DeliveredStream, endpoint: str = "chat/completions"):
    return asyncio.run(delivered.open_answer(endpoint))


@pytest.mark.parametrize("pieces", [1, 40])
def test_the_text_of_what_was_delivered_is_read_whatever_its_length(pieces):
    delivered = DeliveredStream()
    for _ in range(pieces):
        delivered.add(_PIECE)

    answer = read(delivered)
    assert answer is not None
    assert answer.text == "word " * 200 * pieces


def test_a_stream_that_is_too_long_is_forgotten_and_not_continued():
    delivered = DeliveredStream()
    delivered.add(_PIECE * 5_000)
    assert not delivered.is_whole
    delivered.add(_PIECE)

    assert delivered._pieces == []
    assert read(delivered) is None


def test_nothing_delivered_is_not_continued():
    assert read(DeliveredStream()) is None


def test_the_end_of_a_part_is_read_through_its_seam():
    class Ending(PassthroughReader):
        def end(self) -> bytes:
            return chunk("", reason="stop") + DONE

    seam = read_open_chat(chunk("Hello ")).seam(echoes=False)
    reader = SeamReader(Ending(), seam)

    assert reader.feed(chunk(" ")) == b""
    assert reader.end().endswith(DONE)
