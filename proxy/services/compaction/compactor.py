"""Compaction in a running gateway: workers, deadlines and live quality around the pure core.

::

    compact ── setting, header, prices of the route ──▶ the call to send, from the caller's bytes
    track_unmodified ── the call is sent unmodified after all: reports a changed prefix
    record_refusal ── an upstream took a call only unmodified: cools down conversation, then feature
    record_outcome ── values needed of compacted text, and savings ──▶ steps back, sends alerts
    share_balances ── what compaction saved each feature, in all processes ──▶ what it may lose

Fails open: whatever goes wrong, the call is sent unmodified, with a reason.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from math import inf
from typing import Final, TypeVar

import msgspec

from compaction.compact import compact
from compaction.policy import CompactionMode
from compaction.quality_evidence import QualityEvidence, next_mode
from compaction.reading.message import CannotCompactError
from proxy.app_context import AppContext
from proxy.calls.eligibility.eligibility import CHAT, RESPONSES
from proxy.calls.eligibility.route_target import route_target
from proxy.calls.ports import BackgroundTaskGroup
from proxy.catalog.entries import Route
from proxy.prefix.planned import PlanningTarget
from proxy.prefix.prompts.objects import Unplannable
from proxy.records.amounts import quantity
from proxy.records.call import MESSAGES, Call
from proxy.records.compaction_result import (
    NO_COMPACTION,
    RECALL_FAILED,
    CompactionResult,
    passthrough_result,
)
from proxy.records.compaction_settings import CompactionDefaults
from proxy.records.lru_cache import LruCache
from proxy.records.receipt import Receipt
from proxy.services.compaction.alerts import (
    CompactedFeaturesCollector,
    higher_cost_alert,
    stepped_back_alert,
)
from proxy.services.compaction.chat_body import (
    ChatCompactor,
    CompactedCall,
    CompactionTask,
    ConversationIdentity,
    compact_call,
    identify_conversation,
)
from proxy.services.compaction.conversations import (
    COOL_DOWN_S,
    ConversationTracker,
    CoolDowns,
    SentConversation,
)
from proxy.services.compaction.live_quality import WINDOW_S, LiveQuality, Place
from proxy.services.compaction.policies import (
    compaction_policy,
    native_compaction_result,
    parse_compaction_request,
)
from proxy.services.compaction.recall_tool import recall_rules
from proxy.services.compaction.signed_thinking import with_thinking_rules
from proxy.services.compaction.stakes import CompactionStakes, strict_task, with_reason
from proxy.services.compaction.worker_pool import WorkerPool
from proxy.store.errors import StoreError
from proxy.store.store import Store
from slo.alert import Alert

_log = logging.getLogger("thriftgate.compaction")

T = TypeVar("T")

#: Endpoints of conversations; of the others than chat those that their route takes as they are.
_CONVERSATIONS: Final = frozenset({CHAT, RESPONSES, MESSAGES})
#: Bytes from which on compacting may take more than a millisecond, and so goes to a thread.
_LARGE_BODY_BYTES: Final = 4 * 1024
#: Seconds after which a call is sent unmodified.
_DEADLINE_S: Final = 0.5
#: Bytes above which a prompt is sent unmodified: it would not be compacted in time.
MAX_BODY_BYTES: Final = 8 * 1024 * 1024
#: Seconds between two readings of the balances that all processes share.
_BALANCES_INTERVAL_S: Final = 15.0
#: Features of which it is remembered that conversations may have been compacted.
_MAX_FEATURES: Final = 8_192
_MAX_WHY_CHARS: Final = 200
_DEFAULTS: Final = CompactionDefaults()


class Compactor:
    """Compacts the calls of one process."""

    def __init__(
        self,
        store: Store,
        tasks: BackgroundTaskGroup,
        *,
        now: Callable[[], float],
        send_alert: Callable[[Alert], bool],
        defaults: CompactionDefaults = _DEFAULTS,
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._now = now
        self._send_alert = send_alert
        self._defaults = defaults
        self._workers = WorkerPool(_DEADLINE_S)
        self._tracker = ConversationTracker()
        self._compacted_features: LruCache[Place, bool] = LruCache(_MAX_FEATURES)
        self._cool_downs = CoolDowns()
        self._stakes = CompactionStakes(defaults.stake)
        self._live_quality = LiveQuality()
        self._stepping_back: set[Place] = set()
        #: Compacts the messages of a chat.
        self.compact_chat: ChatCompactor = compact

    def has_part(self, call: Call) -> bool:
        """True if compaction may have to do with the call: the call or its feature asks, or did."""
        place = (call.key.team, call.feature)
        if call.compaction or self._compacted_features.peek(place):
            return True
        setting = self._store.compaction_settings.current.of(*place)
        return setting.effective_mode(self._defaults.mode) is not CompactionMode.OFF

    async def compact(self, call: Call, route: Route) -> CompactionResult:
        """The call to send on this route, or the reason to send it unmodified; never raises."""
        if call.endpoint not in _CONVERSATIONS or call.method != "POST":
            return NO_COMPACTION
        place = (call.key.team, call.feature)
        setting = self._store.compaction_settings.current.of(*place)
        request = parse_compaction_request(call.compaction, setting, self._defaults.mode)
        if request.mode is CompactionMode.OFF:
            result = (
                msgspec.structs.replace(NO_COMPACTION, notes=request.notes)
                if request.notes
                else NO_COMPACTION
            )
            return await self.track_unmodified(call, result)
        if why := self._skip_reason(call, request.mode):
            return await self.track_unmodified(call, passthrough_result(request.mode.value, why))
        if request.mode is CompactionMode.NATIVE:
            return await self.track_unmodified(
                call, native_compaction_result(call, route, setting, is_dry=request.is_dry)
            )
        target = route_target(route, call.model, self._now(), call.endpoint)
        self._compacted_features.put(place, value=True)
        policy = compaction_policy(request, setting, target, route.window, self._stakes.safety)
        body = call.body if call.fields is None else call.fields.thinking_body
        task = CompactionTask(
            call=call,
            policy=with_thinking_rules(policy, body, route),
            is_dry=request.is_dry,
            control_share=self._defaults.share,
            secret=self._store.secret,
            model=target.model,
            recall=recall_rules(route),
        )
        return await self._compact_in_time(task, target)

    async def track_unmodified(self, call: Call, result: CompactionResult) -> CompactionResult:
        """The result for an unmodified call; notes where the call before was modified."""
        place = (call.key.team, call.feature)
        if call.endpoint not in _CONVERSATIONS or place not in self._compacted_features:
            return result
        try:
            conversation = await self._run_guarded(self._identify_conversation(call), call)
        except (CannotCompactError, Unplannable):
            return result
        if conversation is None:
            return result
        now = SentConversation(
            result=result,
            conversation=conversation,
            policy=None,
            at=self._now(),
            cache_lifetime_s=inf,
        )
        return self._tracker.track(call, now)

    def record_refusal(self, call: Call, result: CompactionResult) -> None:
        """Cools a conversation down: an upstream accepted it only unmodified."""
        place = (call.key.team, call.feature)
        is_all = self._cool_downs.record_refusal(place, result.conversation, self._now())
        _log.error(
            "An upstream refused a compacted conversation of feature %r and accepted it unmodified:"
            " compaction skips the %s for %d s",
            call.feature,
            "feature" if is_all else "conversation",
            COOL_DOWN_S,
        )

    def record_outcome(self, receipt: Receipt) -> None:
        """Counts the outcome of a call, and judges its feature by it."""
        self._stakes.record(receipt)
        chosen = self._store.compaction_settings.current
        is_evidence = receipt.compacted or receipt.needed or receipt.compaction_why == RECALL_FAILED
        if not receipt.final or not is_evidence:
            return
        place = (receipt.team, receipt.feature)
        setting = chosen.of(*place)
        mode = setting.effective_mode(self._defaults.mode)
        if receipt.compaction != mode.value or place in self._stepping_back:
            return
        self._live_quality.add(receipt, setting.measured_from)
        sums = self._live_quality.sums(place, self._now(), setting.measured_from)
        for evidence in sums.evidence(mode):
            gentler = next_mode(mode, evidence)
            if gentler is not mode:
                self._stepping_back.add(place)
                self._tasks.start(partial(self._step_back, place, mode, gentler, evidence))
                return
        if sums.is_dearer:
            name = self._store.keyring.team_name(place[0])
            self._send_alert(higher_cost_alert(place, name, sums, self._now()))

    async def share_balances(self) -> None:
        """Reads the balances of features every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(_BALANCES_INTERVAL_S)
            if self._stakes.is_used:
                await self.read_balances()

    async def read_balances(self) -> None:
        """Takes over what compaction saved each feature in the last day, in all processes."""
        now, receipts = self._now(), self._store.compaction_receipts
        try:
            saved = await self._store.ask(receipts.savings_by_feature, now - WINDOW_S, now)
        except StoreError as error:
            _log.warning("The balances of compaction were not read: %s", error)
        else:
            self._stakes.adopt_stored(saved)

    def close(self) -> None:
        """Stops compacting; what waits is dropped."""
        self._workers.close()

    async def _compact_in_time(
        self, task: CompactionTask, target: PlanningTarget
    ) -> CompactionResult:
        """Compacts the call within the deadline, or says why not."""
        mode, call = task.policy.mode, task.call
        try:
            compacted = await self._compact_once(task)
            if compacted and self._stakes.refuses(task, compacted, target.rates, self._now()):
                compacted = await self._compact_once(strict_task(task))
                compacted = None if compacted is None else with_reason(compacted)
            if compacted is not None:
                return self._tracked_result(task, compacted, target)
            result = passthrough_result(mode.value, "failed")
        except CannotCompactError as error:
            result = _passthrough_with_note(mode, str(error))
        except Unplannable:
            result = passthrough_result(mode.value, "unreadable")
        except TimeoutError:
            _log.warning("Compaction took too long on call %s; it is sent unmodified", call.id)
            result = passthrough_result(mode.value, "late")
        return await self.track_unmodified(call, result)

    async def _compact_once(self, task: CompactionTask) -> CompactedCall | None:
        """The outcome of compacting on a worker; None where our own bug made it fail."""
        work = partial(compact_call, task, self.compact_chat)
        is_quick = len(task.call.body) < _LARGE_BODY_BYTES
        running = self._workers.run(task.call.key.team, work, is_quick=is_quick)
        return await self._run_guarded(running, task.call)

    async def _run_guarded(self, work: Awaitable[T], call: Call) -> T | None:
        """The result of work on a call; None where our own bug made it fail.

        Raises:
            CannotCompactError: As the work does; and the two below.
            Unplannable: The body cannot be read.
            TimeoutError: It is late.
        """
        try:
            return await work
        except (CannotCompactError, Unplannable, TimeoutError):
            raise
        except Exception:  # noqa: BLE001 - an optimiser's mistake must not cost the call
            _log.exception("Compaction failed on call %s; it is sent unmodified", call.id)
            return None

    def _skip_reason(self, call: Call, mode: CompactionMode) -> str:
        """The reason to skip a call, whatever it holds; "" for none."""
        if call.endpoint == MESSAGES and mode is CompactionMode.NATIVE:
            return "api"
        if self._cool_downs.is_feature_cooling((call.key.team, call.feature), self._now()):
            return "refused"
        return "too_large" if len(call.body) > MAX_BODY_BYTES else ""

    async def _identify_conversation(self, call: Call) -> ConversationIdentity | None:
        """The conversation of a call that was not compacted, or not in time."""
        read = partial(identify_conversation, call, self._store.secret)
        return read() if len(call.body) < _LARGE_BODY_BYTES else await asyncio.to_thread(read)

    def _tracked_result(
        self, task: CompactionTask, compacted: CompactedCall, target: PlanningTarget
    ) -> CompactionResult:
        """The result, with what the tracker knows of the call before it."""
        conversation, result, now = compacted.conversation, compacted.result, self._now()
        if conversation is None:
            return result
        by = task.policy if compacted.is_decided else None
        if self._cool_downs.is_conversation_cooling(conversation.name, now):
            result, by = passthrough_result(result.mode, "refused"), None
        lives = max(target.regime.lifetimes.values(), default=inf)  # unknown: taken as endless
        return self._tracker.track(
            task.call,
            SentConversation(
                result=result, conversation=conversation, policy=by, at=now, cache_lifetime_s=lives
            ),
        )

    async def _step_back(
        self, place: Place, mode: CompactionMode, to: CompactionMode, evidence: QualityEvidence
    ) -> None:
        """Steps the feature back to a gentler mode everywhere, and sends an alert."""
        why = _step_back_reason(mode, evidence)
        try:
            done = await self._store.ask(
                self._store.compactions.step_back, place, to, why, self._now()
            )
            if done:
                _log.error("Compaction of %r was reduced from %s to %s: %s", place, mode, to, why)
                name = self._store.keyring.team_name(place[0])
                alert = stepped_back_alert(place, name, (mode, to), why, self._now())
                self._send_alert(alert)
            await self._store.ask(self._store.compaction_settings.refresh)
        except StoreError as error:
            _log.warning("The database failed; compaction of %r was not reduced: %s", place, error)
        finally:
            self._live_quality.forget(place)
            self._stepping_back.discard(place)


