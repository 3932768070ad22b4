"""Sends calls to a small model first where a rule asks for it and the loss is proved small.

Only the first turn of a conversation is weighed: a later one would lose its warm prefix. Each team
has a state of its own under each rule, in this process; it begins with the large model.
"""

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from secrets import SystemRandom
from typing import Final, TypeVar

import msgspec

from proxy.app_context import AppContext
from proxy.calls.eligibility.eligibility import CHAT, RESPONSES
from proxy.calls.eligibility.request_traits import request_traits
from proxy.calls.eligibility.requirements import missing_capability
from proxy.calls.metering.metering import Meter
from proxy.calls.ports import Dependencies
from proxy.calls.route_choice import RouteChoice, RoutingDecision, substitute_routes
from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Model
from proxy.configuration import Snapshot
from proxy.fast_path.small_first.answer_checks import AnswerCheck, AnswerWebhook, CheckRules
from proxy.fast_path.small_first.call_traits import CallTraits, read_traits
from proxy.fast_path.small_first.judge_channel import Verdict, combine_orders, estimate_error
from proxy.fast_path.small_first.loss_control import LossControl, LossPromise, new_control
from proxy.records.call import MESSAGES, Call
from proxy.records.lru_cache import LruCache
from proxy.records.receipt import Outcome, Receipt, ServedBy
from proxy.services.fast_path.comparisons import AnswerComparison, Comparisons, question_text
from proxy.services.fast_path.small_first_states import TeamControl, small_first_files
from proxy.services.fast_path.state_files import save_repeatedly
from proxy.store.sql.ids import call_ids
from slo.policies.small_first import SmallFirst, SmallFirstMode

_log = logging.getLogger("thriftgate.fast_path")

K = TypeVar("K")
V = TypeVar("V")

#: States of teams under rules; beyond these the longest unused ones go.
_MAX_STATES: Final = 1_000
_MAX_OPEN_CALLS: Final = 20_000
#: Bodies beyond this size are not weighed: reading them would hold up other calls.
_MAX_BODY_BYTES: Final = 256 * 1024
_UPDATE_ERROR_EVERY: Final = 25
_ENDPOINTS: Final = frozenset({CHAT, MESSAGES, RESPONSES})
_REASONS: Final[Mapping[SmallFirstMode, str]] = {
    SmallFirstMode.ROUTER: "small model first",
    SmallFirstMode.CASCADE: "small model first, checked",
}
_SECRET_DRAWS: Final = SystemRandom()


class _OpenCall(msgspec.Struct, frozen=True):
    """A call under way that is to be compared."""

    state: TeamControl
    rule: SmallFirst
    is_small: bool
    large: str


class _SmallAnswer(msgspec.Struct, frozen=True):
    """An answer of a small model that may be rated."""

    control: LossControl
    feature: str
    traits: CallTraits


