"""Calls followed through their attempts, within bounds."""

from proxy.calls.metering.settlement import AttemptInfo
from proxy.providers.port import PreparedRequest
from proxy.records.trace_context import new_trace, span_id
from proxy.services.telemetry.call_tracing import CallTracing
from tests.fakes.call_dependencies import call, route
from tests.fakes.receipts import a_receipt

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01".encode()
BODY = b'{"model": "m"}'
ASKED = PreparedRequest(method="POST", path="/chat/completions", headers={}, body=b"{}")


def test_a_request_goes_on_with_the_callers_trace_and_state():
    tracing = CallTracing(lambda: 1.0)
    tracing.begin("call_1", [(b"traceparent", PARENT), (b"tracestate", b"a=1")])

    prepared = tracing.propagate(AttemptInfo(call=call(BODY, id="call_1"), route=route()), ASKED)

    assert prepared.trace_headers == (
        ("traceparent", f"00-{TRACE}-{span_id('call_1', 0)}-01"),
        ("tracestate", "a=1"),
    )
    assert prepared.headers == {}


def test_a_call_without_a_trace_begins_one_that_its_id_tells():
    tracing = CallTracing(lambda: 1.0)
    tracing.begin("call_1", [(b"traceparent", b"nonsense")])

    prepared = tracing.propagate(AttemptInfo(call=call(BODY, id="call_1")), ASKED)

    assert new_trace("call_1").trace_id in prepared.trace_headers[0][1]


def test_where_too_many_wait_they_are_dropped_and_counted(caplog):
    tracing = CallTracing(lambda: 1.0, max_queued=2)
    for n in range(5):
        tracing.observe(a_receipt(1, call_id=f"call_{n}"))

    assert tracing.dropped == 3
    assert caplog.text.count("are dropped from now on") == 1


def test_a_superseded_attempt_that_ends_after_its_call_stays_in_its_trace():
    tracing = CallTracing(lambda: 1.0)
    tracing.begin("call_1", [(b"traceparent", PARENT)])
    for number in (0, 1):
        tracing.propagate(
            AttemptInfo(call=call(BODY, id="call_1"), route=route(), number=number), ASKED
        )
    tracing.observe(a_receipt(1, call_id="call_1", attempt=1))
    tracing.observe(a_receipt(1, call_id="call_1", attempt=0, final=False))

    attempts = [tracing.ended.get_nowait() for _ in range(2)]
    assert [attempt.context.trace_id for attempt in attempts if attempt] == [TRACE] * 2
    assert [attempt.sent is not None for attempt in attempts if attempt] == [True, True]


def test_calls_that_never_end_are_forgotten_in_time():
    tracing = CallTracing(lambda: 1.0)
    for n in range(70_000):
        tracing.begin(f"call_{n}", ())

    assert len(tracing._calls) == 65_536
