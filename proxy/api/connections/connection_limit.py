"""Limits on how many connections callers may hold open, in all and from one address."""

import logging
import resource
import sys
from collections import Counter
from contextlib import suppress
from ipaddress import IPv6Address
from typing import Final

_log = logging.getLogger("thriftgate.connections")

#: Descriptors for the ledger, the journal, Redis and the like.
_OWN_DESCRIPTORS: Final = 256
#: Seconds between two log lines about connections that were refused or cut off.
_LOG_INTERVAL_S: Final = 10.0
#: Bytes of an IPv6 address that one customer is given.
#: Source: RFC 6177, section 2 (a /64 is the smallest usual assignment).
_IPV6_PREFIX_BYTES: Final = 8


def descriptor_limit() -> int:
    """Number of descriptors this process may open once its soft limit is raised."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _finite(soft if hard == resource.RLIM_INFINITY else hard)


def raise_descriptor_limit() -> int:
    """Raise the soft limit of open descriptors to the hard one; return what it is now."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS takes no more than OPEN_MAX
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptor_limit(), hard))
    return open_descriptor_limit()


def open_descriptor_limit() -> int:
    """Number of descriptors this process may open now."""
    return _finite(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _finite(limit: int) -> int:
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit


def connections_within(descriptors: int, max_calls: int) -> int:
    """Connections that callers may hold where the process may open this many descriptors.

    The rest is for the calls' connections to upstreams and the gateway's own files; callers
    have half of the descriptors at least.
    """
    return descriptors - min(max_calls + _OWN_DESCRIPTORS, descriptors // 2)


def connections_of_address(setting: int, total: int) -> int:
    """Connections that one address may hold: what is set, and half of all callers' at most.

    So one address cannot keep all others out, also where few files may be open.
    """
    return min(setting, max(1, total // 2))


class ConnectionLimit:
    """Counts callers' open connections, and refuses those over the limit.

    Attributes:
        open: Number of connections open now.
    """

    def __init__(self, *, total: int, per_address: int) -> None:
        self._total = total
        self._per_address = connections_of_address(per_address, total)
        self._is_setting_reachable = self._per_address == per_address
        self._by_address: Counter[str] = Counter()
        self.open = 0

    def refusal(self, address: str) -> str:
        """Reason to refuse one more connection from this address; "" for none."""
        if self.open >= self._total:
            return (
                f"callers hold {self.open} connections, the most that the limit of open files"
                " allows. Raise `ulimit -n` (LimitNOFILE) where the gateway runs"
            )
        if not address or self._by_address[address_block(address)] < self._per_address:
            return ""
        held = f"this address holds {self._per_address} connections"
        if self._is_setting_reachable:
            return f"{held}, the most that THRIFTGATE_CONNECTIONS_PER_ADDRESS allows"
        return (
            f"{held}, half of what the limit of open files allows all callers. Raise `ulimit -n`"
            " (LimitNOFILE) where the gateway runs"
        )

    def acquire(self, address: str) -> None:
        """Count a connection from this address; "" for one without."""
        self.open += 1
        if address:
            self._by_address[address_block(address)] += 1

    def release(self, address: str) -> None:
        """Forget a connection that was counted."""
        self.open -= 1
        if address:
            block = address_block(address)
            self._by_address[block] -= 1
            if not self._by_address[block]:
                del self._by_address[block]


class ThrottledLog:
    """Logs a warning about a connection, and no more than one every ten seconds."""

    def __init__(self) -> None:
        self._next = float("-inf")
        self._left_out = 0

    def warning(self, now: float, address: str, what: str) -> None:
        """Log what happened to a connection from this address, or count it for the next line."""
        if now < self._next:
            self._left_out += 1
            return
        more = f" ({self._left_out} more since the last such line)" if self._left_out else ""
        self._next, self._left_out = now + _LOG_INTERVAL_S, 0
        _log.warning("Connection from %s: %s.%s", address or "an unnamed socket", what, more)


def address_block(address: str) -> str:
    """The addresses that count as one caller: an IPv4 address, or a block of IPv6 addresses."""
    if ":" not in address:
        return address
    ipv6 = IPv6Address(address)
    if ipv6.ipv4_mapped is not None:
        return str(ipv6.ipv4_mapped)
    return ipv6.packed[:_IPV6_PREFIX_BYTES].hex()
