from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.providers.chat.block_order import BlockOrder
from proxy.providers.responses.reasoning import OpaqueParts, seal_parts, unseal_parts

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.slow
@given(st.lists(JSON, min_size=1))
def test_blocks_come_back_equal(blocks: list[Any]) -> None:
    assert unseal_parts(seal_parts(OpaqueParts(thinking_blocks=blocks))) == OpaqueParts(
        thinking_blocks=blocks
    )


@given(st.text())
def test_text_comes_back_where_there_are_no_blocks(text: str) -> None:
    assert unseal_parts(seal_parts(OpaqueParts(reasoning_content=text))).reasoning_content == text


def test_a_seal_with_thinking_blocks_leaves_out_their_text() -> None:
    both = OpaqueParts(thinking_blocks=[{"signature": "s"}], reasoning_content="so")

    assert unseal_parts(seal_parts(both)) == OpaqueParts(thinking_blocks=[{"signature": "s"}])


def test_a_seal_is_marked_and_safe_in_a_url() -> None:
    seal = seal_parts(OpaqueParts(reasoning_content="??>>"))

    assert seal.startswith("tg1.")
    assert seal.removeprefix("tg1.").replace("-", "a").replace("_", "a").isalnum()


@pytest.mark.parametrize("seal", [None, "", "gAAAAABo", "tg2.e30"])
def test_a_seal_of_another_maker_holds_nothing_for_us(seal: str | None) -> None:
    assert not unseal_parts(seal)


@pytest.mark.parametrize("seal", ["tg1.", "tg1.e30x", "tg1.é", "tg1.W10", "tg1.a", "tg1.W1tbW1tb"])
def test_a_changed_seal_of_the_gateway_is_refused(seal: str | None) -> None:
    with pytest.raises(ValueError, match="as it was given"):
        unseal_parts(seal)


def test_joining_keeps_the_order_and_says_what_stood_between() -> None:
    both, order = OpaqueParts(), BlockOrder()
    both.join(OpaqueParts(thinking_blocks=[1], reasoning_content="a"), order)
    order.note_call("t1")
    both.join(OpaqueParts(thinking_blocks=[2, 3], reasoning_content="b"), order)

    assert both.thinking_blocks == [1, {"type": "called", "id": "t1"}, 2, 3]
    assert both.reasoning_content == "ab"


def test_a_seal_of_the_version_before_still_opens() -> None:
    before = "tg1.eyJ0aGlua2luZ19ibG9ja3MiOlt7InR5cGUiOiJ0aGlua2luZyIsInNpZ25hdHVyZSI6InMifV19"

    assert unseal_parts(before).thinking_blocks == [{"type": "thinking", "signature": "s"}]


def test_raw_blocks_are_sealed_byte_for_byte() -> None:
    raw = OpaqueParts(thinking_blocks=[msgspec.Raw(b'{"z":1.50,"a":"\\u00e9"}')])

    assert unseal_parts(seal_parts(raw)).thinking_blocks == [{"z": 1.5, "a": "é"}]
