"""W3C trace context, as callers send it and upstreams get it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.records.trace_context import (
    TraceContext,
    new_trace,
    read_trace_context,
    span_id,
    trace_headers,
)

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
HEADER = f"00-{TRACE}-{SPAN}-01"


def test_a_callers_place_in_its_trace_is_read():
    assert read_trace_context(HEADER, "a=1,b=2") == TraceContext(TRACE, SPAN, 1, "a=1,b=2")


@pytest.mark.parametrize(
    "header",
    [
        "",
        "00-1-2-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"{HEADER}-more",
    ],
)
def test_a_header_that_is_not_valid_is_none(header):
    assert read_trace_context(header) is None


def test_a_later_version_may_say_more():
    assert read_trace_context(f"01-{TRACE}-{SPAN}-01-more") == TraceContext(TRACE, SPAN, 1)


def test_a_caller_may_ask_that_nothing_is_recorded():
    context = read_trace_context(f"00-{TRACE}-{SPAN}-00")

    assert context is not None
    assert not context.is_sampled
    assert trace_headers(context, SPAN) == (("traceparent", f"00-{TRACE}-{SPAN}-00"),)


@pytest.mark.parametrize("state", ["a=" + "x" * 511, "a=\x01", "a=é"])
def test_a_state_that_is_too_long_or_unprintable_is_dropped(state):
    assert read_trace_context(HEADER, state) == TraceContext(TRACE, SPAN, 1)


def test_a_request_goes_on_with_the_trace_as_a_child_of_its_attempt():
    context = TraceContext(TRACE, SPAN, 1, "a=1")
    mine = span_id("call_1", 2)

    assert trace_headers(context, mine) == (
        ("traceparent", f"00-{TRACE}-{mine}-01"),
        ("tracestate", "a=1"),
    )


def test_ids_of_a_call_and_its_attempts_differ_and_stay():
    ids = [span_id("call_1"), span_id("call_1", 0), span_id("call_1", 1), span_id("call_2")]

    assert len(set(ids)) == 4
    assert new_trace("call_1") == new_trace("call_1") != new_trace("call_2")


@given(st.text(), st.text())
def test_any_trace_header_is_a_valid_place_or_none(parent, state):
    context = read_trace_context(parent, state)

    assert (
        context is None
        or read_trace_context(trace_headers(context, context.span_id)[0][1]) is not None
    )
