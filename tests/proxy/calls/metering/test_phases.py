"""The time of an engine's call, split into phases that add up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.calls.metering.phases import phase_fields
from proxy.providers.answers.engine_timings import EngineTimings
from proxy.records.receipt import PhasesFrom
from proxy.records.timeline import Timeline

VLLM = EngineTimings(queue=0.1, prefill=0.2, decode=1.0, draft_tokens=8, accepted_tokens=6)
LLAMACPP = EngineTimings(prefill=0.2, decode=1.0)


class SteppedCall:
    """A call whose clock is moved by hand: the gateway works, then waits, then ends."""

    def __init__(self, gateway: float = 0.01, wait: float = 0.5, rest: float = 1.0) -> None:
        self.at = 100.0
        self.timeline = Timeline(lambda: self.at)
        self.at += gateway
        self.sent_at = self.at
        for seconds in (wait, rest):
            with self.timeline.waiting:
                self.at += seconds
            self.timeline.mark_first_content()

    def fields(self, timings: EngineTimings | None, *, streamed: bool = True) -> dict[str, object]:
        return phase_fields(timings, self.timeline, self.sent_at, streamed=streamed)


def test_an_engine_that_reports_all_phases_is_believed_and_transfer_is_the_rest() -> None:
    phases = SteppedCall().fields(VLLM)

    assert phases == {
        "queue": 0.1,
        "prefill": 0.2,
        "decode": 1.0,
        "transfer": pytest.approx(0.2),
        "phases_from": PhasesFrom.ENGINE,
        "draft_tokens": 8,
        "accepted_tokens": 6,
    }


def test_without_a_reported_queue_it_is_the_rest_of_the_wait_for_the_first_content() -> None:
    phases = SteppedCall(wait=0.5, rest=1.0).fields(LLAMACPP)

    assert (phases["queue"], phases["phases_from"]) == (pytest.approx(0.3), PhasesFrom.BOTH)
    assert phases["transfer"] == pytest.approx(0.0)


def test_a_whole_answer_waits_for_its_decode_too_before_its_first_byte() -> None:
    phases = SteppedCall(wait=1.5, rest=0.0).fields(LLAMACPP, streamed=False)

    assert phases["queue"] == pytest.approx(0.3)


def test_an_engine_that_reports_nothing_gets_no_phases() -> None:
    assert SteppedCall().fields(None) == {}


def test_draft_tokens_are_kept_where_the_times_are_missing() -> None:
    phases = SteppedCall().fields(EngineTimings(draft_tokens=4, accepted_tokens=1))

    assert phases == {"draft_tokens": 4, "accepted_tokens": 1}


def test_a_call_that_was_never_sent_has_no_phases() -> None:
    call = SteppedCall()

    assert phase_fields(VLLM, call.timeline, None, streamed=True) == {}


SECONDS = st.floats(0.0, 100.0)


@given(
    gateway=SECONDS,
    wait=SECONDS,
    rest=SECONDS,
    queue=st.none() | SECONDS,
    prefill=SECONDS,
    decode=SECONDS,
)
def test_gateway_and_phases_add_up_to_the_call_or_to_what_the_engine_reported(
    gateway: float, wait: float, rest: float, queue: float | None, prefill: float, decode: float
) -> None:
    call = SteppedCall(gateway, wait, rest)
    timings = EngineTimings(queue=queue, prefill=prefill, decode=decode)
    receipt_fields = call.fields(timings)
    phases = [
        float(str(receipt_fields[name])) for name in ("queue", "prefill", "decode", "transfer")
    ]
    reported = (queue or 0.0) + prefill + decode

    assert min(phases) >= 0
    if reported <= wait + rest and (queue is not None or prefill <= wait):
        assert gateway + sum(phases) == pytest.approx(
            gateway + max(wait + rest, sum(phases[:3])), abs=1e-6
        )
