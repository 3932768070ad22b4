"""Counters that all processes reserve from together, in Redis.

One operation is one Lua script and one round trip, so nothing comes between looking and holding. A
script touches the keys it is given and no others, and all keys of an organisation carry one hash
tag, so they lie on one node of a cluster::

    thriftgate:{ORGANISATION}:settled          sorted set: reservation → when it was settled, in ms
    thriftgate:{ORGANISATION}:checkpoint       string: the second from which on it is kept apart
    thriftgate:{ORGANISATION}:counter:COUNTER  hash: s → spent, h → held, #NAME → held for NAME;
                                               c → checkpoint, b → spent before it, a → after it;
                                               ~NAME → what counts as spent if its hold ends
                                               unsettled, !NAME → what was counted so;
                                               of a lease NAME: +NAME → calls it holds for but one
                                               (r → of all leases), @NAME → its last report's serial
                                               number, %NAME → that of what it spent
    thriftgate:{ORGANISATION}:holds:COUNTER    sorted set: NAME → when its hold ends, in ms
    thriftgate:{ORGANISATION}:mark             string: what is known of them all

Redis tells the time, so that processes whose clocks differ agree on when a hold ends; a caller's
times only say how long. Sums are int64, compared as doubles: exact, as limits are at most 2^53 - 1.
A script frees at most a thousand ended holds of a counter: it must end soon, for Redis does nothing
else meanwhile. Of more than that at once, the rest stays held until the next script.
The mark lasts for half a minute unless it is made anew: a Redis that starts empty has none, and one
that starts from an older copy of itself has none either.
Redis must not evict (``maxmemory-policy noeviction``): counters are no cache.

Source: Redis documentation, "Scripting with Lua" and "Redis cluster specification" (7.0);
``EXPIRE`` (a copy keeps when a key ends, not how long it lasts); ``ZADD GT`` asks for Redis 6.2 or
Valkey.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from redis.exceptions import RedisError

from proxy.store.errors import StoreError
from proxy.store.ports import CountersCondition
from proxy.store.redis import budget_scripts as scripts
from proxy.store.redis.requests import answer_within, close_client, key_prefix, redis_client
from slo.budgets.counter import CounterClaim, CounterLevel, ReservationRefused, check_amount
from slo.budgets.leases import LeaseRenewal, LeaseReport
from slo.budgets.reservations import ReservationGranted, check_distinct_counters

DEADLINE_S: Final = 0.1
"""Seconds after which a Redis that has not answered is lost."""

_MAX_DEADLINES = 5  # deadlines that an operation takes at most, the wait for its turn included
_RESET_REPLY = 2  # what the script of a reservation says first where counters are not whole
_PAGE, _PAGES = 1000, 1000  # keys that are looked at in one step, and steps
_PATTERN = re.compile(r"[*?\[\]\\^]")  # what means something else in Redis' patterns


class RedisBudgetStore:
    """Counters in Redis, of one organisation.

    Args:
        url: ``redis://``, ``rediss://`` or ``unix://``; nothing is connected yet.
        organization: Whose; a name without braces.
        deadline: Seconds after which a Redis that has not answered is lost. While it answers
            others, one may wait for its turn; no operation takes longer than five deadlines.
        trusts_callers: True if callers tell the time, not Redis. For tests: with it, processes
            whose clocks differ do not agree.

    Attributes:
        counts_ended: True if a hold that comes to its end unsettled, for its process was killed,
            counts as spent: its call was sent, and is billed. Settling it later replaces that.

    Raises:
        ValueError: If the URL is no such URL, or a name has braces.
    """

    is_shared = True

    def __init__(
        self,
        url: str,
        organization: str,
        *,
        prefix: str = "thriftgate",
        deadline: float = DEADLINE_S,
        connections: int = 32,
        trusts_callers: bool = False,
    ) -> None:
        self._keys = key_prefix(prefix, organization)
        self._deadline = deadline
        self._trusts_callers = trusts_callers
        self.counts_ended = False
        self._turns = asyncio.Semaphore(connections)
        self._losses = 0
        self._redis = redis_client(url, retries=1)
        self._scripts = {
            body: self._redis.register_script(scripts.HEAD + body) for body in scripts.ALL
        }

    async def reserve(
        self,
        name: str,
        claims: Sequence[CounterClaim],
        now: float,
        until: float,
        *,
        only_whole: bool = False,
    ) -> ReservationGranted | ReservationRefused | None:
        """Hold every claim until then, or none."""
        check_distinct_counters(claims)
        if not claims:
            return ReservationGranted(())
        words_of_claims = [
            word
            for claim in claims
            for word in (claim.amount, claim.limit if claim.hard else "", _ms(claim.ends))
        ]
        counters = [claim.counter for claim in claims]
        words = (name, _ms(until - now), int(self.counts_ended), *words_of_claims)
        answer = await self._run(scripts.RESERVE, counters, now, *words, marked=only_whole)
        if answer[0] == _RESET_REPLY:
            return None
        if answer[0]:
            after = 1 + 2 * len(claims)
            return ReservationGranted(tuple(_levels(answer[1:after])), tuple(answer[after:]))
        _, claim, spent, held, wait, running = answer
        frees = None if wait < 0 else now + wait / 1000
        return ReservationRefused(claim, CounterLevel(int(spent), int(held)), frees, running)

    async def settle(
        self, name: str, amounts: Mapping[str, int], now: float, ended: float | None = None
    ) -> bool:
        """Add what was spent of each counter and let go of what was held there."""
        for amount in amounts.values():
            check_amount(amount)
        words = (name, "" if ended is None else int(ended), *amounts.values())
        return bool(await self._run(scripts.SETTLE, list(amounts), now, *words))

    def reserve_leased(self, name: str, claims: Sequence[CounterClaim], now: float) -> None:
        """None: nothing is reserved ahead."""
        return

    def settle_leased(self, name: str, amounts: Mapping[str, int], ended: float) -> bool:
        """False: nothing is reserved ahead."""
        return False

    async def extend(self, name: str, counters: Sequence[str], now: float, until: float) -> bool:
        """Let the reservation end later; False if a hold has already gone."""
        return bool(await self._run(scripts.EXTEND, counters, now, name, _ms(until - now)))

    async def levels(self, counters: Sequence[str], now: float) -> list[CounterLevel]:
        """Amounts spent and held of each counter."""
        return _levels(await self._run(scripts.LEVELS, counters, now))

    async def raise_spent(self, amounts: Mapping[str, int], now: float) -> list[int]:
        """Raise the spent amount of each counter to at least this; returns the amounts before."""
        for amount in amounts.values():
            check_amount(amount)
        raised = await self._run(scripts.LIFT, list(amounts), now, *amounts.values())
        return [int(nanos) for nanos in raised]

    async def report(
        self, name: str, reports: Sequence[LeaseReport], now: float, ttl_s: float
    ) -> list[LeaseRenewal]:
        """Renew a process's leases by what they report; one of a name on each counter.

        Args:
            ttl_s: Seconds after which a lease goes that is not renewed.

        Raises:
            StoreError: If Redis cannot be asked.
        """
        words = [word for report in reports for word in _script_arguments(report)]
        counters = [report.counter for report in reports]
        words = [name, _ms(ttl_s), int(self.counts_ended), *words]
        rows = await self._run(scripts.LEASE, counters, now, *words, marked=True)
        return [
            LeaseRenewal(
                is_valid=bool(is_valid),
                amount=int(amount),
                level=CounterLevel(int(spent), int(held)),
                running=running,
            )
            for is_valid, amount, spent, held, running in rows
        ]

    async def begin_checkpoint(self, now: float, within: float) -> int:
        """The next second, from which on all that is settled is kept apart."""
        return int(await self._run(scripts.CHECKPOINT, (), now, int(now), int(within)))

    async def restore(self, amounts: Mapping[str, int], checkpoint: int, now: float) -> list[int]:
        """Let counters have spent this before a checkpoint, and what was settled later."""
        for amount in amounts.values():
            check_amount(amount)
        words = (checkpoint, *amounts.values())
        restored = await self._run(scripts.RESTORE, list(amounts), now, *words, marked=True)
        return [int(nanos) for nanos in restored]

    async def condition(self, now: float) -> CountersCondition:
        """The condition of the counters, by their mark."""
        condition = await self._run(scripts.CONDITION, (), now, marked=True)
        return CountersCondition(condition.decode())

    async def change_condition(
        self, before: CountersCondition, after: CountersCondition, now: float
    ) -> bool:
        """Change the mark, or prolong it; False if it has another value than expected."""
        return bool(await self._run(scripts.TURN, (), now, before, after, marked=True))

    async def time(self) -> float:
        """The time by Redis's clock, with half of what asking took."""
        began = asyncio.get_running_loop().time()
        async with self._request_slot():
            seconds, micros = await answer_within(self._redis.time(), self._deadline)
        round_trip_s = asyncio.get_running_loop().time() - began
        return float(int(seconds) + int(micros) / 1_000_000 + round_trip_s / 2)

    async def counters_from(self, beginning: str, most: int) -> list[str]:
        """The counters whose names begin so, in no order and at most so many.

        It walks over all keys of the database, a million at most: for people who ask, not for
        calls.

        Raises:
            StoreError: Redis cannot be asked.
        """
        counters: set[str] = set()
        start = f"{self._keys}counter:".encode()
        sought = _PATTERN.sub(r"\\\g<0>", f"{self._keys}counter:{beginning}")
        cursor = 0
        for _ in range(_PAGES):
            async with self._request_slot():
                page = self._redis.scan(cursor, match=f"{sought}*", count=_PAGE)
                cursor, keys = await answer_within(page, self._deadline)
            counters.update(key.removeprefix(start).decode(errors="replace") for key in keys)
            if not cursor or len(counters) >= most:
                break
        return sorted(counters)[:most]

    async def aclose(self) -> None:
        """Let go of all connections, and do not wait long for a Redis that does not answer."""
        await close_client(self._redis)

    async def _run(
        self,
        body: str,
        counters: Sequence[str],
        now: float,
        *arguments: str | int,
        marked: bool = False,
    ) -> Any:  # noqa: ANN401 - what a script returns is its own
        """Runs the script; it is given the mark where that matters."""
        keys = [f"{self._keys}settled", f"{self._keys}checkpoint"]
        for counter in counters:
            keys += (f"{self._keys}counter:{counter}", f"{self._keys}holds:{counter}")
        if marked:
            keys.append(f"{self._keys}mark")
        time = _ms(now) if self._trusts_callers else ""
        script = self._scripts[body]
        async with self._request_slot():
            return await answer_within(script(keys=keys, args=(time, *arguments)), self._deadline)

    @asynccontextmanager
    async def _request_slot(self) -> AsyncIterator[None]:
        """A block in which Redis may be asked once."""
        losses = self._losses
        try:
            await answer_within(self._turns.acquire(), self._deadline * (_MAX_DEADLINES - 1))
        except TimeoutError as error:
            raise StoreError("too many operations wait for Redis") from error
        try:
            if losses < self._losses:
                raise StoreError("Redis was lost while others waited for it")
            yield
        except TimeoutError as error:
            self._losses += 1
            raise StoreError(f"Redis did not answer within {self._deadline} s") from error
        except (RedisError, OSError) as error:
            raise StoreError(f"Redis cannot be asked: {error}") from error
        finally:
            self._turns.release()


def _script_arguments(report: LeaseReport) -> Iterator[str | int]:
    """A report as the script takes it."""
    yield from (report.serial, report.number, report.floor, report.keep, report.want, report.least)
    yield from (int(report.is_new), report.running)
    yield from ("" if report.limit is None else report.limit, _ms(report.ends), len(report.spent))
    for second, amount in report.spent.items():
        yield from (second, amount)


def _levels(numbers_text: Sequence[bytes]) -> list[CounterLevel]:
    numbers = [int(number) for number in numbers_text]
    return [CounterLevel(*pair) for pair in zip(numbers[::2], numbers[1::2], strict=True)]


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
