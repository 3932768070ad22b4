"""Decides if marks are sent, by what they earn where nothing is stored without one.

There a mark is a bet: its prompt is written at a surcharge, and pays only once it is read. So marks
are reckoned on paper first. They are sent

- out of what those that were sent have brought back already, or
- where they may lose less than 0.04 % of what the feature has cost so far, or
- once, on credit: after ten calls in a row that began alike, at the end of that beginning, where
  marks would have saved three tenths of what the calls cost. The operator can refuse it.

Any conversation may be at its end, so no mark within one is sent on credit. Where the earnings pay
for no more, the shortest prefix that is cached is marked, and what it brings back pays for longer
ones.
"""

from typing import Final

import msgspec

#: Least ratio of what marks have earned to what the next ones cost: the first that comes again may
#: be the only one.
_MIN_EARNINGS_PER_STAKE: Final = 3.0
#: The part of what all calls would have cost unmodified that bets may lose at any time.
_MAX_LOSS_SHARE: Final = 0.0004
#: The part of it that marks would have to save for the bet on credit.
_MIN_CREDIT_SAVING_SHARE: Final = 0.3
#: Latest calls that must all have begun alike, each within the life of the one before.
_MIN_EQUAL_STARTS: Final = 10
#: Calls whose marks may be at stake at once.
_MAX_STAKES: Final = 1_000
#: Seconds that no call takes.
_MAX_STAKE_S: Final = 3_600.0
#: Factor on the earnings' weight at the next call: some 500 count.
_DECAY: Final = 0.998


class MarkEarnings(msgspec.Struct):
    """Earnings of marks in one feature, in any unit of money.

    Attributes:
        credit: Amount given in advance.
        earned: Recent savings, had all calls had theirs.
        spent: Recent cost of calls, had they been sent unmodified.
        total: The same of all calls.
        balance: Savings of those that were sent.
        stakes: Possible losses of others whose calls have not ended, and since when, by number.
    """

    credit: float = 0.0
    earned: float = 0.0
    spent: float = 0.0
    total: float = 0.0
    balance: float = 0.0
    stakes: dict[int, tuple[float, float]] = {}
    _at_stake: float = 0.0
    _start: int = 0
    _start_at: float = 0.0
    _start_calls: int = 0
    _counted: float = 0.0
    _expected: float = 0.0

    def record_start(self, start: int, now: float, life: float) -> None:
        """Count a call by what stands before its conversation.

        Args:
            start: Stands for it; 0 for nothing.
            now: Time of the call, in seconds.
            life: Seconds that it would be cached.
        """
        again = start and start == self._start and now - self._start_at < life
        self._start, self._start_at = start, now
        self._start_calls = self._start_calls + 1 if again else 1

    @property
    def size_ratio(self) -> float:
        """Tokens that calls had to those that were expected; above 1 where images hold many."""
        return self._counted / self._expected if self._expected else 1.0

    def record_size(self, expected: int, counted: int) -> None:
        """Count an answered call's tokens beside those that were expected of it."""
        self._counted = self._counted * _DECAY + counted
        self._expected = self._expected * _DECAY + expected

    def allows_stake(self, stake: float, *, on_credit: bool) -> bool:
        """True if marks are sent that lose so much if they are never read.

        Args:
            stake: Extra cost over sending the call without them.
            on_credit: True if they stand where other conversations read them, too.
        """
        earned = self.earned + self.credit
        if len(self.stakes) >= _MAX_STAKES or earned < _MIN_EARNINGS_PER_STAKE * stake:
            return False
        if stake <= self.allowed_loss:
            return True
        return (
            on_credit
            and self._start_calls >= _MIN_EQUAL_STARTS
            and self.balance == 0.0
            and not self._at_stake
            and earned >= _MIN_CREDIT_SAVING_SHARE * self.spent
        )

    @property
    def allowed_loss(self) -> float:
        """Money that may be lost now: what marks brought back and nothing else may lose already."""
        return self._unstaked_balance + _MAX_LOSS_SHARE * self.total

    @property
    def _unstaked_balance(self) -> float:
        return self.balance + self.credit - self._at_stake

    def reserve_stake(self, number: int, stake: float, now: float) -> None:
        """Put by what a call's marks may lose, until it is released or must have ended."""
        self.stakes[number] = stake, now
        self._at_stake += stake
        for old in [old for old, (_, since) in self.stakes.items() if now - since > _MAX_STAKE_S]:
            self.release_stake(old)

    def release_stake(self, number: int) -> None:
        """The call has ended; nothing of it is at stake any more."""
        stake, _ = self.stakes.pop(number, (0.0, 0.0))
        self._at_stake -= stake
        if not self.stakes:
            self._at_stake = 0.0  # sums of fractions drift

    def record_call(self, direct: float, saved: float, floor: float) -> None:
        """Count an answered call.

        Args:
            direct: Cost had it been sent unmodified.
            saved: Savings by its marks, had or expected; below 0 for a loss.
            floor: Least value that it may bring the earnings to.
        """
        self.earned = max(self.earned * _DECAY + saved, floor)
        self.spent = self.spent * _DECAY + direct
        self.total += direct
