"""The memory that the bodies of calls in flight may take."""

from typing import Self

from proxy.errors import CallerError, Unready


class BodyMemoryLimit:
    """Limits the bytes of one body, and of all bodies in flight.

    Attributes:
        calls: Calls in flight: each has a reservation, however small.
        reserved_bytes: Bytes that they hold now.
    """

    __slots__ = ("_all", "_per_body", "calls", "reserved_bytes")

    def __init__(self, *, per_body: int, all_together: int) -> None:
        self._per_body = per_body
        self._all = all_together
        self.calls = 0
        self.reserved_bytes = 0

    def reserve(self) -> "BodyReservation":
        """A reservation for one call, empty yet; leaving its block releases it."""
        return BodyReservation(self)

    def grow(self, held: int, size: int) -> None:
        """Grow a reservation to ``size`` bytes.

        Raises:
            CallerError: If one body may not be that large.
            Unready: If there is no room for it among the others.
        """
        if size > self._per_body:
            raise CallerError(
                f"The body is over {self._per_body} bytes. Send less, or raise"
                " THRIFTGATE_BODY_LIMIT.",
                code="body_too_large",
                status=413,
            )
        if self.reserved_bytes - held + size > self._all:
            raise Unready(
                "The bodies of the calls in flight take all the memory there is for them. Try"
                " again shortly; the gateway's operator can raise THRIFTGATE_BODIES_LIMIT.",
                code="too_many_bytes",
                retry_after=1.0,
            )
        self.reserved_bytes += size - held


class BodyReservation:
    """One call's reservation."""

    __slots__ = ("_held", "_limit")

    def __init__(self, room: BodyMemoryLimit) -> None:
        self._limit = room
        self._held = 0

    def __enter__(self) -> Self:
        self._limit.calls += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._limit.calls -= 1
        self._limit.reserved_bytes -= self._held
        self._held = 0

    def grow_to(self, size: int) -> None:
        """Reserve at least so many bytes; an announced length is reserved before it comes.

        Raises:
            CallerError: If one body may not be that large.
            Unready: If there is no room for it among the others.
        """
        if size > self._held:
            self._limit.grow(self._held, size)
            self._held = size
