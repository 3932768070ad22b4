"""What is left alone for a while because an upstream took it only as it came; pure.

One conversation may hold what no upstream takes once it is folded; several tell of the feature.
"""

from typing import Final

from proxy.prefix.prompts.recent import LruCache
from proxy.services.compaction.live_quality import Place

#: Seconds that it is left alone, and within which conversations are counted.
REST: Final = 600.0
#: Conversations of a feature after which it is left alone altogether.
SEVERAL: Final = 3
_FEATURES: Final = 1_024
_TALKS: Final = 8_192


class Rests:
    """Until when conversations and features are left alone; times are seconds since the epoch."""

    def __init__(self) -> None:
        self._talks: LruCache[bytes, float] = LruCache(_TALKS)
        self._features: LruCache[Place, float] = LruCache(_FEATURES)
        self._refused: LruCache[Place, dict[bytes, float]] = LruCache(_FEATURES)

    def refused(self, place: Place, conversation: bytes, now: float) -> bool:
        """Leave a conversation alone; whether its whole feature is from now on.

        Args:
            place: The feature.
            conversation: Its name; b"" where nobody knows it, and the feature stands for it.
            now: When it was refused.
        """
        self._talks.put(conversation, now + REST)
        before = self._refused.get(place) or {}
        lately = {name: at for name, at in before.items() if now - at < REST}
        lately[conversation] = now
        is_all = not conversation or len(lately) >= SEVERAL
        if is_all:
            self._features.put(place, now + REST)
            lately = {}
        self._refused.put(place, lately)
        return is_all

    def feature(self, place: Place, now: float) -> bool:
        """True if a feature is left alone."""
        return (self._features.peek(place) or 0.0) > now

    def conversation(self, name: bytes, now: float) -> bool:
        """True if a conversation is left alone."""
        return (self._talks.peek(name) or 0.0) > now
