"""A call's way from attempt to attempt: what was tried, what is left, when it is given up."""

from collections.abc import Callable
from math import inf

from proxy.calls.attempt import Opening
from proxy.calls.ports import Elsewhere, Line
from proxy.calls.requirements import unfit
from proxy.calls.route_choice import (
    Choice,
    Decision,
    NotCarried,
    fallbacks,
    instead,
    is_overflow,
    skipped_header,
)
from proxy.errors import ProxyError, UpstreamError
from proxy.prefix.planned import Planned
from proxy.records.compaction_result import CompactionResult


class Course:
    """The way of one call.

    Attributes:
        decision: What was decided before it began.
        refused: What planning made of the prompt, where the attempt under way goes without it
            because an upstream refused it.
        misfolded: The same of compaction, which goes first.
        skipped: Models that cannot take the call, by name, and why.
    """

    def __init__(self, line: Line, decision: Decision) -> None:
        """Begin with what was decided; routes that fail just now come last, but in a trial."""
        now = line.timeline.now()
        self._line = line
        self.decision = decision
        choices = decision.choices
        self._choices = list(
            choices if decision.is_trial else line.desk.lanes.ordered(choices, now)
        )
        self._tried = 0
        self._number = self._at_once = 0
        self._is_extended = self._is_moved = False
        self.refused: Planned | None = None
        self.misfolded: CompactionResult | None = None
        self.skipped = dict(decision.skipped)
        self._carried: UpstreamError | None = None
        if decision.deadline is not None and not decision.is_trial:
            self._pass_over_silent(now)
        line.desk.lanes.retries.called(now)

    @property
    def number(self) -> int:
        """Number of attempts there were."""
        return self._number

    @property
    def is_last(self) -> bool:
        """True if no other route is left to be tried."""
        return self._tried + 1 >= len(self._choices)

    @property
    def may_be_late(self) -> bool:
        """True if another route is to be tried where this one is late: not one that fails now."""
        following = self.following
        return following is not None and self._is_ready(following)

    @property
    def following(self) -> Choice | None:
        """The route that is tried next; None where there is no other."""
        return None if self.is_last else self._choices[self._tried + 1]

    def opening(self, line: Line | None = None) -> Opening:
        """The next attempt, with the choice whose turn it is.

        Args:
            line: Its line, where that is not the call's own.
        """
        choice = self._choices[min(self._tried, len(self._choices) - 1)]
        again = self.refused is not None
        made = Opening(
            line or self._line,
            choice,
            self._number,
            again=again,
            refused=self.misfolded,
            skipped=self.skipped,
        )
        made.may_move = not self._is_moved
        self._number += 1
        self._at_once += 1
        return made

    def passed(self) -> None:
        """Go on to the next choice."""
        self._tried += 1

    def bring_forward(self, is_quicker: Callable[[Choice], bool]) -> bool:
        """Try the first route next that is ready and may be quicker; False if there is none."""
        first = self._tried + 1
        for place in range(first, len(self._choices)):
            choice = self._choices[place]
            if self._is_ready(choice) and is_quicker(choice):
                self._choices.insert(first, self._choices.pop(place))
                return True
        return False

    def moved(self, elsewhere: Elsewhere) -> None:
        """Go on with another model, for this one is too dear."""
        model = self._line.desk.catalog.models[elsewhere.model]
        self._choices[self._tried :] = instead(model, elsewhere.why)
        self._is_moved = True
        if self._at_once == 1:  # it left no receipt; of several, others may have
            self._number -= 1
        self._at_once = 0

    def failed(self, opening: Opening, failure: UpstreamError) -> float | None:
        """Seconds to wait before the next attempt; None if there is to be none."""
        self._at_once = 0
        if not isinstance(failure, NotCarried):
            self._carried = failure
        misfolded = opening.misfolded(failure)
        self.refused = None if misfolded is not None else opening.refused(failure)
        if misfolded is not None or self.refused is None:
            self.misfolded = misfolded
        if misfolded is not None or self.refused is not None:
            return 0.0
        desk = self._line.desk
        if self.is_last:
            self._extend(failure)
        tried, routes = self._tried, len(self._choices)
        self._tried += 1
        if self._tried < routes:
            # What another model refuses, the one that was asked for may take.
            is_moved = bool(opening.choice.moved)
            return 0.0 if failure.retryable or is_moved or is_overflow(failure) else None
        pause = desk.patience.pause(failure, tried, routes)
        if pause is None or not desk.lanes.retries.may(self._line.timeline.now()):
            return None
        return pause

    def reason(self, failure: UpstreamError) -> UpstreamError:
        """Why the call failed: what an upstream said, before what could not be sent to another."""
        is_ours = isinstance(failure, NotCarried) and self._carried is not None
        return self._carried if is_ours and self._carried is not None else failure

    def tell_skipped(self, error: ProxyError) -> None:
        """Say in the error's headers which models cannot take the call."""
        if self.skipped:
            error.headers = {**error.headers, **skipped_header(self.skipped)}

    def _pass_over_silent(self, now: float) -> None:
        """Put a route of the same model first that begins, where the first has not begun of late.

        What is given up before it begins is no failure: no breaker notices, and each call would
        wait its deadline for it.
        """
        lanes, first = self._line.desk.lanes, self._choices[0]
        if len(self._choices) == 1 or lanes.lane(first.route).ttft.median(now) != inf:
            return
        for choice in self._choices[1:]:
            if choice.model == first.model and self._is_ready(choice):
                usual = lanes.lane(choice.route).ttft.median(now)
                if usual is not None and usual != inf:
                    self._choices.remove(choice)
                    self._choices.insert(0, choice)
                    return

    def _is_ready(self, choice: Choice) -> bool:
        """True if it may be tried because another is late: no last resort, and not failing."""
        if choice.is_last_resort:
            return False
        desk, now = self._line.desk, self._line.timeline.now()
        return desk.lanes.lane(choice.route).breaker.opens_again(now) <= 0

    def _extend(self, failure: UpstreamError) -> None:
        """Let the models follow that may answer in place of the one asked for, once."""
        if self._is_extended:
            return
        self._is_extended = True
        call, catalog = self._line.call, self._line.desk.catalog
        region = self._choices[0].route.upstream.region
        why = "context_length_exceeded" if is_overflow(failure) else failure.code
        known = {choice.model for choice in self._choices}
        for model in fallbacks(call, catalog, failure):
            if model.id in known:
                continue
            lack = unfit(call, model, region)
            if lack:
                self.skipped[model.id] = lack
            else:
                self._choices += instead(model, f"fallback: {why}")
