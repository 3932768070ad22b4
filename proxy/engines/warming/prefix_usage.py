"""The system prompts that calls of a model use, by how much they are used; bounded."""

from dataclasses import dataclass
from math import exp2
from typing import Final, Generic, TypeVar

from proxy.engines.warming.prompts import MAX_BODY_BYTES

T = TypeVar("T")

#: Prompts remembered of a model, and bytes of all of them.
MAX_PROMPTS: Final = 256
MAX_BYTES: Final = 16 * MAX_BODY_BYTES
#: Calls that a prompt has to have had: one that changes with each call is used once.
MIN_USES: Final = 2
#: Seconds after which a use counts half.
_HALF_LIFE_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class _PromptUse(Generic[T]):
    """The uses of a prompt.

    Attributes:
        prompt: Value kept of it.
        size: Its bytes.
        weight: The same, of which one counts half after an hour; as of the last use.
        at: Time of the last use, in seconds of a clock that goes forward.
    """

    prompt: T
    size: int
    calls: int
    weight: float
    at: float


class PrefixUsage(Generic[T]):
    """Counts the uses of prompts; those used least go first where there is no more room."""

    def __init__(self) -> None:
        self._uses: dict[bytes, _PromptUse[T]] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._uses)

    def note(self, key: bytes, prompt: T, size: int, now: float) -> None:
        """Count a use of a prompt.

        Args:
            key: Names it and whose it is.
            prompt: Value kept of it; the newest counts.
        """
        had = self._uses.get(key)
        calls, weight = 1, 1.0
        if had is not None:
            calls, weight = had.calls + 1, 1.0 + _current_weight(had, now)
        self._put(key, _PromptUse(prompt, size, calls, weight, now), now)

    def most_used(self, count: int, now: float) -> list[tuple[bytes, T]]:
        """The prompts that are used most of late, with their keys, the most used one first."""
        shared = [(key, use) for key, use in self._uses.items() if use.calls >= MIN_USES]
        shared.sort(key=lambda entry: -_current_weight(entry[1], now))
        return [(key, use.prompt) for key, use in shared[:count]]

    def _put(self, key: bytes, use: _PromptUse[T], now: float) -> None:
        if (had := self._uses.pop(key, None)) is not None:
            self._bytes -= had.size
        self._uses[key] = use
        self._bytes += use.size
        while len(self._uses) > MAX_PROMPTS or self._bytes > MAX_BYTES:
            least = min(self._uses, key=lambda key: _current_weight(self._uses[key], now))
            self._bytes -= self._uses.pop(least).size


def _current_weight(use: _PromptUse[T], now: float) -> float:
    return use.weight * exp2(-max(0.0, now - use.at) / _HALF_LIFE_S)
