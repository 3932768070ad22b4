"""Budgets: a limit on dollars, tokens or requests in a window; finds those that apply to a call."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from hashlib import sha256

import msgspec

from slo import window
from slo.window import Window

#: The scopes with a fixed name; ``label:NAME`` is the other kind.
SCOPES = ("organization", "team", "key", "feature", "user")
LABEL_PREFIX = "label:"
#: ``of`` every name there is, each with a counter of its own.
EVERY = "*"
_MAX_KEY_CHARS = 64


class BudgetUnit(StrEnum):
    """The unit of a budget, counted in integers."""

    USD = "usd"  # nano-dollars
    TOKENS = "tokens"
    REQUESTS = "requests"


class HoldPolicy(StrEnum):
    """The amount reserved for a running call."""

    P95 = "p95"  # what 19 calls of 20 stay below; more near the limit
    WORST = "worst"  # what the call can cost at most


class OnStoreLoss(StrEnum):
    """The handling of calls while the store of counters cannot be reached."""

    OPEN = "open"  # they pass
    LOCAL_QUOTA = "local_quota"  # each process spends a part of what was left, then refuses
    CLOSED = "closed"  # they are refused


class UnpricedPolicy(StrEnum):
    """The handling of calls with an unknown price by a budget of dollars."""

    ALLOW = "allow"  # they pass
    OWN = "own"  # they pass where the upstream asks for no key, as an engine of one's own does
    REFUSE = "refuse"  # they are refused


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """A limit on what may be used; ``slo.policies.budgets`` describes its fields.

    Attributes:
        limit: In nano-dollars, tokens or requests; from 1 to what reservations count.
        of: An organization's is always ``*``.
    """

    name: str
    scope: str
    of: str = EVERY
    unit: BudgetUnit
    window: Window
    limit: int
    hard: bool = True
    hold: HoldPolicy = HoldPolicy.P95
    on_loss: OnStoreLoss = OnStoreLoss.CLOSED
    unpriced: UnpricedPolicy = UnpricedPolicy.OWN
    alerts: tuple[int, ...] = (50, 80, 95)


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """Team, key and labels that a call is for; "" where not stated.

    Attributes:
        feature: Part of the caller's product it serves.
        user: The end user, sealed where users are not to be known.
        labels: Other labels of the call, as the caller gives them.
    """

    team: str
    key: str
    feature: str = ""
    user: str = ""
    labels: Mapping[str, str] = {}


class BudgetIndex:
    """Budgets by whom they limit: finding a call's takes as long as there are scopes in use."""

    def __init__(self, budgets: Iterable[Budget]) -> None:
        self._kept: dict[str, dict[str, list[Budget]]] = defaultdict(lambda: defaultdict(list))
        for budget in budgets:
            self._kept[budget.scope][budget.of].append(budget)

    def applicable(self, subject: Subject) -> Iterator[tuple[Budget, str]]:
        """Each budget that the call counts in, and whose counter of it."""
        for scope, budgets_by_owner in self._kept.items():
            whose = _subject_name(scope, subject)
            for budget in budgets_by_owner.get(whose, ()):
                yield budget, whose
            if whose and whose != EVERY:
                for budget in budgets_by_owner.get(EVERY, ()):
                    yield budget, whose


def counter_key(budget: Budget, whose: str, time: float) -> str:
    """The counter of a budget in the window that this time is in.

    It differs by name, scope, unit, window and whose, so that a budget that is changed to count
    something else does not go on from what it counted before; a changed limit does go on. Long
    and unprintable names stand in it as a hash.

    Args:
        time: Time of admission, in seconds since the epoch.
    """
    if len(whose) > _MAX_KEY_CHARS or not whose.isprintable():
        whose = f"sha256:{sha256(whose.encode(errors='surrogatepass')).hexdigest()}"
    counted_in = window.window_name(budget.window, time)
    return f"{budget.name}/{budget.scope}/{budget.unit}/{counted_in}/{whose}"


def _subject_name(scope: str, subject: Subject) -> str:
    """The subject's name in this scope; "" where it has none."""
    if scope.startswith(LABEL_PREFIX):
        return subject.labels.get(scope.removeprefix(LABEL_PREFIX), "")
    if scope == "organization":
        return EVERY
    name: str = getattr(subject, scope)
    return name