class SmallFirstRouting:
    """The rules in force, each team's state under them, and the calls under way.

    Attributes:
        states: By team and rule, the longest unused first.
    """

    def __init__(
        self,
        comparisons: Comparisons,
        draw: Callable[[], float] = _SECRET_DRAWS.random,
        states: Mapping[tuple[str, str], TeamControl] | None = None,
    ) -> None:
        self.states: LruCache[tuple[str, str], TeamControl] = LruCache(_MAX_STATES)
        for key, state in (states or {}).items():
            self.states.put(key, state)
        self._comparisons = comparisons
        self._draw = draw
        self._rules: tuple[SmallFirst, ...] = ()
        self._catalog: Catalog | None = None
        self._open: dict[str, _OpenCall] = {}
        self._answered: dict[tuple[str, str], _SmallAnswer | None] = {}

    async def prepare(self, snapshot: Snapshot) -> Callable[[], None]:
        """Returns what applies a snapshot; nothing has to be got ready."""
        return partial(self.update, snapshot)

    def update(self, snapshot: Snapshot) -> None:
        """Apply the rules of a snapshot; states of rules that stay are kept."""
        self._rules, self._catalog = snapshot.policies.small_first, snapshot.catalog
        rules = {rule.name: rule for rule in self._rules}
        for key, state in list(self.states.items()):
            rule = rules.get(key[1])
            if rule is None or not _is_promised(rule, state.control.promise):
                self.states.drop(key)

    def use(self, deps: Dependencies) -> None:
        """Compare answers with these dependencies from now on."""
        self._comparisons.use(deps)

    def stop(self) -> None:
        """End comparisons: none waits any more, and none is added."""
        self._comparisons.stop()

    def decide(self, call: Call, decision: RoutingDecision) -> RoutingDecision:
        """The routes of a call, those of the small model first where it is to answer."""
        if not self._rules:
            return decision
        try:
            return self._weigh(call, decision)
        except Exception:  # noqa: BLE001 - an optimiser fails open: the call goes as asked
            _log.exception("Call %s could not be weighed for a small model", call.id)
            return decision

    def _weigh(self, call: Call, decision: RoutingDecision) -> RoutingDecision:
        rule = self._rule_of(call)
        model = self._small_model(rule, call, decision) if rule is not None else None
        if rule is None or model is None:
            return decision
        state = self._state(call.key.team, rule)
        traits, draws = traits_of_call(call), (self._draw(), self._draw())
        if rule.mode is SmallFirstMode.CASCADE:
            decided = state.control.decide_checked(call.id, call.feature, traits, draws[0])
        else:
            decided = state.control.decide(call.id, call.feature, traits, draws)
        if decided.is_judged or decided.is_small:
            opened = _OpenCall(state, rule, decided.is_small, decision.choices[0].model)
            _remember(self._open, call.id, opened)
        if decided.is_small:
            answered = _SmallAnswer(state.control, call.feature, traits)
            _remember(self._answered, (call.key.team, call.id), answered)
        large_choices = tuple(
            msgspec.structs.replace(choice, served_by=ServedBy.LARGE) for choice in decision.choices
        )
        if not decided.is_small:
            return msgspec.structs.replace(decision, choices=large_choices)
        choices = (*_small_choices(rule, model, decision.choices[0]), *large_choices)
        return msgspec.structs.replace(decision, choices=choices)

    def note_answer(self, call: Call, meter: Meter) -> None:
        """Have the answer of a call compared where that was drawn."""
        opened = self._open.pop(call.id, None)
        if opened is None or call.id not in opened.state.control.pending:
            return
        comparison = AnswerComparison(
            call=call,
            meter=meter,
            was_small=opened.is_small,
            other=opened.large if opened.is_small else opened.rule.small,
            judge=opened.rule.judge or opened.large,
            report=partial(self._report, opened, call.id),
            give_up=partial(_give_up, opened, call.id),
        )
        self._comparisons.add(comparison)

    def observe(self, receipt: Receipt) -> None:
        """Note the last receipt of a call: what the small model did not answer is no loss by it."""
        opened = self._open.get(receipt.call_id) if receipt.final else None
        if opened is None:
            return
        chosen = ServedBy.SMALL if opened.is_small else ServedBy.LARGE
        if receipt.served_by is not chosen:
            opened.state.control.withdraw(receipt.call_id)
        elif receipt.outcome is not Outcome.ANSWERED:
            _give_up(opened, receipt.call_id)
        else:
            return
        del self._open[receipt.call_id]

    def record_feedback(self, team: str, call_id: str, *, is_good: bool) -> bool:
        """Learn what a team thinks of a call; False where no small model answered it of late.

        The first rating of a call alone is learned. It moves predictions alone: who gives feedback
        is no random part, so it proves nothing.
        """
        key = team, call_id
        if key not in self._answered:
            return False
        answered, self._answered[key] = self._answered[key], None
        if answered is not None:
            answered.control.learn(answered.feature, answered.traits, 0.0 if is_good else 1.0)
        return True

    def _report(self, opened: _OpenCall, call_id: str, first: Verdict, second: Verdict) -> None:
        """Count the verdicts of both orders."""
        state = opened.state
        state.pairs += 1
        state.agreements += first == second
        if state.pairs % _UPDATE_ERROR_EVERY == 0:
            prior = opened.rule.judge_error
            state.control.update_error(estimate_error(state.agreements, state.pairs, prior))
        had_lost = state.control.loses_too_much()
        state.control.record_verdict(call_id, combine_orders(first, second))
        if opened.rule.mode is SmallFirstMode.CASCADE and state.control.loses_too_much() > had_lost:
            _log.warning(
                "%s: the cascade stopped, as small answers lose more than max_loss",
                opened.rule.name,
            )

    def _rule_of(self, call: Call) -> SmallFirst | None:
        """The first rule about the call; None where none may be applied to it."""
        if call.endpoint not in _ENDPOINTS or len(call.body) > _MAX_BODY_BYTES:
            return None
        if call.is_unattended or call.is_background or call.offers_hosted:
            return None
        team = call.key.team_name
        first = (rule for rule in self._rules if rule.applies_to(team, call.feature))
        rule = next(first, None)
        if rule is None or not rule.small:
            return None
        may_check = not call.is_streaming and (call.endpoint == CHAT or bool(rule.check_url))
        return rule if may_check or rule.mode is SmallFirstMode.ROUTER else None

    def _small_model(self, rule: SmallFirst, call: Call, decision: RoutingDecision) -> Model | None:
        """The rule's small model; None where it cannot take the call, or is asked for itself."""
        model = self._catalog.find(rule.small) if self._catalog is not None else None
        first = decision.choices[0]
        if model is None or decision.level or first.model in {model.id, ""}:
            return None
        allowed = call.key.models
        if allowed is not None and not {model.id, self._judge_id(rule, first)} <= allowed:
            return None
        if request_traits(call).is_answered or missing_capability(
            call, model, first.route.upstream.region
        ):
            return None
        return model

    def _judge_id(self, rule: SmallFirst, first: RouteChoice) -> str:
        """The id of the model that compares: the rule's, or else the one asked for."""
        name = rule.judge or first.model
        model = self._catalog.find(name) if self._catalog is not None else None
        return name if model is None else model.id

    def _state(self, team: str, rule: SmallFirst) -> TeamControl:
        """The state of a team under a rule, made anew where there is none."""
        return self.states.get_or_make((team, rule.name), partial(_new_state, rule))


