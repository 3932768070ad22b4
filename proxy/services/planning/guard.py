"""The harm guard's actions: rolls a layout back, or suspends planning for a feature, and alerts."""

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from proxy.calls.ports import BackgroundTaskGroup
from proxy.prefix.guard import Harm
from proxy.records.feature_mode import LayoutScope
from proxy.store.errors import StoreError
from proxy.store.store import Store
from slo.alert import Alert, Severity

_log = logging.getLogger("thriftgate.planning")

#: Seconds that this process sends a feature unmodified when the decision could not be stored.
_RETRY_AFTER_S: Final = 600.0
#: Maximum number of features that this process sends unmodified before the database says so.
_MAX_SUSPENDED: Final = 1_024
_ALERT_DAYS: Final = 7
_DAY_S: Final = 86_400.0

SendAlert = Callable[[Alert], bool]


def suspension_alert(place: LayoutScope, team_name: str, why: str, now: float) -> Alert:
    """The alert that a feature went back to pass-through, and the evidence in one sentence."""
    feature = _feature_name(place, team_name)
    return _alert(
        place,
        why,
        now,
        title=f"Planning of {feature} is suspended: it cost more than sending unmodified",
        action="Its prompts are sent unmodified from now on, in all processes.",
        fix="See why its calls missed the cache. It is planned again once a person resumes it.",
    )


def step_back_alert(
    place: LayoutScope, team_name: str, layouts: tuple[int, int], why: str, now: float
) -> Alert:
    """The alert that a feature went back from a layout to the one before.

    Args:
        layouts: Version of the layout that harmed, and of the one before; 0 for none.
    """
    layout, before = layouts
    restored = f"layout {before}" if before else "no layout"
    return _alert(
        place,
        why,
        now,
        title=f"Layout {layout} of {_feature_name(place, team_name)} was rolled back:"
        f" it cost more than {restored}",
        action=f"New conversations have {restored} again; nothing approves itself for a day.",
        fix="Nothing has to be done. A person can approve the layout again.",
    )


def _alert(place: LayoutScope, why: str, now: float, *, title: str, action: str, fix: str) -> Alert:
    return Alert(
        kind="planning",
        subject=_feature_name(place, place.team),
        severity=Severity.TICKET,
        title=title,
        facts=(("found", why),),
        action=action,
        fix=fix,
        began=now,
        expires=now + _ALERT_DAYS * _DAY_S,
    )


def _feature_name(place: LayoutScope, team: str) -> str:
    models = f" on {place.family}" if place.family else ""
    return f"feature {place.feature or '(none)'} of team {team}{models}"


class PlanningGuard:
    """Stops what is surely dearer than sending directly: a layout, or planning where there is none.

    A feature passes through, or leaves its layout, in this process at once, in all others as soon
    as they see it in the database.
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
        self._noted: deque[tuple[LayoutScope, Harm]] = deque(maxlen=_MAX_SUSPENDED)
        #: Layouts that this process uses no more, also before the database says so.
        self._stopped: dict[tuple[LayoutScope, int], float] = {}

    def is_suspended(self, place: LayoutScope) -> bool:
        """True if this process sends the feature unmodified, also before the database says so."""
        until = self._until.get(place)
        if until is None or until > self._now():
            return until is not None
        del self._until[place]
        return False

    def note_harm(self, place: LayoutScope, harm: Harm | None) -> None:
        """Note what is to be stopped, from any thread; None for nothing."""
        if harm is not None:
            self._noted.append((place, harm))

    def stop_noted_harm(self) -> None:
        """Stop what was noted; call it on the event loop."""
        while self._noted:
            self.stop(*self._noted.popleft())

    def layout_in_force(self, place: LayoutScope, version: int) -> int:
        """The version that new conversations begin with here; 0 where this process stopped it."""
        return 0 if self._stopped.get((place, version), 0.0) > self._now() else version

    def stop(self, place: LayoutScope, harm: Harm) -> None:
        """Roll back the layout that harms, or suspend the place; call it on the event loop."""
        if harm.layout:
            if len(self._stopped) >= _MAX_SUSPENDED:
                self._stopped.clear()
            self._stopped[place, harm.layout] = self._now() + _RETRY_AFTER_S
            self._tasks.start(partial(self._step_back, place, harm))
        else:
            self.suspend(place, harm)

    def suspend(self, place: LayoutScope, harm: Harm) -> None:
        """Send a place's prompts unmodified from now on; call it on the event loop."""
        if self.is_suspended(place):
            return
        if len(self._until) >= _MAX_SUSPENDED:
            self._until.clear()
        self._until[place] = self._now() + _RETRY_AFTER_S
        self._tasks.start(partial(self._suspend, place, harm.why))

    async def _step_back(self, place: LayoutScope, harm: Harm) -> None:
        layouts, layout, now = self._store.layouts, harm.layout, self._now()
        try:
            before = await self._store.ask(layouts.step_back, place, layout, now)
            await self._store.ask(self._store.board.refresh)
        except StoreError as error:
            _log.warning(
                "Layout %d could not be rolled back but in this process, for 10 minutes: %s",
                layout, error,
            )  # fmt: skip
            return
        self._stopped.pop((place, layout), None)
        if before is None:
            return
        _log.error(
            "Layout %d of feature %r of team %s is rolled back to %d: %s",
            layout, place.feature, place.team, before, harm.why,
        )  # fmt: skip
        if self._say is not None:
            name = self._store.keyring.team_name(place.team)
            self._say(step_back_alert(place, name, (layout, before), harm.why, now))

    async def _suspend(self, place: LayoutScope, why: str) -> None:
        try:
            if await self._store.ask(self._store.layouts.suspend, place, why, self._now()):
                _log.error(
                    "Planning is suspended for feature %r of team %s until a person resumes it: %s",
                    place.feature,
                    place.team,
                    why,
                )
                if self._say is not None:
                    name = self._store.keyring.team_name(place.team)
                    self._say(suspension_alert(place, name, why, self._now()))
            await self._store.ask(self._store.board.refresh)
        except StoreError as error:
            _log.warning("Planning is suspended in this process alone, for 10 minutes: %s", error)
            return
        self._until.pop(place, None)
