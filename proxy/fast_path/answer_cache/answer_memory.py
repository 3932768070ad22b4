"""The answers that one process keeps: by team, bounded by their bytes; pure."""

from typing import Final

from proxy.fast_path.answer_cache.cached_answer import CachedAnswer
from proxy.records.lru_cache import LruCache

#: Part of the memory that a single answer may take.
_MAX_ANSWER_PART: Final = 8


class AnswerMemory:
    """Answers by team and key; what was used longest ago goes first.

    A team may take all of the memory that no other needs. Where it is full, the team that takes
    most gives way. Each answer weighs a thousand bytes beside its body, which bounds their number.

    Args:
        max_bytes: Bytes that all answers may take.

    Attributes:
        size_bytes: Bytes that they take.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._teams: dict[str, LruCache[str, CachedAnswer]] = {}
        self.size_bytes = 0

    def __len__(self) -> int:
        return sum(map(len, self._teams.values()))

    def get(self, team: str, key: str) -> CachedAnswer | None:
        """A team's answer, which is used by this; None where it has none of this key."""
        answers = self._teams.get(team)
        return None if answers is None else answers.get(key)

    def put(self, answer: CachedAnswer) -> bool:
        """Keep an answer; False where it is too large."""
        if answer.size_bytes * _MAX_ANSWER_PART > self._max_bytes:
            return False
        answers = self._teams.get(answer.team)
        if answers is None:
            answers = self._teams[answer.team] = LruCache(self._max_bytes, _size)
        with_others = self.size_bytes - answers.size_bytes
        answers.put(answer.key, answer)
        self.size_bytes = with_others + answers.size_bytes
        while self.size_bytes > self._max_bytes:
            self._drop_oldest()
        return True

    def drop(self, team: str, key: str) -> None:
        """Drop a team's answer, if it has one of this key."""
        if (answers := self._teams.get(team)) is not None:
            with_others = self.size_bytes - answers.size_bytes
            answers.drop(key)
            self._note_size(team, with_others)

    def answers(self, team: str) -> list[CachedAnswer]:
        """A team's answers as they are now, the longest unused first."""
        answers = self._teams.get(team)
        return [] if answers is None else answers.values()

    def _drop_oldest(self) -> None:
        """Drop what was used longest ago by the team that takes most."""
        team, answers = max(self._teams.items(), key=lambda entry: entry[1].size_bytes)
        with_others = self.size_bytes - answers.size_bytes
        answers.drop_oldest()
        self._note_size(team, with_others)

    def _note_size(self, team: str, with_others: int) -> None:
        """Note what a team's answers take now; one without any is forgotten."""
        answers = self._teams[team]
        self.size_bytes = with_others + answers.size_bytes
        if not len(answers):
            del self._teams[team]


def _size(answer: CachedAnswer) -> int:
    return answer.size_bytes