def _step_back_reason(mode: CompactionMode, evidence: QualityEvidence) -> str:
    """The reason to step a mode back, for its operator."""
    if mode is CompactionMode.FACTS_RECALL:
        calls = quantity(evidence.needed, "compacted call")
        return f"the model recalled without end in {evidence.lost:,} of {calls}"
    needed = quantity(evidence.needed, "value")
    return f"{evidence.lost:,} of {needed} that tool calls needed were compacted away"


def _passthrough_with_note(mode: CompactionMode, why: str) -> CompactionResult:
    """The result for a call that is sent unmodified; a reason that is no code becomes a note."""
    if why.isidentifier():
        return passthrough_result(mode.value, why)
    note = f"the conversation was not compacted: {why[:_MAX_WHY_CHARS]}"
    return CompactionResult(mode=mode.value, why="not_compactable", notes=(note,))


def build_compactor(context: AppContext) -> Compactor:
    """The compactor of a gateway, with its settings' defaults; its features are published."""
    settings = context.settings
    mode, share, stake = settings.compaction, settings.control_share, settings.learning_stake_nanos
    usual = CompactionDefaults(mode=mode, share=share, stake=stake)
    context.publish(CompactedFeaturesCollector(lambda: context.opened.compaction_settings.current))
    return Compactor(
        context.opened, context.tasks, now=context.now, send_alert=context.alert, defaults=usual
    )
