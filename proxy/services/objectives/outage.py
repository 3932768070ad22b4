"""The alert that is open while the objectives' counters do not answer; pure."""

from collections.abc import Callable, Iterable
from typing import Final

from proxy.services.objectives.objective_state import TrackedObjective
from slo.alert import Alert, Severity, resolve_alert, stable_id
from slo.objectives.objective import Enforce

_KIND: Final = "store"
_SUBJECT: Final = "objectives"
#: Seconds without an answer before the alert is sent: one late answer is no outage.
_ALERT_AFTER_S: Final = 10.0
#: Seconds of answers before the alert ends: a stalling Redis comes and goes.
_RECOVERED_AFTER_S: Final = 60.0


class CountersOutage:
    """Sends one alert when the counters cease to answer, and ends it once they answer again.

    Processes that lose them in the same minute send the same alert, which the outbox keeps once.
    """

    def __init__(
        self, tracks: Iterable[TrackedObjective], send_alert: Callable[[Alert], bool]
    ) -> None:
        self.update(tracks)
        self._send_alert = send_alert
        self._lost_since: float | None = None
        self._last_loss = float("-inf")
        self._open: Alert | None = None

    def update(self, tracks: Iterable[TrackedObjective]) -> None:
        """Use these objectives from now on; an open alert stays open until the counters answer."""
        self._tracks = [t for t in tracks if t.objective.enforce is not Enforce.OBSERVE]

    def resume(self, open_alerts: Iterable[Alert], now: float) -> None:
        """Continue with an alert that another process left open."""
        mine = (alert for alert in open_alerts if (alert.kind, alert.subject) == (_KIND, _SUBJECT))
        left = next(mine, None)
        if left is not None and self._open is None:
            self._open, self._lost_since, self._last_loss = left, left.began, now

    def record_loss(self, now: float) -> None:
        """Record that the counters do not answer now."""
        self._last_loss = now
        if self._lost_since is None or now < self._lost_since:
            self._lost_since = now
        if self._open is None and self._tracks and now - self._lost_since >= _ALERT_AFTER_S:
            self._open = self._alert(self._lost_since)
            self._send_alert(self._open)

    def record_recovery(self, now: float) -> None:
        """Record that the counters answer now."""
        if self._lost_since is None or abs(now - self._last_loss) < _RECOVERED_AFTER_S:
            return
        if self._open is not None:
            done = "All processes judge together again."
            self._send_alert(resolve_alert(self._open, self._last_loss, done))
        self._lost_since = self._open = None

    def _alert(self, began: float) -> Alert:
        acts = any(track.acts for track in self._tracks)
        return Alert(
            id=stable_id(_KIND, f"{began // _RECOVERED_AFTER_S:.0f}"),
            kind=_KIND,
            subject=_SUBJECT,
            severity=Severity.TICKET if acts else Severity.NOTE,
            title="The counters of objectives do not answer",
            facts=(("objectives", f"{len(self._tracks)}"),),
            action="Fallback levels hold and pins are followed. After 5 minutes each process judges"
            " by its own counts.",
            fix="Check the Redis that THRIFTGATE_REDIS_URL names.",
            began=began,
        )
