import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.api.connections.connection_limit import (
    ConnectionLimit,
    ThrottledLog,
    connections_of_address,
    connections_within,
)


@pytest.mark.parametrize(
    ("descriptors", "max_calls", "connections"),
    [(1_024, 2_000, 512), (20_000, 2_000, 17_744), (1_048_576, 2_000, 1_046_320), (900, 10, 634)],
)
def test_clients_hold_what_calls_and_files_leave_and_half_at_least(
    descriptors, max_calls, connections
):
    assert connections_within(descriptors, max_calls) == connections


def test_one_connection_more_than_there_are_descriptors_for_is_refused():
    limit = ConnectionLimit(total=2, per_address=9)
    limit.acquire("192.0.2.1")
    limit.acquire("")

    assert "ulimit -n" in limit.refusal("192.0.2.2")
    limit.release("")
    assert limit.refusal("192.0.2.2") == ""


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("2001:db8::1", "2001:db8:0:0:ffff::2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth1", True),
        ("", "", False),
    ],
)
def test_an_address_or_a_block_of_ipv6_addresses_has_its_own_limit(first, second, is_same):
    limit = ConnectionLimit(total=9, per_address=1)
    limit.acquire(first)

    assert ("THRIFTGATE_CONNECTIONS_PER_ADDRESS" in limit.refusal(second)) is is_same


@pytest.mark.parametrize(("descriptors", "held"), [(1_024, 256), (4_096, 1_024), (20_000, 4_096)])
def test_one_address_never_keeps_all_others_out_however_few_files_may_be_open(descriptors, held):
    total = connections_within(descriptors, 2_000)
    limit = ConnectionLimit(total=total, per_address=4_096)
    while not (why := limit.refusal("192.0.2.1")):
        limit.acquire("192.0.2.1")

    assert limit.open == held
    assert ("THRIFTGATE_CONNECTIONS_PER_ADDRESS" in why) is (held == 4_096)
    assert ("ulimit -n" in why) is (held < 4_096)
    assert limit.refusal("192.0.2.2") == ""


@pytest.mark.parametrize(
    ("setting", "total", "held"), [(9, 100, 9), (9, 18, 9), (9, 17, 8), (9, 1, 1), (9, 0, 1)]
)
def test_an_address_has_what_is_set_or_half_of_all_and_one_at_least(setting, total, held):
    assert connections_of_address(setting, total) == held


@pytest.mark.slow
@given(st.lists(st.sampled_from(["192.0.2.1", "192.0.2.2", "2001:db8::1", ""])))
def test_connection_limit_forgets_addresses_without_connections(addresses):
    limit = ConnectionLimit(total=99, per_address=99)
    for address in addresses:
        limit.acquire(address)
    assert limit.open == len(addresses)
    for address in reversed(addresses):
        limit.release(address)

    assert limit.open == 0
    assert not limit._by_address


def test_warnings_are_logged_once_in_ten_seconds_and_counted_meanwhile(caplog):
    log = ThrottledLog()
    with caplog.at_level(logging.WARNING, "thriftgate.connections"):
        for now in (0.0, 1.0, 9.9, 10.0):
            log.warning(now, "192.0.2.1", "refused")

    assert caplog.messages == [
        "Connection from 192.0.2.1: refused.",
        "Connection from 192.0.2.1: refused. (2 more since the last such line)",
    ]
