"""Finds a caller's address behind reverse proxies that are trusted."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address
#: Proxies in a row that are read; a caller may write more before them.
_MAX_PROXIES: Final = 16
#: The longest address with a port, quotation marks and a name before it; others are none.
_MAX_HOP_CHARS: Final = 80
#: Texts of addresses that are remembered: those of callers and proxies come again.
_MAX_CACHED: Final = 1024
_FORWARDED_FOR: Final = b"x-forwarded-for"
_FORWARDED: Final = b"forwarded"


class TrustedProxies:
    """Reads the headers in which proxies say for whom they ask.

    Only what trusted proxies wrote counts: each appends the address that it was asked from, so the
    rightmost address that is none of theirs is the caller's. What stands left of it is the caller's
    own word.

    Source: RFC 7239, sections 4 and 5.2; for ``X-Forwarded-For`` the custom of proxies.
    """

    def __init__(self, networks: Sequence[Network] = ()) -> None:
        self._networks = tuple(networks)

    def is_trusted(self, address: str) -> bool:
        """True if this is a proxy whose word counts."""
        parsed = _parse_address(address) if self._networks else None
        return parsed is not None and self._has(parsed)

    def client_address(self, peer: str, headers: Iterable[tuple[bytes, bytes]]) -> str:
        """The address of the caller for whom a trusted proxy asks.

        Where both headers came and differ, a caller wrote one of them, which the proxy passed on:
        none counts.

        Args:
            peer: Address of the proxy, which counts where no header names another.
        """
        forwarded_for: list[bytes] = []
        forwarded: list[bytes] = []
        for name, value in headers:
            if name == _FORWARDED_FOR:
                forwarded_for += value.rsplit(b",", _MAX_PROXIES)
            elif name == _FORWARDED:
                forwarded += map(_forwarded_for, value.rsplit(b",", _MAX_PROXIES))
        addresses = {self._rightmost(peer, hops) for hops in (forwarded_for, forwarded) if hops}
        return addresses.pop() if len(addresses) == 1 else peer

    def _rightmost(self, peer: str, hops: Sequence[bytes]) -> str:
        """The rightmost address of no trusted proxy; the leftmost of theirs if there is none."""
        nearest = peer
        for hop in reversed(hops[-_MAX_PROXIES:]):
            address = _parse_hop(hop.strip().decode("latin-1")[:_MAX_HOP_CHARS])
            if address is None:
                break
            nearest = str(address)
            if not self._has(address):
                break
        return nearest

    def _has(self, address: Address) -> bool:
        return any(address in network for network in self._networks)


def _forwarded_for(element: bytes) -> bytes:
    """The ``for`` of an element of ``Forwarded``; b"" without one."""
    for pair in element.split(b";"):
        name, _, value = pair.strip().partition(b"=")
        if name.lower() == b"for":
            return value.strip(b'"')
    return b""


@lru_cache(maxsize=_MAX_CACHED)
def _parse_hop(text: str) -> Address | None:
    """The address in a text that may have a port; None for a name, or what is hidden."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    return _parse_address(text)


def _parse_address(text: str) -> Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
