"""Parameters said, bent, dropped with a note, or refused."""

from typing import Any

import orjson
import pytest

from proxy.catalog.entries import Route, Upstream
from proxy.providers.anthropic import request as params
from proxy.providers.chat.chat_body import ChatBody, read
from tests.fakes.refusals import refusing

_SAMPLING = frozenset({"sampling"})


def _body(**fields: object) -> ChatBody:
    return read(orjson.dumps({"messages": [], **fields}))[0]


def _route(max_output: int | None = None) -> Route:
    upstream = Upstream(name="a", kind="anthropic", base_url="https://a.test/v1")
    return Route(name="a/c", upstream=upstream, max_output=max_output)


@pytest.mark.parametrize("count", [0, 2])
def test_a_call_for_another_number_of_answers_than_one_is_refused(count: int) -> None:
    with refusing(400) as caught:
        params.refuse_choices(_body(n=count))

    assert caught.value.param == "n"


def test_parameters_without_a_counterpart_are_dropped_with_one_note() -> None:
    notes: list[str] = []
    params.note_dropped_fields(frozenset({"seed", "logit_bias", "messages", "metadata"}), notes)
    params.note_dropped_fields(frozenset({"messages"}), notes)

    assert notes == ["dropped logit_bias, seed: the model has no such parameter"]


@pytest.mark.parametrize(
    ("fields", "most", "expected", "noted"),
    [
        ({}, None, 4096, False),
        ({}, 64_000, 64_000, False),
        ({"max_tokens": 7}, 64_000, 7, False),
        ({"max_tokens": 70_000}, 64_000, 64_000, True),
    ],
)
def test_the_length_is_always_said(
    fields: dict[str, int], most: int | None, expected: int, *, noted: bool
) -> None:
    notes: list[str] = []

    assert params.max_tokens(_body(**fields), _route(most), notes) == expected
    assert bool(notes) == noted


@pytest.mark.parametrize(
    ("fields", "thinks", "expected", "noted"),
    [
        ({}, False, {}, 0),
        ({"temperature": 0.5, "top_k": 5}, False, {"temperature": 0.5, "top_k": 5}, 0),
        ({"temperature": 1.7}, False, {"temperature": 1}, 1),
        ({"top_p": 0.9}, False, {"top_p": 0.9}, 0),
        ({"temperature": 0, "top_p": 0.9}, False, {"temperature": 0}, 1),
        ({"temperature": 0, "top_p": 0.9}, True, {}, 2),
    ],
)
def test_sampling_goes_as_far_as_the_model_takes_it(
    fields: dict[str, Any], expected: dict[str, Any], noted: int, *, thinks: bool
) -> None:
    notes: list[str] = []

    assert params.sampling(_body(**fields), _SAMPLING, notes, thinks=thinks) == expected
    assert len(notes) == noted


def test_a_model_without_sampling_gets_none() -> None:
    notes: list[str] = []

    assert params.sampling(_body(temperature=1), frozenset(), notes, thinks=False) == {}
    assert notes == ["dropped temperature: the model does not take it at all"]


@pytest.mark.parametrize(
    ("stop", "expected", "noted"),
    [
        (None, [], False),
        ("END", ["END"], False),
        (["a", "\n", ""], ["a"], True),
        ("\n", [], True),
    ],
)
def test_stops_that_say_nothing_are_left_out(
    stop: object, expected: list[str], *, noted: bool
) -> None:
    notes: list[str] = []

    assert params.stop_sequences(_body(stop=stop), notes) == expected
    assert bool(notes) == noted


@pytest.mark.parametrize(
    ("tier", "expected", "noted"),
    [
        (None, None, False),
        ("auto", None, False),
        ("priority", None, False),
        ("default", "standard_only", False),
        ("flex", "standard_only", True),
    ],
)
def test_the_service_tier_is_said_in_its_own_words(
    tier: str | None, expected: str | None, *, noted: bool
) -> None:
    notes: list[str] = []

    assert params.service_tier(_body(service_tier=tier), notes) == expected
    assert bool(notes) == noted


def test_the_end_user_stays_opaque() -> None:
    assert params.end_user(_body()) == ""
    assert params.end_user(_body(user="u")) == "u"
    assert params.end_user(_body(user="u", safety_identifier="s")) == "s"
    assert len(params.end_user(_body(user="u" * 300))) == 64
