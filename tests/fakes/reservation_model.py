"""Reservations as one would keep them on paper: lists, searched every time."""

from collections import Counter
from collections.abc import Mapping, Sequence

from slo.budgets.counter import CounterClaim, CounterLevel, ReservationRefused
from slo.budgets.reservations import ReservationGranted


class ReservationModel:
    """The rules of reservations, said plainly.

    Attributes:
        holds: Amount and end, by counter and name; those that have ended, too.
        excess: By counter, what was settled beyond what was held for it.
    """

    def __init__(self) -> None:
        self.holds: dict[tuple[str, str], tuple[int, float]] = {}
        self.excess: Counter[str] = Counter()
        self._spent: Counter[str] = Counter()
        self._settled: set[str] = set()

    def level(self, counter: str, now: float) -> CounterLevel:
        held_amount = sum(
            amount
            for (of, _), (amount, until) in self.holds.items()
            if of == counter and until > now
        )
        return CounterLevel(self._spent[counter], held_amount)

    def count_active_holds(self, counter: str, now: float) -> int:
        return sum(of == counter and until > now for (of, _), (_, until) in self.holds.items())

    def held_by(self, name: str, now: float) -> list[str]:
        return [of for (of, by), (_, until) in self.holds.items() if by == name and until > now]

    def reserve(
        self, name: str, claims: Sequence[CounterClaim], now: float, until: float
    ) -> ReservationGranted | ReservationRefused:
        levels = {claim.counter: self.level(claim.counter, now) for claim in claims}
        is_known = name in self._settled or any(
            claim.counter in self.held_by(name, now) for claim in claims
        )
        if not is_known:
            over = [
                (number, claim, levels[claim.counter])
                for number, claim in enumerate(claims)
                if claim.hard
                and levels[claim.counter].spent + levels[claim.counter].held + claim.amount
                > claim.limit
            ]
            for number, claim, level in over:
                if level.spent + claim.amount > claim.limit:
                    return ReservationRefused(
                        number, level, None, self.count_active_holds(claim.counter, now)
                    )
            for number, claim, level in over:
                frees = self._first_end(claim.counter, now)
                return ReservationRefused(
                    number, level, frees, self.count_active_holds(claim.counter, now)
                )
            self.holds |= {(claim.counter, name): (claim.amount, until) for claim in claims}
        return ReservationGranted(
            tuple(self.level(claim.counter, now) for claim in claims),
            tuple(self.count_active_holds(claim.counter, now) for claim in claims),
        )

    def settle(self, name: str, amounts: Mapping[str, int], now: float) -> bool:
        if name in self._settled:
            return False
        self._settled.add(name)
        for counter, amount in amounts.items():
            held_amount, until = self.holds.pop((counter, name), (0, now))
            self.excess[counter] += max(0, amount - (held_amount if until > now else 0))
            self._spent[counter] += amount
        return True

    def extend(self, name: str, counters: Sequence[str], now: float, until: float) -> bool:
        counters_held = self.held_by(name, now)
        for counter in counters_held:
            if counter in counters:
                amount, before = self.holds[counter, name]
                self.holds[counter, name] = (amount, max(before, until))
        return set(counters) <= set(counters_held)

    def _first_end(self, counter: str, now: float) -> float:
        return min(
            until for (of, _), (_, until) in self.holds.items() if of == counter and until > now
        )
