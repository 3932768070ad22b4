"""The calls that are under way in this process, each with the key that may end it."""

from types import TracebackType
from typing import Self

from proxy.calls.deadlines import CallWatchdog, ClientDisconnected


def call_ended_error() -> ClientDisconnected:
    """The error of a call that its key ended before its answer was complete."""
    error = ClientDisconnected()
    error.code = "call_ended"
    error.message = "The call was ended by DELETE /v1/thriftgate/calls/{id}."
    return error


class CallUnderWay:
    """One call, listed from its arrival to its end; use it as a context manager.

    Attributes:
        key_id: The key that came with it; "" as long as it is not known.
        is_ended: True if its key has ended it.
    """

    __slots__ = ("_call_id", "_calls", "_watchdog", "is_ended", "key_id")

    def __init__(self, calls: dict[str, "CallUnderWay"], call_id: str) -> None:
        self._calls = calls
        self._call_id = call_id
        self._watchdog: CallWatchdog | None = None
        self.key_id = ""
        self.is_ended = False

    def __enter__(self) -> Self:
        self._calls[self._call_id] = self
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None
    ) -> None:
        self._calls.pop(self._call_id, None)
        self._watchdog = None

    def watch(self, watchdog: CallWatchdog, key_id: str) -> None:
        """Let this key end the call from now on.

        Args:
            watchdog: The call's own.
        """
        self._watchdog, self.key_id = watchdog, key_id

    def end(self) -> None:
        """End the call as if its caller had left now."""
        self.is_ended = True
        if self._watchdog is not None:
            self._watchdog.end_call()


class CallsUnderWay:
    """The calls of this process; as many as it takes at once."""

    def __init__(self) -> None:
        self._by_id: dict[str, CallUnderWay] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def track(self, call_id: str) -> CallUnderWay:
        """A call that has arrived; it is listed while its block runs."""
        return CallUnderWay(self._by_id, call_id)

    def end(self, call_id: str, key_id: str) -> bool:
        """End a call of this key; False if none of this id is under way here."""
        call = self._by_id.get(call_id)
        if call is None or call.is_ended or not key_id or call.key_id != key_id:
            return False
        call.end()
        return True
