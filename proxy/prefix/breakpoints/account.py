"""Keeps the books of a feature's marks: what they earned at each place, and what they may lose.

Where nothing is stored without a mark (Anthropic), a mark is a stake: its prompt is written at a
surcharge, and pays once it is read. A stop-loss bounds it twice:

- Each place has a balance, as if all calls had carried all marks. One that lost more than
  ``STOP_LOSS_FEES`` times what marking it costs is left unmarked until its balance recovers.
- The feature has a balance of what its marks really brought. It may lose three tenths of an average
  call before anything was earned, and .52 of one, or 0.04 % of what its calls cost, once its
  balances earned three times the stake. So over 1,000 calls it costs at most 1.0005 times sending
  directly. Nor may it lose more than the learning stake, or one prompt's surcharge where that is
  more; two once its balances earned ten of them. That loss counts half after a day, so that a
  feature whose traffic changed is tried again.
"""

from collections import OrderedDict
from enum import IntEnum
from typing import Final, NamedTuple

import msgspec

from proxy.records.mark_account import AccountNews, StoredMarkAccount
from proxy.records.team_stake import STAKE_UNITS_PER_DOLLAR, UNITS_PER_NANO

#: Amount that a feature may lose by default: one cent.
DEFAULT_STAKE: Final = STAKE_UNITS_PER_DOLLAR / 100
#: Places of a prompt that are marked.
MAX_PLACES: Final = 4
#: Surcharges of a place that it may lose before it is left unmarked.
STOP_LOSS_FEES: Final = 1.2
#: Average calls that may be lost before marks earned anything, and after.
_MAX_UNSEEN_LOSS_CALLS: Final = 0.3
_MAX_LOSS_CALLS: Final = 0.52
#: The part of what all calls would have cost unmodified that may be lost.
_MAX_LOSS_SHARE: Final = 0.0004
#: Least ratio of what marks have earned to the next stake, where more is lost than unseen.
MIN_EARNINGS_PER_STAKE: Final = 3.0
#: The same from which on a second prompt's surcharge may be lost.
_MIN_EARNINGS_PER_SECOND_STAKE: Final = 10.0
#: Factor on a place's balance at the next call: some dozen count.
_DECAY: Final = 0.92
#: The same of a feature's tokens: some 500 count.
_SIZE_DECAY: Final = 0.998
_HALF_LIFE_S: Final = 86_400.0
#: Most of a pause in which losses are forgotten: longer ones may be a clock that was set.
_MAX_FORGOTTEN_S: Final = 86_400.0
#: Conversations whose latest end may still be read; beyond, the oldest counts as unread.
_MAX_UNREAD_WRITES: Final = 32
#: Calls whose marks may be at stake at once.
_MAX_STAKES: Final = 1_000
#: Seconds that no call takes.
_MAX_STAKE_S: Final = 3_600.0
#: Surcharges of an hour's lifetime that it would have earned before it is bought.
_MIN_HOUR_FEES: Final = 1.2
#: Reads that fail in a row before marks wait, and seconds until one is tried again: at first, most.
_MAX_FAILED_READS: Final = 8
_RETRY_PAUSE_S: Final = 600.0
_MAX_RETRY_PAUSE_S: Final = 86_400.0
#: Bytes of a feature's books, of those on one family, of an unread write and of a stake; measured.
_FEATURE_BYTES: Final = 700
_ACCOUNT_BYTES: Final = 1_100
_WRITE_BYTES: Final = 340
_STAKE_BYTES: Final = 260


class PromptPlace(IntEnum):
    """A place of a prompt that a mark ends, in wire order; the last two are one place."""

    TOOLS = 0
    STABLE = 1
    SEMI_STABLE = 2
    FIRST_CALL = 3  #: The conversation, in its first call.
    LATER_CALL = 4  #: The conversation, in any other.


class PlaceValues(msgspec.Struct, frozen=True):
    """Gains and surcharges of a call's marks beside the unmodified call, by place, in any money."""

    gains: tuple[float, ...]
    fees: tuple[float, ...]


class UnreadWrite(NamedTuple):
    """A conversation's end that was written, and may still be read until a time."""

    place: PromptPlace
    fee: float
    until: float


