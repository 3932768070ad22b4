"""A caller's address is the rightmost that no trusted proxy has, by nobody else's word."""

import asyncio
from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.api.connections.connection_limit import ConnectionLimit
from proxy.api.connections.guarded_connection import ConnectionGuard
from proxy.api.connections.trusted_proxies import TrustedProxies
from tests.proxy.api.server_fixtures import connection_without_peer, head_for, turns

PROXIES = TrustedProxies([ip_network("10.0.0.0/8"), ip_network("2001:db8:aa::/48")])
PEER = "10.0.0.1"


def address(*headers: tuple[str, str]) -> str:
    return PROXIES.client_address(
        PEER, [(name.encode(), value.encode("latin-1")) for name, value in headers]
    )


@pytest.mark.parametrize(
    ("value", "counts"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("1.2.3.4, 203.0.113.9", "203.0.113.9"),
        ("1.2.3.4, 203.0.113.9, 10.1.2.3", "203.0.113.9"),
        ("203.0.113.9:4711", "203.0.113.9"),
        ("[2001:db8:bb::1]:4711", "2001:db8:bb::1"),
        ("2001:DB8:BB::1", "2001:db8:bb::1"),
        ("203.0.113.9,2001:db8:aa::7", "203.0.113.9"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("10.9.9.9, 10.1.2.3", "10.9.9.9"),
        ("203.0.113.9, unknown", PEER),
        ("203.0.113.9, unknown, 10.1.2.3", "10.1.2.3"),
        ("", PEER),
        ("203.0.113.9,", PEER),
        ("x" * 5000, PEER),
    ],
)
def test_the_rightmost_address_of_no_trusted_proxy_is_the_callers(value: str, counts: str) -> None:
    assert address(("x-forwarded-for", value)) == counts


@pytest.mark.parametrize(
    ("value", "counts"),
    [
        ("for=203.0.113.9", "203.0.113.9"),
        ("for=1.2.3.4, For=203.0.113.9;proto=https;by=10.0.0.1", "203.0.113.9"),
        ('proto=https; for="[2001:db8:bb::1]:4711"', "2001:db8:bb::1"),
        ('for="203.0.113.9:80", for=10.3.3.3', "203.0.113.9"),
        ("for=_hidden", PEER),
        ("proto=https", PEER),
        ('for="1.2.3.4, for=203.0.113.9', "203.0.113.9"),
    ],
)
def test_the_header_forwarded_is_read_alike(value: str, counts: str) -> None:
    assert address(("forwarded", value)) == counts


def test_lines_of_one_header_are_read_as_one() -> None:
    lines = [("x-forwarded-for", "1.2.3.4"), ("x-forwarded-for", "203.0.113.9, 10.1.1.1")]

    assert address(*lines) == "203.0.113.9"


def test_two_forwarded_headers_that_differ_are_both_ignored() -> None:
    """A caller writes the one that the proxy passes on."""
    headers = [("x-forwarded-for", "203.0.113.9"), ("forwarded", "for=1.2.3.4")]

    assert address(*headers) == PEER
    assert address(headers[0], ("forwarded", "for=203.0.113.9")) == "203.0.113.9"


def test_without_headers_the_proxys_address_counts() -> None:
    assert address(("x-other", "203.0.113.9")) == PEER


@given(st.text(max_size=200), st.text(max_size=200))
def test_callers_own_forwarded_entries_are_ignored(first, second) -> None:
    headers = [("x-forwarded-for", f"{first},{second}, 203.0.113.9")]

    assert PROXIES.client_address(
        PEER, [(name.encode(), value.encode()) for name, value in headers]
    ) == "203.0.113.9"  # fmt: skip


def test_connections_of_trusted_proxies_have_no_limit_of_their_address() -> None:
    limit = ConnectionLimit(total=100, per_address=3)
    guard = ConnectionGuard(limit=limit, proxies=PROXIES)

    async def connect(address: str) -> int:
        opened = [connection_without_peer(guard=guard, address=address) for _ in range(10)]
        refused = sum(wire.is_closing() for _, wire in opened)
        for calls, _ in opened:
            calls.connection_lost(None)
        return refused

    assert asyncio.run(connect(PEER)) == 0
    assert asyncio.run(connect("192.0.2.1")) == 7
    assert limit.open == 0


@pytest.mark.anyio
async def test_an_app_sees_the_callers_address_behind_a_trusted_proxy_alone() -> None:
    seen: list[object] = []

    async def app(scope, _receive, send) -> None:
        seen.append(scope["client"][0])
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    guard = ConnectionGuard(proxies=PROXIES)
    for peer in (PEER, "192.0.2.1"):
        calls, _ = connection_without_peer(app=app, guard=guard, address=peer)
        calls.data_received(head_for("/x", "X-Forwarded-For: 1.1.1.1, 203.0.113.9"))
        calls.data_received(head_for("/x"))
        await turns()

    assert seen == ["203.0.113.9", PEER, "192.0.2.1", "192.0.2.1"]
