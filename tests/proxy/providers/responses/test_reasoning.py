from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.providers.block_order import Order
from proxy.providers.responses.reasoning import Opaque, opened, sealed

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.lists(JSON, min_size=1))
def test_blocks_come_back_equal(blocks: list[Any]) -> None:
    assert opened(sealed(Opaque(thinking_blocks=blocks))) == Opaque(thinking_blocks=blocks)


@given(st.text())
def test_text_comes_back_where_there_are_no_blocks(text: str) -> None:
    assert opened(sealed(Opaque(reasoning_content=text))).reasoning_content == text


def test_blocks_make_the_text_needless() -> None:
    both = Opaque(thinking_blocks=[{"signature": "s"}], reasoning_content="so")

    assert opened(sealed(both)) == Opaque(thinking_blocks=[{"signature": "s"}])


def test_a_seal_is_marked_and_safe_in_a_url() -> None:
    seal = sealed(Opaque(reasoning_content="??>>"))

    assert seal.startswith("tg1.")
    assert seal.removeprefix("tg1.").replace("-", "a").replace("_", "a").isalnum()


@pytest.mark.parametrize("seal", [None, "", "gAAAAABo", "tg2.e30"])
def test_a_seal_of_another_maker_holds_nothing_for_us(seal: str | None) -> None:
    assert not opened(seal)


@pytest.mark.parametrize("seal", ["tg1.", "tg1.e30x", "tg1.é", "tg1.W10", "tg1.a", "tg1.W1tbW1tb"])
def test_our_own_seal_must_be_whole(seal: str | None) -> None:
    with pytest.raises(ValueError, match="as it was given"):
        opened(seal)


def test_joining_keeps_the_order_and_says_what_stood_between() -> None:
    both, order = Opaque(), Order()
    both.join(Opaque(thinking_blocks=[1], reasoning_content="a"), order)
    order.call("t1")
    both.join(Opaque(thinking_blocks=[2, 3], reasoning_content="b"), order)

    assert both.thinking_blocks == [1, {"type": "called", "id": "t1"}, 2, 3]
    assert both.reasoning_content == "ab"


def test_a_seal_of_the_version_before_still_opens() -> None:
    before = "tg1.eyJ0aGlua2luZ19ibG9ja3MiOlt7InR5cGUiOiJ0aGlua2luZyIsInNpZ25hdHVyZSI6InMifV19"

    assert opened(before).thinking_blocks == [{"type": "thinking", "signature": "s"}]


def test_raw_blocks_are_sealed_byte_for_byte() -> None:
    raw = Opaque(thinking_blocks=[msgspec.Raw(b'{"z":1.50,"a":"\\u00e9"}')])

    assert opened(sealed(raw)).thinking_blocks == [{"z": 1.5, "a": "é"}]