class MarkAccount(msgspec.Struct):
    """The books of one feature's marks on one family of models, in any unit of money.

    Attributes:
        places: Balance of each place, had all calls had all marks; recent calls count.
        net: Amount that the marks which were sent brought; below 0 for a loss.
        balance: The same, of which a loss counts half after a day.
        total: Cost of all calls, had they been sent unmodified.
        calls: Number of them.
        news: Amounts counted since it was stored last.
        is_long_lived: True if marks are bought for the longest lifetime.
        failed_reads: Calls in a row that read less than half of what they should.
        retry_at: Time from which on the next may fail, once too many did.
    """

    places: list[float] = msgspec.field(default_factory=lambda: [0.0] * len(PromptPlace))
    net: float = 0.0
    balance: float = 0.0
    total: float = 0.0
    calls: int = 0
    news: AccountNews = msgspec.field(default_factory=AccountNews)
    is_long_lived: bool = False
    failed_reads: int = 0
    retry_at: float = 0.0
    _unread: OrderedDict[bytes, UnreadWrite] = msgspec.field(default_factory=OrderedDict)
    _counted: float = 0.0
    _expected: float = 0.0
    _long_life: float = 0.0

    @property
    def size_bytes(self) -> int:
        """About how many bytes it takes."""
        return _ACCOUNT_BYTES + _WRITE_BYTES * len(self._unread)

    @property
    def size_ratio(self) -> float:
        """Tokens that calls had to those that were expected; above 1 where images hold many."""
        return self._counted / self._expected if self._expected else 1.0

    def record_size(self, expected: int, counted: int) -> None:
        """Count an answered call's tokens beside those that were expected of it."""
        self._counted = self._counted * _SIZE_DECAY + counted
        self._expected = self._expected * _SIZE_DECAY + expected

    def record_long_life(self, earned: float, fee: float) -> None:
        """Count what the longest lifetime would have earned over the shortest in a call.

        It is bought once it earned its surcharge for a whole prompt, and until it lost lately.

        Args:
            earned: Amount that it would have earned; below 0 for a loss.
            fee: Amount that writing all of the call costs more for it.
        """
        self._long_life = self._long_life * _DECAY + earned
        least = 0.0 if self.is_long_lived else _MIN_HOUR_FEES * fee
        self.is_long_lived = self._long_life > least

    def record_read(self, now: float, *, came: bool) -> None:
        """Count if a call read what it should; calls that were made before a pause are not counted.

        Earlier earnings would pay for marks that are never read for long, so after some failures in
        a row none is sent for a while, which doubles with each further one.

        Args:
            now: Time at which the call was made, in seconds.
            came: True if it read at least half.
        """
        if came:
            self.failed_reads, self.retry_at = 0, 0.0
        elif now >= self.retry_at:
            self.failed_reads += 1
            more = self.failed_reads - _MAX_FAILED_READS
            if more >= 0:
                self.retry_at = now + min(_RETRY_PAUSE_S * 2.0**more, _MAX_RETRY_PAUSE_S)

    def marked_places(self, fees: tuple[float, ...], *, is_first_call: bool) -> int:
        """Number of places to mark, in wire order: up to the one with the best balance.

        What stands before a mark is written with it, so the places before it cost nothing.

        Args:
            fees: Surcharge of writing all of each place, in wire order; 0 where nothing is.
            is_first_call: True if the conversation begins.
        """
        last = PromptPlace.FIRST_CALL if is_first_call else PromptPlace.LATER_CALL
        worth = best = 0.0
        count = 0
        for at, fee in enumerate(fees):
            place = last if at == PromptPlace.FIRST_CALL else at
            worth += self.places[place] + STOP_LOSS_FEES * fee if fee else 0.0
            if worth >= best:
                best, count = worth, at + 1
        return count

    def earnings(self, count: int) -> float:
        """Sum of the balances of the first places."""
        later = self.places[PromptPlace.LATER_CALL] if count > PromptPlace.FIRST_CALL else 0.0
        return sum(self.places[:count]) + later

    def count_saved(self, saved: float) -> None:
        """Count what marks that were sent brought; below 0 for a loss."""
        self.net += saved
        self.balance += saved
        self.news.saved += saved
        self.news.staked += max(0.0, -saved)
        self.news.earned += max(0.0, saved)

    def record_values(
        self, values: PlaceValues, conversation: bytes, calls_before: int, now: float, life: float
    ) -> None:
        """Count what marks at each place brought to an answered call, or would have.

        What a conversation's end cost counts once it went on, or can not be read any more.

        Args:
            values: By place, in wire order.
            conversation: The call's.
            calls_before: Earlier calls of it: what the second reads, the first wrote.
            now: Time of the call, in seconds.
            life: Seconds that what it wrote lives.
        """
        self.places = [balance * _DECAY for balance in self.places]
        self.news.places = [balance * _DECAY for balance in self.news.places]
        self.news.decay *= _DECAY
        for at in range(PromptPlace.FIRST_CALL):
            self._add_to_place(at, values.gains[at] - values.fees[at])
        read = PromptPlace.FIRST_CALL if calls_before <= 1 else PromptPlace.LATER_CALL
        self._add_to_place(read, values.gains[PromptPlace.FIRST_CALL])
        self._count_write(self._unread.pop(conversation, None))
        while self._unread and next(iter(self._unread.values())).until < now:
            self._count_write(self._unread.popitem(last=False)[1])
        written = PromptPlace.FIRST_CALL if calls_before == 0 else PromptPlace.LATER_CALL
        fee = values.fees[PromptPlace.FIRST_CALL]
        self._unread[conversation] = UnreadWrite(written, fee, now + life)
        if len(self._unread) > _MAX_UNREAD_WRITES:
            self._count_write(self._unread.popitem(last=False)[1])

    def _count_write(self, write: UnreadWrite | None) -> None:
        if write is not None:
            self._add_to_place(write.place, -write.fee)

    def _add_to_place(self, place: int, amount: float) -> None:
        self.places[place] += amount
        self.news.places[place] += amount

    def reset_places(self) -> None:
        """Forget what marks earned: it lay in prefixes that are not stored."""
        for place, balance in enumerate(self.places):
            self._add_to_place(place, -max(0.0, balance))

    def record_call(self, direct: float, saved: float) -> None:
        """Count an answered call.

        Args:
            direct: Cost had it been sent unmodified.
            saved: Savings by the marks that were sent; below 0 for a loss.
        """
        self.count_saved(saved)
        self.total += direct
        self.calls += 1
        self.news.direct += direct
        self.news.calls += 1

    def adopt_stored(self, stored: StoredMarkAccount, sent: AccountNews | None) -> None:
        """Take over what all processes counted together.

        Args:
            stored: The stored account.
            sent: The news that are in it; None for none.
        """
        unit = UNITS_PER_NANO
        news = self.news = self.news if sent is None else self.news.subtract(sent)
        self.net = (stored.earned - stored.staked) * unit + news.earned - news.staked
        self.balance = stored.balance * unit + news.saved
        self.total = stored.direct * unit + news.direct
        self.calls = stored.calls + news.calls
        self.places = [
            balance * unit * news.decay + more
            for balance, more in zip(stored.places, news.places, strict=True)
        ]


