"""The port of wire formats: the methods that every one has; pure.

::

    caller's bytes ── request ──▶ Prepared ──▶ upstream
    upstream's bytes ── Reader.feed … end ──▶ caller's bytes
    upstream's refusal ── failure ──▶ UpstreamError
    usage object found in the answer ── usage ──▶ Usage
    tiers, region and speed ── terms ──▶ Terms
"""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from proxy.catalog.entries import Route
from proxy.errors import UpstreamError
from proxy.records.call import Call
from slo.price import BillingTerms
from slo.usage import Usage


class Reader(Protocol):
    """Turns an upstream's answer into the caller's, piece by piece.

    For a stream, each piece is a run of whole server-sent events. For a JSON answer there is one
    piece, the whole body. Nothing is delayed that could be passed on.
    """

    def feed(self, piece: bytes) -> bytes:
        """Translate a piece of the answer; b"" for nothing yet.

        Raises:
            UpstreamError: If the answer cannot be read on.
        """
        ...

    def end(self) -> bytes:
        """The end of the answer, once the upstream has ended well.

        Raises:
            UpstreamError: If the answer was not complete.
        """
        ...


class PreparedRequest(msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """One attempt's request, ready for the wire.

    Attributes:
        path: Appended to the upstream's base URL, with a leading slash and any query.
        headers: All but the upstream's credentials.
        reader: Translates the answer; None passes it on as it comes.
        caller_reader: Translates what ``reader`` gives, which is chat, into the caller's API; only
            where recalls of the model are answered in between.
        notes: Changes and omissions, in short sentences for a header and the receipt.
        trace_headers: Headers of this one request that place it in a trace.
        endpoint: The endpoint whose body it has, such as ``messages``; "" where its path is that.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    reader: Reader | None = None
    caller_reader: Reader | None = None
    notes: tuple[str, ...] = ()
    trace_headers: tuple[tuple[str, str], ...] = ()
    endpoint: str = ""


class Wire(Protocol):
    """The wire format of one kind of upstream.

    Attributes:
        key_header: The header that carries the key, in lower case.
    """

    key_header: str

    def request(self, call: Call, route: Route) -> PreparedRequest:
        """The attempt for this route, always from the caller's own bytes.

        Raises:
            CallerError: If the call cannot be said on this wire without changing its meaning.
        """
        ...

    def usage(self, reported: Mapping[str, Any], provider: str = "") -> Usage | None:
        """The usage object of an answer in disjoint buckets; None if it holds no counts.

        Args:
            provider: Whose upstream reported it, for rules of its own; "" where it was not given.
        """
        ...

    def terms(
        self, requested: str, answered: str, usage: Mapping[str, Any], region: str
    ) -> BillingTerms:
        """The billing terms of a call, by its answer, else by its request.

        Args:
            requested: The service tier asked for; "" for none.
            answered: The answer's own service tier; "" where it names none.
            usage: The answer's usage object; empty where there was none.
            region: Region to which the upstream binds processing; "" for any.
        """
        ...

    def failure(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        """Translate an answer with an error status into the caller's error."""
        ...
