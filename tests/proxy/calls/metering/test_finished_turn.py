"""Turns that could be gone on from: what the model got, and what it said."""

import msgspec
import orjson
import pytest

from proxy.calls.metering.finished_turn import finished_turn
from proxy.calls.metering.metering import Meter
from proxy.calls.metering.settlement import AttemptInfo
from proxy.catalog.entries import Upstream
from proxy.providers.answers.usage import openai_usage
from tests.fakes.answers import DONE, chunk
from tests.fakes.call_dependencies import call, route

BODY = b'{"model":"m","messages":[{"role":"user","content":"Hello"}]}'


def meter_of(*runs: bytes, bound: int = 4096) -> Meter:
    meter = Meter(openai_usage, streamed=True, bound=bound)
    for run in runs:
        meter.feed(run)
    return meter


def test_a_turn_that_ended_well_has_its_call_and_its_answer():
    turn = finished_turn(AttemptInfo(call=call(BODY)), meter_of(chunk("Good "), chunk("day"), DONE))

    assert turn is not None
    assert turn.call.body == BODY
    assert orjson.loads(turn.answer() or b"") == {"role": "assistant", "content": "Good day"}


def test_an_answer_of_which_a_part_was_not_kept_is_not_known():
    runs = chunk("Good "), chunk("x" * 500), DONE
    turn = finished_turn(AttemptInfo(call=call(BODY)), meter_of(*runs, bound=400))

    assert turn is not None
    assert turn.answer() is None


@pytest.mark.parametrize(
    "meter",
    [
        None,
        meter_of(chunk("Good ")),
        meter_of(chunk("Good "), b'data: {"error":{"message":"no"}}\n\n', DONE),
    ],
)
def test_a_turn_without_a_good_end_is_none(meter: Meter | None):
    assert finished_turn(AttemptInfo(call=call(BODY)), meter) is None


def test_a_part_of_an_answer_is_no_turn():
    info = AttemptInfo(call=call(BODY), continued=call(BODY))

    assert finished_turn(info, meter_of(chunk("day"), DONE)) is None


ITEM = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}
ENDED = b"data: %s\n\n" % orjson.dumps(
    {"type": "response.completed", "response": {"output": [ITEM]}}
)
ASKED = call(b'{"model":"m","input":"Hello"}', endpoint="responses")


def test_a_turn_of_a_responses_call_has_the_items_that_its_engine_wrote():
    engine = route("m", upstream=Upstream(name="house:0", kind="openai", base_url="http://a/v1"))
    turn = finished_turn(AttemptInfo(call=ASKED, route=engine), meter_of(ENDED))

    assert turn is not None
    assert turn.call is ASKED
    assert orjson.loads(turn.answer() or b"") == [ITEM]


def test_a_turn_of_a_responses_call_that_an_engine_got_in_chat_has_items_too():
    upstream = Upstream(
        name="house:0", kind="openai", base_url="http://a/v1", serves_responses=False
    )
    info = AttemptInfo(call=ASKED, route=route("m", upstream=upstream))
    turn = finished_turn(info, meter_of(chunk("Good day"), DONE))

    assert turn is not None
    assert orjson.loads(turn.answer() or b"") == [
        {"type": "message", "role": "assistant", "content": "Good day"}
    ]


def test_other_endpoints_and_calls_that_nobody_waits_for_have_no_turns():
    meter = meter_of(chunk("Good day"), DONE)
    warming = msgspec.structs.replace(call(BODY), feature="warming:chat")

    assert finished_turn(AttemptInfo(call=call(BODY, endpoint="completions")), meter) is None
    assert finished_turn(AttemptInfo(call=warming), meter) is None