def _new_state(rule: SmallFirst) -> TeamControl:
    promise = LossPromise(
        max_loss=rule.max_loss,
        judged_share=rule.judged_share,
        error=estimate_error(0, 0, rule.judge_error),
    )
    return TeamControl(new_control(promise))


def _is_promised(rule: SmallFirst, promise: LossPromise) -> bool:
    """True if a rule promises what was promised: what is proved of less holds for no more."""
    return (rule.max_loss, rule.judged_share) == (promise.max_loss, promise.judged_share)


def _remember(calls: dict[K, V], key: K, value: V) -> None:
    """Remember a call; forget the oldest where there are too many."""
    calls[key] = value
    if len(calls) > _MAX_OPEN_CALLS:
        del calls[next(iter(calls))]


def traits_of_call(call: Call) -> CallTraits:
    """The traits of a call, of its own messages."""
    traits = request_traits(call)
    return read_traits(
        question_text(call), has_schema=traits.schema, tools=int(traits.tools), turns=1
    )


def _give_up(opened: _OpenCall, call_id: str) -> None:
    """Await no verdict of a large model's answer; a small one's counts as lost."""
    if not opened.is_small:
        opened.state.control.withdraw(call_id)


def _small_choices(rule: SmallFirst, model: Model, large: RouteChoice) -> tuple[RouteChoice, ...]:
    """The routes of the small model, in the place of the one asked for."""
    checks = None
    if rule.has_checks:
        names = tuple(AnswerCheck(name) for name in rule.checks)
        url, deadline_s = rule.check_url, rule.check_ms / 1_000
        webhook = AnswerWebhook(url, deadline_s) if url else None
        checks = CheckRules(names, rule.min_margin, rule.pattern, webhook)
    return tuple(
        msgspec.structs.replace(
            choice, served_by=ServedBy.SMALL, instead_of=large.route, checks=checks
        )
        for choice in substitute_routes(model, f"{rule.name}: {_REASONS[rule.mode]}")
    )


@asynccontextmanager
async def running_small_first(
    around: AppContext,
    listen: Callable[[Callable[[Receipt], None]], None],
    ticks: Callable[[], float],
) -> AsyncIterator[SmallFirstRouting | None]:
    """Runs the routing to small models; yields it, None without a policies file.

    Args:
        listen: Has each receipt handed to a receiver.
    """
    if around.settings.policies is None:
        yield None
        return
    files = small_first_files(around.settings.folder / "small_first")
    comparisons = Comparisons(around.now, ticks, call_ids())
    small_first = SmallFirstRouting(comparisons, states=files.load())
    small_first.update(Snapshot(around.catalog, around.policies))
    around.follow(small_first.prepare)
    listen(small_first.observe)

    async def states() -> dict[tuple[str, str], TeamControl]:
        return dict(small_first.states.items())

    saving = around.tasks.keep(partial(save_repeatedly, files, states))
    try:
        yield small_first
    finally:
        small_first.stop()
        around.tasks.end(saving)
        await files.save(await states())
