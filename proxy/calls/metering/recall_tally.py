"""Counts the rounds of one attempt in which its model recalled what compaction took out."""

import msgspec

from slo.usage import Usage


class RecallTally(msgspec.Struct):
    """The finished rounds of an attempt; the last one is settled as every answer is.

    Attributes:
        rounds: Rounds that ended in a recall.
        tokens: Tokens of what was recalled.
        usage: Usage of these rounds together.
        first: Usage of the first one; None where its upstream reported none.
        is_estimated: True if the gateway counted one of them.
    """

    rounds: int = 0
    tokens: int = 0
    usage: Usage = Usage()
    first: Usage | None = None
    is_estimated: bool = False

    def add_round(self, usage: Usage, tokens: int, *, is_estimated: bool) -> None:
        """Count a round that ended in a recall.

        Args:
            tokens: Tokens of what was recalled.
        """
        if not self.rounds and not is_estimated:
            self.first = usage
        self.rounds += 1
        self.tokens += tokens
        self.usage = _sum(self.usage, usage)
        self.is_estimated = self.is_estimated or is_estimated

    def total(self, last: Usage | None) -> Usage:
        """The usage of all rounds.

        Args:
            last: Usage of the last one; None for nothing.
        """
        return self.usage if last is None else _sum(self.usage, last)

    def single(self, last: Usage | None) -> Usage | None:
        """The usage that the attempt would have had without recall, about."""
        if last is None or self.first is None:
            return last
        return msgspec.structs.replace(self.first, output=last.output, reasoning=last.reasoning)


def _sum(one: Usage, other: Usage) -> Usage:
    names = Usage.__struct_fields__
    return Usage(**{name: getattr(one, name) + getattr(other, name) for name in names})
