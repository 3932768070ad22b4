"""The ways to send recorded calls that a replay compares; a new one is a class of this port."""

from typing import Protocol

from proxy.tools.replay.recorded_call import RecordedCall
from slo.usage import Usage


class ReplayVariant(Protocol):
    """One way to send every call."""

    name: str

    def body(self, line: RecordedCall, now: float) -> bytes:
        """The chat body that goes to the wire in place of the line's.

        Args:
            line: The call; its body names the model it is sent to.
        """
        ...

    def record_answer(self, usage: Usage) -> None:
        """Learn from the answer's usage how the call just sent was served, as a gateway does."""
        ...


class UnmodifiedVariant:
    """Sends calls unmodified."""

    name = "as sent"

    def body(self, line: RecordedCall, now: float) -> bytes:
        """The caller's own."""
        return line.body

    def record_answer(self, usage: Usage) -> None:
        """Learn nothing."""
