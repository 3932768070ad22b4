"""Suspends planning for features that it makes dearer, and notifies people."""

import logging
import shlex
from collections.abc import Callable
from functools import partial
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from proxy.calls.ports import BackgroundTaskGroup
from proxy.prefix.guard import Harm
from proxy.records.feature_mode import EVERY_FAMILY, LayoutScope
from proxy.store.store import Store
from slo.alert import Alert, Severity

_log = logging.getLogger("thriftgate.planning")

#: Seconds a feature passes through here where the database did not take the decision.
_RETRY_AFTER_S: Final = 600.0
#: Features that pass through here before the database says so.
_MAX_SUSPENDED: Final = 1_024
_ALERT_DAYS: Final = 7
_DAY_S: Final = 86_400.0

SendAlert = Callable[[Alert], bool]


def suspension_alert(place: LayoutScope, why: str, now: float) -> Alert:
    """The alert that a feature went back to pass-through.

    Args:
        place: The feature.
        why: Evidence that planning made it dearer, in one sentence.
        now: Seconds since the epoch.
    """
    family = ("--family", place.family) if place.family != EVERY_FAMILY else ()
    resume = ("thriftgate", "layout", "resume", place.team, place.feature, *family)
    named = f"feature {place.feature or '(none)'} of team {place.team}"
    models = f" on {place.family}" if place.family else ""
    return Alert(
        kind="planning",
        subject=named + models,
        severity=Severity.TICKET,
        title=f"Planning made {named}{models} dearer and is suspended",
        facts=(("found", why),),
        action="Its prompts are sent unmodified from now on, in all processes.",
        fix=f"See `thriftgate misses`; to plan it again: `{shlex.join(resume)}`.",
        began=now,
        expires=now + _ALERT_DAYS * _DAY_S,
    )


class PlanningGuard:
    """Suspends planning where it is surely dearer than sending directly.

    A feature passes through in this process at once, in all others as soon as they see it in the
    database.

    Args:
        store: Store of the decisions.
        tasks: Background tasks that shutdown waits for.
        now: The clock.
        say: Notifies people.
    """

    def __init__(
        self,
        store: Store,
        tasks: BackgroundTaskGroup,
        *,
        now: Callable[[], float],
        say: SendAlert | None = None,
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._now = now
        self._say = say
        self._until: dict[LayoutScope, float] = {}

    def is_suspended(self, place: LayoutScope) -> bool:
        """True if this process sends the feature unmodified, also before the database says so."""
        until = self._until.get(place)
        if until is None or until > self._now():
            return until is not None
        del self._until[place]
        return False

    def suspend(self, place: LayoutScope, harm: Harm) -> None:
        """Send a place's prompts unmodified from now on; call it on the event loop."""
        if self.is_suspended(place):
            return
        if len(self._until) >= _MAX_SUSPENDED:
            self._until.clear()
        self._until[place] = self._now() + _RETRY_AFTER_S
        self._tasks.start(partial(self._suspend, place, harm.why))

    async def _suspend(self, place: LayoutScope, why: str) -> None:
        try:
            if await self._store.ask(self._store.layouts.suspend, place, why, self._now()):
                _log.error(
                    "Planning is suspended for feature %r of team %s until somebody resumes it: %s",
                    place.feature,
                    place.team,
                    why,
                )
                if self._say is not None:
                    self._say(suspension_alert(place, why, self._now()))
            await self._store.ask(self._store.board.refresh)
        except SQLAlchemyError as error:
            _log.warning("Planning is suspended in this process alone, for 10 minutes: %s", error)
            return
        self._until.pop(place, None)
