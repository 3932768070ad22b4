"""The routes whose calls broke an objective of late, which its level `elsewhere` leaves out."""

from collections import OrderedDict, deque
from typing import Final

import msgspec

from proxy.calls.route_choice import RouteChoice
from slo.objectives.objective import Objective

#: Calls of one objective on one route that are remembered, and the seconds for which they count.
_MAX_CALLS: Final = 20
_WINDOW_S: Final = 300.0
#: Pairs of objective and route that are remembered.
_MAX_ROUTES: Final = 10_000
#: A route whose share of bad calls is below so much of the worst one's did not break it.
_SHARE_OF_WORST: Final = 0.5
#: Calls that make a share. Fewer decide only where the routes with as many show nothing.
_MIN_CALLS: Final = 5


class RouteMisses:
    """The results of the latest calls of each route by each objective; bounded."""

    def __init__(self) -> None:
        self._calls: OrderedDict[tuple[str, str], deque[tuple[float, bool]]] = OrderedDict()

    def note(self, objective: str, route: str, now: float, *, is_bad: bool) -> None:
        """Note the result of a call that a route answered, or failed, by an objective."""
        calls = self._calls.setdefault((objective, route), deque(maxlen=_MAX_CALLS))
        self._calls.move_to_end((objective, route))
        calls.append((now, is_bad))
        if len(self._calls) > _MAX_ROUTES:
            self._calls.popitem(last=False)

    def split(
        self, objective: Objective, choices: tuple[RouteChoice, ...], now: float
    ) -> tuple[tuple[RouteChoice, ...], tuple[RouteChoice, ...]]:
        """The routes that may answer elsewhere, and those that broke the objective.

        Where nothing is known, the first one is left out: it answered. Of replicas of an engine any
        may have answered, so none is. Where all broke it, the worst alone is left out: calls on the
        level `elsewhere` then miss it, too, and the ladder goes on to its next level.
        """
        calls = [self._recent_calls(objective.name, choice.route.name, now) for choice in choices]
        is_broken = _broken_routes(objective, calls, _MIN_CALLS)
        if not any(is_broken):
            is_broken = _broken_routes(objective, calls, 1)
        if not any(is_broken) and not choices[0].route.upstream.engine:
            is_broken[0] = True
        if all(is_broken):
            shares = [sum(bad) / max(len(bad), 1) for bad in calls]
            worst = shares.index(max(shares))
            is_broken = [place == worst for place in range(len(choices))]
        pairs = list(zip(choices, is_broken, strict=True))
        other_choices = tuple(choice for choice, broken in pairs if not broken)
        return other_choices, tuple(choice for choice, broken in pairs if broken)

    def elsewhere(
        self, objective: Objective, choices: tuple[RouteChoice, ...], why: str, now: float
    ) -> tuple[RouteChoice, ...] | None:
        """The routes of the level `elsewhere`; None where there is nowhere else to go.

        Those that broke the objective follow, for when the others fail.

        Args:
            choices: The routes of the model that was asked for.
        """
        other_choices, broken = self.split(objective, choices, now)
        if not other_choices or not broken:
            return None
        return (
            *(msgspec.structs.replace(choice, reroute_reason=why) for choice in other_choices),
            *(msgspec.structs.replace(choice, is_suspect=True) for choice in broken),
        )

    def _recent_calls(self, objective: str, route: str, now: float) -> list[bool]:
        calls = self._calls.get((objective, route), ())
        return [is_bad for noted_at, is_bad in calls if noted_at > now - _WINDOW_S]


def _broken_routes(objective: Objective, calls: list[list[bool]], min_calls: int) -> list[bool]:
    """Of each route whether it broke the objective, by whether its calls were bad."""
    shares = [sum(bad) / len(bad) if len(bad) >= min_calls else 0.0 for bad in calls]
    limit = max(1 - objective.target, _SHARE_OF_WORST * max(shares))
    return [share > limit for share in shares]
