"""Decides if and when an engine that ended is started again; pure."""

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class EngineExit:
    """An unexpected end of an engine process.

    Attributes:
        at: Time of the end, in seconds of any one clock.
        ready_s: Seconds for which it had been ready; 0 where it never was.
    """

    at: float
    ready_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """Exponential back-off with jitter, and a limit on early exits.

    An exit is early if the engine had not been ready for ``stable_s``. A later one begins anew:
    the engine worked, so the next start is soon.

    Attributes:
        first_delay_s: Longest delay after the first early exit; it doubles with each further one.
        max_delay_s: Limit of that.
        stable_s: Seconds of readiness after which an engine counts as working.
        max_exits: Early exits in a row, within the window, that are a crash loop.
        window_s: Seconds within which they count.
    """

    first_delay_s: float = 1.0
    max_delay_s: float = 60.0
    stable_s: float = 60.0
    max_exits: int = 5
    window_s: float = 600.0

    @classmethod
    def for_start(cls, start_seconds: float) -> Self:
        """The usual policy; its window has room for crashes at the end of a slow start."""
        usual = cls()
        slow = usual.max_exits * (start_seconds + usual.stable_s + usual.max_delay_s)
        return cls(window_s=max(usual.window_s, slow))

    def next_delay(
        self, exits: Sequence[EngineExit], now: float, chance: float = 1.0
    ) -> float | None:
        """Seconds until the next start; None in a crash loop.

        Args:
            exits: The engine's exits, the latest last.
            chance: From 0 to 1, of a fair die: replicas that end together start apart.
        """
        early = self._early_exits(exits, now)
        if early >= self.max_exits:
            return None
        doublings = min(max(early - 1, 0), 32)
        longest = min(self.first_delay_s * 2.0**doublings, self.max_delay_s)
        return longest * (0.5 + chance / 2)

    def _early_exits(self, exits: Sequence[EngineExit], now: float) -> int:
        """The number of early exits in a row that still count."""
        count = 0
        for exit_ in reversed(exits):
            if exit_.ready_s >= self.stable_s or exit_.at < now - self.window_s:
                break
            count += 1
        return count


def describe_exit(status: int | None, *, oom_kills: int | None = None) -> str:
    """Says how a process ended.

    Args:
        status: Its exit status, negative where a signal ended it; None where it is unknown.
        oom_kills: Processes that the kernel killed for lack of memory while it ran; None where
            the kernel does not count them.
    """
    if status is None:
        text = "ended with its guardian"
    elif status >= 0:
        text = f"exited with status {status}"
    else:
        text = f"was ended by {_signal_name(-status)}"
    if oom_kills:
        return f"{text}: out of memory, the kernel killed a process while it ran"
    if status == -signal.SIGKILL:
        seen = "it counted none" if oom_kills == 0 else "it does not say"
        return f"{text}: killed by hand, or by the kernel because it was out of memory ({seen})"
    return text


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
