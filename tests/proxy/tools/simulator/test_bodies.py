"""Checks that every endpoint shares."""

import pytest

from proxy.errors import UpstreamError
from proxy.tools.simulator.bodies import (
    output_bound,
    parse_body,
    required_field,
    stops,
    to_json,
    tokens,
    ttl,
    wants_usage_chunk,
)
from proxy.tools.simulator.models import SimulatedModel


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"5"])
def test_a_body_is_a_json_object(raw: bytes) -> None:
    with pytest.raises(UpstreamError) as refused:
        parse_body(raw)

    assert refused.value.status == 400


@pytest.mark.parametrize(
    ("body", "code"),
    [({}, "missing_required_parameter"), ({"a": 5}, "invalid_type"), ({"a": ""}, "invalid_type")],
)
def test_a_required_field_is_there_and_full(body: dict[str, object], code: str) -> None:
    with pytest.raises(UpstreamError) as refused:
        required_field(body, "a", str)

    assert (refused.value.code, refused.value.param) == (code, "a")
    assert required_field({"a": "b"}, "a", str) == "b"


def test_the_first_bound_given_holds_up_to_the_models_own() -> None:
    assert output_bound({"b": 7}, ("a", "b"), 100) == 7
    assert output_bound({"a": None}, ("a", "b"), 100) == 100
    assert output_bound({"a": 700}, ("a", "b"), 100) == 100


@pytest.mark.parametrize("bound", [0, -1, "7", 1.5, True])
def test_a_bound_is_a_positive_integer(bound: object) -> None:
    with pytest.raises(UpstreamError):
        output_bound({"a": bound}, ("a",), 100)


def test_a_breakpoint_has_a_lifetime() -> None:
    assert ttl(None, "5m") is None
    assert ttl({"type": "ephemeral"}, "5m") == "5m"
    assert ttl({"ttl": "1h"}, "5m") == "1h"
    with pytest.raises(UpstreamError):
        ttl({"ttl": "2h"}, "5m")


def test_stop_sequences_come_alone_or_in_a_list() -> None:
    assert stops(None) == ()
    assert stops("a") == ("a",)
    assert stops(["a", "b"]) == ("a", "b")


def test_a_stop_sequence_is_a_text() -> None:
    assert stops("") == ()
    for wrong in (5, [5], {"a": 1}):
        with pytest.raises(UpstreamError):
            stops(wrong)


def test_token_ids_are_whole_numbers_of_a_vocabulary() -> None:
    assert tokens([1, 2]) == (1, 2)
    for wrong in ("a", None, [], [True], [-1], [2**20], [1, "a"]):
        assert tokens(wrong) == ()


def test_keys_keep_their_order() -> None:
    assert to_json({"b": 1, "a": 2}) == '{"b":1,"a":2}'


def test_a_stream_tells_its_usage_as_its_provider_lets_callers_choose() -> None:
    chosen, unasked = SimulatedModel(), SimulatedModel(asks_usage=False)
    asks: dict[str, object] = {"stream_options": {"include_usage": True}}

    assert wants_usage_chunk(asks, chosen)
    assert not wants_usage_chunk({}, chosen)
    assert wants_usage_chunk({}, unasked)
    with pytest.raises(UpstreamError, match="Extra inputs") as caught:
        wants_usage_chunk(asks, unasked)
    assert caught.value.status == 422
