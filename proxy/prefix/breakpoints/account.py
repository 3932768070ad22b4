"""The account of a feature's cache marks on a family of models: what they earned at each place.

Each place has a balance, as if all calls had carried all marks. One that lost more than
``STOP_LOSS_FEES`` times the fee of a mark is left unmarked until its balance recovers. The latest
write of a place counts once it can no longer be read, or another was made.
"""

from collections import OrderedDict
from enum import IntEnum
from typing import Final, NamedTuple

import msgspec

from proxy.records.mark_account import UNITS_PER_NANO, AccountNews, StoredMarkAccount

#: Places of a prompt that are marked.
MAX_PLACES: Final = 4
#: Surcharges of a place that it may lose before it is left unmarked.
STOP_LOSS_FEES: Final = 1.2
#: Factor on a place's balance at the next call: some dozen count.
_DECAY: Final = 0.92
#: The same of a feature's tokens: some 500 count.
_SIZE_DECAY: Final = 0.998
#: Conversations whose latest end may still be read; beyond, the oldest counts as unread.
_MAX_UNREAD_WRITES: Final = 32
#: Surcharges of an hour's lifetime that it would have earned before it is bought.
_MIN_HOUR_FEES: Final = 1.2
#: Reads that fail in a row before marks wait, and seconds until one is tried again: at first, most.
MAX_FAILED_READS: Final = 8
_RETRY_PAUSE_S: Final = 600.0
MAX_RETRY_PAUSE_S: Final = 86_400.0
#: Bytes of the books on one family, and of an unread write; measured.
_ACCOUNT_BYTES: Final = 1_100
_WRITE_BYTES: Final = 340


class PromptPlace(IntEnum):
    """A place of a prompt that a mark ends, in wire order; the last two are one place."""

    TOOLS = 0
    STABLE = 1
    SEMI_STABLE = 2
    FIRST_CALL = 3  #: The conversation, in its first call.
    LATER_CALL = 4  #: The conversation, in any other.


_HEAD_PLACES: Final = (PromptPlace.TOOLS, PromptPlace.STABLE, PromptPlace.SEMI_STABLE)


class PlaceValues(msgspec.Struct, frozen=True):
    """Gains and surcharges of a call's marks beside the unmodified call, by place, in any money."""

    gains: tuple[float, ...]
    fees: tuple[float, ...]


class UnreadWrite(NamedTuple):
    """A place, such as a conversation's end, that was written and may be read until a time."""

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
    _unread: OrderedDict[bytes | PromptPlace, UnreadWrite] = msgspec.field(
        default_factory=OrderedDict
    )
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

    @property
    def may_read_tools(self) -> bool:
        """True if the tools that were written last may still be read."""
        return PromptPlace.TOOLS in self._unread

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
            came: True if it read at least half.
        """
        if came:
            self.failed_reads, self.retry_at = 0, 0.0
        elif now >= self.retry_at:
            self.failed_reads += 1
            more = self.failed_reads - MAX_FAILED_READS
            if more >= 0:
                self.retry_at = now + min(_RETRY_PAUSE_S * 2.0**more, MAX_RETRY_PAUSE_S)

    def marked_places(self, fees: tuple[float, ...], *, is_first_call: bool) -> int:
        """Number of places to mark, in wire order: up to the one with the best balance.

        What stands before a mark is written with it, so the places before it cost nothing.

        Args:
            fees: Surcharge of writing all of each place, in wire order; 0 where nothing is.
        """
        last = PromptPlace.FIRST_CALL if is_first_call else PromptPlace.LATER_CALL
        worth = best = 0.0
        count = 0
        for index, fee in enumerate(fees):
            place = last if index == PromptPlace.FIRST_CALL else index
            worth += self.places[place] + STOP_LOSS_FEES * fee if fee else 0.0
            if worth >= best:
                best, count = worth, index + 1
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

        What a place's latest write cost counts once it can not be read any more, or another was
        made; a conversation's end once it went on, too.

        Args:
            calls_before: Earlier calls of it: what the second reads, the first wrote.
            life: Seconds that what it wrote lives.
        """
        self.places = [balance * _DECAY for balance in self.places]
        self.news.places = [balance * _DECAY for balance in self.news.places]
        self.news.decay *= _DECAY
        read = PromptPlace.FIRST_CALL if calls_before <= 1 else PromptPlace.LATER_CALL
        written = PromptPlace.FIRST_CALL if calls_before == 0 else PromptPlace.LATER_CALL
        self._count_write(self._unread.pop(conversation, None))
        self.count_expired_writes(now)
        for place in _HEAD_PLACES:
            self._add_to_place(place, values.gains[place])
            if values.fees[place]:
                self._put_by(place, UnreadWrite(place, values.fees[place], now + life))
        self._add_to_place(read, values.gains[PromptPlace.FIRST_CALL])
        fee = values.fees[PromptPlace.FIRST_CALL]
        self._put_by(conversation, UnreadWrite(written, fee, now + life))

    def _put_by(self, key: bytes | PromptPlace, write: UnreadWrite) -> None:
        """Let a write count later, and the one before it now."""
        self._count_write(self._unread.pop(key, None))
        self._unread[key] = write
        if len(self._unread) > _MAX_UNREAD_WRITES:
            self._count_write(self._unread.popitem(last=False)[1])

    def count_expired_writes(self, now: float) -> None:
        """Count writes that can not be read any more."""
        while self._unread and next(iter(self._unread.values())).until < now:
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

    def adopt_stored(self, stored: StoredMarkAccount, stored_news: AccountNews | None) -> None:
        """Take over what all processes counted together."""
        unit = UNITS_PER_NANO
        news = self.news = self.news if stored_news is None else self.news.subtract(stored_news)
        self.net = (stored.earned - stored.staked) * unit + news.earned - news.staked
        self.balance = stored.balance * unit + news.saved
        self.total = stored.direct * unit + news.direct
        self.calls = stored.calls + news.calls
        self.places = [
            balance * unit * news.decay + more
            for balance, more in zip(stored.places, news.places, strict=True)
        ]
