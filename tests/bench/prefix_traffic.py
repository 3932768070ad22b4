"""A day's users of one feature with their questions and times, made up; the same for a seed."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random

from tests.fakes.handbook import dice, passages, question

_NAMES = ("Ines", "Tom", "Lea", "Marek", "Aya", "Paul", "Nadia", "Jonas", "Rosa", "Emil")
_SURNAMES = ("Carvalho", "Okafor", "Brandt", "Nowak", "Sato", "Girard", "Haddad", "Lind", "Moreau")
_PLANS = ("basic", "plus", "business", "trial")
_CITIES = ("Porto", "Lagos", "Bremen", "Gdansk", "Osaka", "Lyon", "Tunis", "Umea")
#: Seconds between two beginnings, on average.
_BEGINNINGS = 18.0
#: Seconds from one question to the next: how often, from, to.
_GAPS = ((0.35, 8.0, 30.0), (0.80, 30.0, 120.0), (1.0, 120.0, 420.0))
_ONCE = 0.30
_MOST_TURNS = 6


@dataclass(frozen=True, kw_only=True)
class User:
    """Somebody who asks once or a few times."""

    number: int
    name: str
    plan: str
    city: str
    since: int

    @property
    def facts(self) -> str:
        """The text shared by all of this user's calls, and by nobody else's."""
        return (
            f"Customer: {self.name} (number {400_000 + self.number * 37})\n"
            f"Plan: {self.plan}\nCity: {self.city}\nCustomer since: {self.since}\n"
            f"Open orders: {77_000 + self.number * 13}, {77_001 + self.number * 13}"
        )


@dataclass(frozen=True, kw_only=True)
class TimedQuestion:
    """One question; ``at`` is in seconds since the traffic's beginning."""

    at: float
    user: User
    turn: int

    @property
    def question(self) -> str:
        """The question; no other call asks it."""
        return question(f"{self.user.number}/{self.turn}")

    @property
    def context(self) -> str:
        """Text that changes with every call: the time, and what a search found for the question."""
        when = datetime.fromtimestamp(1_790_000_000.0 + self.at, UTC)
        return f"Current time: {when:%A, %d %B %Y, %H:%M:%S} UTC\n\n{passages(self.question)}"


def traffic(calls: int, seed: str = "1", first: int = 0) -> Sequence[TimedQuestion]:
    """The first so many calls, in order, of users numbered from ``first`` on.

    Three users in ten ask once, the others two to six times; somebody begins every 18 seconds or
    so, and from one question to the next it takes from eight seconds to seven minutes.
    """
    roll = dice("traffic", seed)
    questions: list[TimedQuestion] = []
    now = 0.0
    for number in range(calls):
        questions += _visit(first + number, now, roll)
        now += roll.expovariate(1 / _BEGINNINGS)
    return sorted(questions, key=lambda one: one.at)[:calls]


def _visit(number: int, now: float, roll: Random) -> list[TimedQuestion]:
    user = User(
        number=number,
        name=f"{roll.choice(_NAMES)} {roll.choice(_SURNAMES)}",
        plan=roll.choice(_PLANS),
        city=roll.choice(_CITIES),
        since=roll.randrange(2009, 2026),
    )
    turns = 1 if roll.random() < _ONCE else roll.randint(2, _MOST_TURNS)
    questions = []
    for turn in range(turns):
        questions.append(TimedQuestion(at=now, user=user, turn=turn))
        now += _gap(roll)
    return questions


def _gap(roll: Random) -> float:
    drawn = roll.random()
    low, high = next((low, high) for share, low, high in _GAPS if drawn <= share)
    return roll.uniform(low, high)