class FeatureAccount(msgspec.Struct):
    """The books of one feature's marks on all models, which have one stake together.

    Attributes:
        stake: Amount that it may lose.
        families: Those on each family of models.
        stakes: Possible losses of calls that have not ended, and since when, by number.
        reads_failed: True if the latest call that should have read something lost by its marks.
        size_bytes: Bytes that it took when it was measured last.
    """

    stake: float = DEFAULT_STAKE
    families: dict[str, MarkAccount] = {}
    stakes: dict[int, tuple[float, float]] = {}
    reads_failed: bool = False
    size_bytes: int = 0
    _at_stake: float = 0.0
    _latest: float = 0.0

    def of(self, family: str) -> MarkAccount:
        """The books on one family of models."""
        return self.families.get(family) or self.families.setdefault(family, MarkAccount())

    @property
    def net(self) -> float:
        """Amount that the marks which were sent brought; below 0 for a loss."""
        return sum([account.net for account in self.families.values()])

    @property
    def balance(self) -> float:
        """The same, of which a loss counts half after a day."""
        return sum([account.balance for account in self.families.values()])

    def measure(self) -> int:
        """Measure the bytes it takes; returns how many more these are than before."""
        before, self.size_bytes = self.size_bytes, _FEATURE_BYTES + _STAKE_BYTES * len(self.stakes)
        self.size_bytes += sum([account.size_bytes for account in self.families.values()])
        return self.size_bytes - before

    def exposure(self, more: float = 0.0) -> float:
        """Amount that is lost, or may be by the calls under way and so much more."""
        return max(0.0, self._at_stake + more - self.balance)

    def allows_stake(self, stake: float, earned: float, direct: float) -> bool:
        """True if marks are sent that lose so much if they are never read.

        Args:
            stake: Surcharge of sending the call with them.
            earned: Amount that the marked places have earned lately.
            direct: Cost of the call without them.
        """
        if len(self.stakes) >= _MAX_STAKES:
            return False
        risk, net = stake + self._at_stake, self.net
        if risk <= net:
            return True
        is_bearable = risk - net <= self._max_lasting_loss(stake, earned, direct)
        return is_bearable and risk - self.balance <= self._max_day_loss(stake, earned)

    def max_loss(self, stake: float, earned: float, direct: float) -> float:
        """Amount that it may lose with such a call; the arguments are those of ``allows_stake``."""
        lasting = self._max_lasting_loss(stake, earned, direct)
        return min(lasting, self._max_day_loss(stake, earned))

    def _max_lasting_loss(self, stake: float, earned: float, direct: float) -> float:
        """Amount that all calls together may lose."""
        total = sum([account.total for account in self.families.values()])
        calls = sum([account.calls for account in self.families.values()])
        average = (total + direct) / (calls + 1)
        if earned < MIN_EARNINGS_PER_STAKE * stake:
            return _MAX_UNSEEN_LOSS_CALLS * average
        return max(_MAX_LOSS_CALLS * average, _MAX_LOSS_SHARE * total)

    def _max_day_loss(self, stake: float, earned: float) -> float:
        """Amount that may be lost of late, as a loss of days ago counts less."""
        if not self.stake:
            return 0.0
        has_earned = earned >= _MIN_EARNINGS_PER_SECOND_STAKE * stake
        return max(self.stake, 2.0 * stake if has_earned else stake)

    def expects_reads(self, surcharge: float) -> bool:
        """True if marks are sent that should be read: until so much is lost, or may be by others.

        Args:
            surcharge: Cost of writing all of the call instead.
        """
        is_untried = not (self.stakes or self.reads_failed)
        return is_untried or self.exposure() < max(self.stake, surcharge)

    def is_paused(self, family: str, now: float) -> bool:
        """True if too many reads failed a short while ago; after that, one is tried at a time."""
        account = self.of(family)
        if account.failed_reads < _MAX_FAILED_READS:
            return False
        is_early = account.retry_at - _MAX_RETRY_PAUSE_S <= now < account.retry_at
        return is_early or bool(self.stakes)

    def reserve_stake(self, number: int, stake: float, now: float) -> None:
        """Put by what a call's marks may lose, until it is released or must have ended."""
        self.forget_losses(now)
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

    def lose_stake(self, number: int, family: str) -> None:
        """The call was sent and nobody knows what it read: what it may lose is lost."""
        stake, _ = self.stakes.get(number, (0.0, 0.0))
        self.release_stake(number)
        self.of(family).count_saved(-stake)

    def forget_losses(self, now: float) -> None:
        """Let a loss count half after a day, whatever the clock is set to meanwhile."""
        passed = now - self._latest
        if passed > 0.0 and self._latest and self.balance < 0.0:
            part = 0.5 ** (min(passed, _MAX_FORGOTTEN_S) / _HALF_LIFE_S)
            for account in self.families.values():
                account.balance *= part if account.balance < 0.0 else 1.0
        if passed > 0.0 or passed < -_MAX_STAKE_S:  # calls that took less may end out of order
            self._latest = now
