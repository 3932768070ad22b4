"""Alerts while objectives cannot be judged: one for all of them; pure."""

from collections.abc import Callable, Iterable
from typing import Final

from proxy.services.objectives.objective_state import TrackedObjective
from slo.alert import Alert, Severity, resolve_alert, stable_id
from slo.objective import Enforce

_KIND: Final = "store"
#: Seconds for which counters have to be away before people are told: one late answer is no outage.
_ALERT_AFTER_S: Final = 10.0
#: Seconds for which they have to answer before it is over: those that stall come and go.
_RECOVERED_AFTER_S: Final = 60.0


class CountersOutage:
    """Notifies people once of counters that are away, and once that they are back.

    Processes that lose them in the same minute tell the same alert, which the outbox keeps once.

    Args:
        tracks: The objectives.
        say: Takes alerts.
    """

    def __init__(self, tracks: Iterable[TrackedObjective], say: Callable[[Alert], bool]) -> None:
        self._tracks = [t for t in tracks if t.objective.enforce is not Enforce.OBSERVE]
        self._say = say
        self._since: float | None = None
        self._last = float("-inf")
        self._told: Alert | None = None

    def resume(self, told: Iterable[Alert], now: float) -> None:
        """Go on with an alert that another process left open."""
        left = next((alert for alert in told if alert.kind == _KIND), None)
        if left is not None and self._told is None:
            self._told, self._since, self._last = left, left.began, now

    def record_loss(self, now: float) -> None:
        """The counters do not answer now."""
        self._last = now
        if self._since is None or now < self._since:
            self._since = now
        if self._told is None and self._tracks and now - self._since >= _ALERT_AFTER_S:
            self._told = self._alert(self._since)
            self._say(self._told)

    def record_recovery(self, now: float) -> None:
        """The counters answer now."""
        if self._since is None or abs(now - self._last) < _RECOVERED_AFTER_S:
            return
        if self._told is not None:
            self._say(resolve_alert(self._told, self._last, "All processes judge together again."))
        self._since = self._told = None

    def _alert(self, began: float) -> Alert:
        acts = any(track.acts for track in self._tracks)
        return Alert(
            id=stable_id(_KIND, f"{began // _RECOVERED_AFTER_S:.0f}"),
            kind=_KIND,
            subject="objectives",
            severity=Severity.TICKET if acts else Severity.NOTE,
            title="The counters of objectives do not answer",
            facts=(("objectives", f"{len(self._tracks)}"),),
            action="Fallback levels hold and pins are followed. After 5 minutes each process judges"
            " by its own counts.",
            mend="Check the Redis that THRIFTGATE_REDIS_URL names.",
            began=began,
        )
