"""The fallback sequence of a call: which routes were tried, which are left, when it ends."""

from collections.abc import Callable
from math import inf
from typing import Final

from msgspec.structs import replace

from proxy.calls.attempts.attempt import AnswerBeginning, Attempt, AttemptOptions
from proxy.calls.eligibility.requirements import missing_capability
from proxy.calls.ports import CallContext, CheaperRoute
from proxy.calls.residency import allowed_choices
from proxy.calls.route_choice import (
    RouteChoice,
    RoutingDecision,
    fallback_models,
    is_overflow,
    skipped_header,
    substitute_routes,
)
from proxy.errors import ProxyError, UpstreamError
from proxy.prefix.planned import Planned
from proxy.records.compaction_result import CompactionResult
from slo.budgets.attempt_budgets import is_overdue

#: OpenAI's code where a key's organisation did not encrypt the reasoning that is sent back.
#: Source: OpenAI's errors (openai/codex 8145, 2025-12).
_UNREADABLE_REASONING: Final = "invalid_encrypted_content"
#: Status of the error of an upstream that hung.
_TIMED_OUT: Final = 504


class RouteSequence:
    """The routes of one call, in the order they are tried.

    Attributes:
        refused_plan: Planned prompt, where the attempt under way goes without it because an
            upstream refused it.
        refused_compaction: The same of compaction, which goes first.
        skipped: Models that cannot take the call, by name, and why.
    """

    def __init__(self, context: CallContext, decision: RoutingDecision) -> None:
        """Begin with what was decided; routes that fail just now come last."""
        now = context.timeline.now()
        self._context = context
        self.decision = decision
        self._choices = list(context.deps.route_health.sort_failing_last(decision.choices, now))
        self._position = 0
        self._number = self._open_attempts = 0
        self._is_extended = self._has_switched_model = False
        self.refused_plan: Planned | None = None
        self.refused_compaction: CompactionResult | None = None
        self.skipped = dict(decision.skipped)
        self._demoted: RouteChoice | None = None
        self._upstream_failure: UpstreamError | None = None
        self._ordered: set[str] = set()
        self._resent: frozenset[str] = frozenset()  # routes whose kept connection was stale
        if decision.deadline is not None:
            self._demote_silent_route(now, decision.deadline)
        context.deps.route_health.retries.record_call(now)

    @property
    def attempt_count(self) -> int:
        """The number of attempts so far."""
        return self._number

    @property
    def is_last(self) -> bool:
        """True if no other route is left to be tried."""
        return self._position + 1 >= len(self._choices)

    @property
    def has_ready_next(self) -> bool:
        """True if another route is to be tried where this one is late: not one that fails now."""
        following = self.next_choice
        return following is not None and self._is_ready(following)

    @property
    def has_suspect(self) -> bool:
        """True if a route is left that may be tried once it is seen to have recovered."""
        return any(choice.is_suspect for choice in self._choices[self._position + 1 :])

    @property
    def next_choice(self) -> RouteChoice | None:
        """The route that is tried next; None where there is no other."""
        return None if self.is_last else self._choices[self._position + 1]

    async def order_replicas(self) -> None:
        """Put the replicas in order whose turn it is, where they are of an engine.

        Those that cannot serve the call come after every other route, as failing routes do.
        """
        port = self._context.deps.replicas
        while port is not None and (run := self._unordered_replicas()):
            order = await port.order(self._context.call, tuple(run))
            silent = self._demoted.route.name if self._demoted is not None else ""
            ready = sorted(order.ready, key=lambda choice: choice.route.name == silent)
            if silent and ready and ready[-1].route.name == silent:
                self._demoted = ready[-1]  # the same, with its ticket
            self._choices[self._position : self._position + len(run)] = ready
            self._choices += order.unready
            self._ordered.update(choice.route.name for choice in run)

    def _unordered_replicas(self) -> list[RouteChoice]:
        """The next choices that are replicas of one model, alike in all else, and not ordered."""
        registry, now = self._context.deps.route_health, self._context.timeline.now()
        run: list[RouteChoice] = []
        for choice in self._choices[self._position :]:
            is_like = not run or _is_like(run[0], choice)
            is_failing = bool(run) and registry.is_failing(choice.route, now)
            if not choice.route.upstream.engine or not is_like or is_failing:
                break
            if choice.route.name in self._ordered:
                break
            run.append(choice)
        return run

    @property
    def _place(self) -> int:
        """The place of the choice whose turn it is; the last one is tried again."""
        return min(self._position, len(self._choices) - 1)

    def plan_continuations(self, broken: RouteChoice, failure: UpstreamError) -> bool:
        """Let the choices follow that can go on from an answer that broke off; False for none.

        Those come first that were not tried yet, then those before, and the broken one last; not
        if it hung.
        """
        self._append_fallbacks(failure)
        now, place = self._context.timeline.now(), self._place
        untried, tried = self._choices[place + 1 :], self._choices[: place + 1]
        others = [*untried, *(replace(choice, replica=None) for choice in tried)]
        others = [choice for choice in others if choice.route.name != broken.route.name]
        if failure.status != _TIMED_OUT:
            others.append(replace(broken, replica=None))
        self._choices = [
            choice for choice in others if choice.route.continues and self._is_admitted(choice, now)
        ]
        self._position = 0
        return bool(self._choices)

    def next_continuation(self, beginning: AnswerBeginning) -> Attempt:
        """The attempt that goes on from an answer, with the choice whose turn it is."""
        options = AttemptOptions(may_switch_model=False, beginning=beginning)
        choice = self._choices[self._place]
        if self._position > self._place:
            choice = replace(choice, replica=None)  # its ticket is used
        attempt = Attempt(self._context, choice, self._number, options)
        self._number += 1
        return attempt

    def pause_before_continuation(self, failure: ProxyError) -> float | None:
        """Seconds to wait before the next attempt that goes on; None if there is to be none."""
        tried, routes = self._position, len(self._choices)
        self._position += 1
        if self._position < routes:
            return 0.0
        if not isinstance(failure, UpstreamError):
            return None
        return self._pause_before_retry(failure, tried)

    def next_attempt(self, context: CallContext | None = None) -> Attempt:
        """The next attempt, with the choice whose turn it is.

        Args:
            context: Its line, where that is not the call's own.
        """
        options = AttemptOptions(
            is_resent=self.refused_plan is not None,
            refused_compaction=self.refused_compaction,
            may_switch_model=not self._has_switched_model,
            skipped=self.skipped,
        )
        choice = self._choices[self._place]
        attempt = Attempt(context or self._context, choice, self._number, options)
        self._number += 1
        self._open_attempts += 1
        return attempt

    def is_probe_due(self, now: float) -> bool:
        """True if the call is to show whether the route that it passes over begins again.

        Nothing else would show it for a minute. A trial is to show it, and where the route in its
        place has just been late, each call is.
        """
        demoted = self._demoted
        if demoted is None or self.next_choice is not demoted or not self._is_ready(demoted):
            return False
        registry = self._context.deps.route_health
        in_place = registry.health_of(self._choices[0].route).ttft
        is_due = registry.health_of(demoted.route).ttft.try_probe(now)
        return is_due or self.decision.is_trial or in_place.last(now) == inf

    def advance(self) -> None:
        """Go on to the next choice."""
        self._position += 1

    def bring_forward(self, is_quicker: Callable[[RouteChoice], bool]) -> bool:
        """Try the first route next that is ready and may be quicker; False if there is none."""
        first = self._position + 1
        for place in range(first, len(self._choices)):
            choice = self._choices[place]
            if self._is_ready(choice) and is_quicker(choice):
                self._choices.insert(first, self._choices.pop(place))
                return True
        return False

    def switch_model(self, elsewhere: CheaperRoute) -> None:
        """Go on with another model, for this one is too dear."""
        model = self._context.deps.catalog.models[elsewhere.model]
        routes = substitute_routes(model, elsewhere.why)
        self._choices[self._position :] = allowed_choices(self._context.call, routes)
        self._has_switched_model = True
        if self._open_attempts == 1:  # it left no receipt; of several, others may have
            self._number -= 1
        self._open_attempts = 0

    def pause_after_failure(self, attempt: Attempt, failure: UpstreamError) -> float | None:
        """Seconds to wait before the next attempt; None if there is to be none."""
        self._open_attempts = 0
        if failure.was_stale and attempt.choice.route.name not in self._resent:
            self._resent |= {attempt.choice.route.name}
            return 0.0
        if failure.untranslatable:
            self.skipped[attempt.choice.model] = failure.untranslatable
        elif self._upstream_failure is None or not _is_refused_by_substitute(attempt, failure):
            self._upstream_failure = failure
        if self._may_resend(attempt, failure):
            return 0.0
        if self.is_last:
            self._append_fallbacks(failure)
        tried, routes = self._position, len(self._choices)
        self._position += 1
        if self._position < routes:
            # What another model refuses, the one that was asked for may take.
            is_moved = bool(attempt.choice.reroute_reason)
            return 0.0 if failure.retryable or is_moved or is_overflow(failure) else None
        return self._pause_before_retry(failure, tried)

    def _pause_before_retry(self, failure: UpstreamError, tried: int) -> float | None:
        """Seconds to wait before the last route is tried again; None if it is not to be."""
        deps = self._context.deps
        pause = deps.retry_policy.pause_before_retry(failure, tried, len(self._choices))
        if pause is None or not deps.route_health.retries.try_acquire(self._context.timeline.now()):
            return None
        return pause

    def _may_resend(self, attempt: Attempt, failure: UpstreamError) -> bool:
        """True if the same route is tried at once without what its upstream may have refused."""
        if self._may_leave_out_reasoning(attempt, failure):
            self._choices[self._place] = replace(attempt.choice, reasoning="unread")
            return True
        refused_compaction = attempt.step.refused_compaction(failure)
        self.refused_plan = (
            None if refused_compaction is not None else attempt.step.refused_plan(failure)
        )
        if refused_compaction is not None or self.refused_plan is None:
            self.refused_compaction = refused_compaction
        return refused_compaction is not None or self.refused_plan is not None

    def _may_leave_out_reasoning(self, attempt: Attempt, failure: UpstreamError) -> bool:
        """True once, where a translated call brought reasoning that its upstream cannot decrypt.

        That is so once the upstream's key is another organisation's: all answers before are sealed
        for the former, and the conversation could never go on.
        """
        choice = attempt.choice
        is_sealed = attempt.info.translated is not None and choice.reasoning == "sealed"
        is_unread = is_sealed and failure.code == _UNREADABLE_REASONING
        return is_unread and choice is self._choices[self._place]

    def final_failure(self, attempt: Attempt, failure: UpstreamError) -> UpstreamError:
        """Return the error that the caller of a failed call is told.

        What the model asked for said goes before what could not be sent to another, or what
        another refused: its caller may try again, and has written nothing wrong.
        """
        is_aside = failure.untranslatable or _is_refused_by_substitute(attempt, failure)
        return (self._upstream_failure or failure) if is_aside else failure

    def add_skipped_header(self, error: ProxyError) -> None:
        """Say in the error's headers which models cannot take the call."""
        if self.skipped:
            error.headers = {**error.headers, **skipped_header(self.skipped)}

    def _demote_silent_route(self, now: float, deadline: float) -> None:
        """Put a route of the same model first that begins, where the first has not begun of late.

        What is given up before it begins is no failure: no breaker notices, and each call would
        wait its deadline for it. Probes show when it begins again.
        """
        first = self._choices[0]
        if len(self._choices) == 1 or self._usual_ttft(first, now) != inf:
            return
        for choice in self._choices[1:]:
            if choice.is_last_resort or choice.model != first.model:
                continue
            usual = self._usual_ttft(choice, now)
            if usual is None or self._began_within(first, max(deadline, usual), now):
                continue
            if usual < inf and self._is_admitted(choice, now):
                self._choices.remove(choice)
                self._choices.insert(0, choice)
                self._demoted = first
                return

    def _began_within(self, choice: RouteChoice, seconds: float, now: float) -> bool:
        """True if the newest call there began in so many seconds."""
        last = self._context.deps.route_health.health_of(choice.route).ttft.last(now)
        return last is not None and last <= seconds < inf

    def _usual_ttft(self, choice: RouteChoice, now: float) -> float | None:
        """Seconds to the first content there; on a fallback level, of the newest calls alone.

        A level is taken because routes changed: what they did before says little.
        """
        ttft = self._context.deps.route_health.health_of(choice.route).ttft
        return ttft.newest(now) if self.decision.level else ttft.usual(now)

    def _is_ready(self, choice: RouteChoice) -> bool:
        """True if it may be tried because another is late: no last resort, and not failing."""
        now = self._context.timeline.now()
        if choice.is_last_resort or (choice.is_suspect and not self._has_recovered(choice, now)):
            return False
        return self._is_admitted(choice, now)

    def _is_admitted(self, choice: RouteChoice, now: float) -> bool:
        """True if the route's breaker lets a call pass."""
        health = self._context.deps.route_health.health_of(choice.route)
        return health.breaker.seconds_until_admission(now) <= 0

    def _has_recovered(self, choice: RouteChoice, now: float) -> bool:
        """True if the route's latest calls began, in less time than this call has waited.

        Where none of them began, or none is known, also once the route in its place is overdue:
        what is known is old by then, and nothing else would show that the route recovered.
        """
        newest = self._context.deps.route_health.health_of(choice.route).ttft.newest(now)
        waited, deadline = now - self._context.timeline.started, self.decision.deadline
        if (newest is None or newest == inf) and deadline is not None:
            here = self._usual_ttft(self._choices[0], now)
            return is_overdue(here, waited=waited, deadline=deadline)
        return newest is not None and newest <= waited

    def _append_fallbacks(self, failure: UpstreamError) -> None:
        """Let the models follow that may answer in place of the one asked for, once."""
        if self._is_extended:
            return
        self._is_extended = True
        call, catalog = self._context.call, self._context.deps.catalog
        region = self._choices[0].route.upstream.region
        why = "context_length_exceeded" if is_overflow(failure) else failure.code
        tried_models = {choice.model for choice in self._choices}
        for model in fallback_models(call, catalog, failure):
            if model.id in tried_models:
                continue
            lack = missing_capability(call, model, region)
            if lack:
                self.skipped[model.id] = lack
            else:
                self._choices += allowed_choices(call, substitute_routes(model, f"fallback: {why}"))


def _is_like(one: RouteChoice, other: RouteChoice) -> bool:
    """True if they are replicas of one model, and alike in all but where they run."""
    is_one_model = one.route.model == other.route.model
    alike = ("model", "reroute_reason", "is_last_resort", "is_suspect")
    return is_one_model and all(getattr(one, name) == getattr(other, name) for name in alike)


def _is_refused_by_substitute(attempt: Attempt, failure: UpstreamError) -> bool:
    """True if a model in place of the one asked for refused what was not written for it."""
    return bool(attempt.choice.reroute_reason) and not failure.retryable
