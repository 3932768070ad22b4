"""Planning in a running gateway: threads, deadlines and the store around the planner.

::

    plan ── the call's conversation, known here or in the store ──▶ what is sent
       └──▶ a new or grown plan goes to the store, twenty times a second at most
            ── wait_until_stored ──▶ before the answer's end
       └──▶ held back while another call writes what this one could read, where that pays

Fails open: whatever goes wrong, the call is sent unmodified, with a reason.
"""

import asyncio
import logging
import threading
from collections import Counter as Tally
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from math import inf
from typing import Final, ParamSpec, TypeVar

from proxy.calls.eligibility import eligibility
from proxy.calls.eligibility.route_target import route_target
from proxy.calls.ports import BackgroundTaskGroup
from proxy.catalog.entries import Route
from proxy.prefix.breakpoints.plan import Plan, merge_plans
from proxy.prefix.explain.reasons import CacheMiss, ProviderReason
from proxy.prefix.lessons import LayoutLearner, is_due
from proxy.prefix.observation import find_miss, provider_miss
from proxy.prefix.planned import (
    Draft,
    Passthrough,
    Planned,
    PlanningRequest,
    layout_place,
)
from proxy.prefix.planner import Planner
from proxy.prefix.prompts.objects import Unplannable
from proxy.records.amounts import quantity
from proxy.records.call import Call
from proxy.records.feature_mode import FeatureState, LayoutScope, PlanningMode
from proxy.records.lru_cache import LruCache
from proxy.services.planning.decisions import PlanningDecisions, PlanningRules
from proxy.services.planning.fan_out import FanOutGate
from proxy.services.planning.guard import PlanningGuard, SendAlert
from proxy.services.planning.known_layouts import STORE_DEADLINE_S, KnownLayouts, StoreReads
from proxy.services.planning.learner import BackgroundLearner
from proxy.services.planning.mark_accounts import MarkAccountExchange
from proxy.store.errors import StoreError
from proxy.store.store import Store
from slo.usage import Usage

_log = logging.getLogger("thriftgate.planning")

P = ParamSpec("P")
T = TypeVar("T")

#: Bytes of a body, and new ones of a longer body, from which on planning may take more than a
#: millisecond, and so goes to a thread; and blocks above which planning and learning do.
_MIN_THREAD_BYTES: Final = 48 * 1024
_MIN_NEW_THREAD_BYTES: Final = 16 * 1024
_MAX_INLINE_BLOCKS: Final = 512
#: Seconds after which a call goes unmodified.
_PLANNING_DEADLINE_S: Final = 2.0
#: Plans on their way to the store, and features whose calls are counted.
_MAX_WAITING_PLANS: Final = 1_024
#: Seconds from one step to the next: its commit takes longer than all else that plans cost.
_STORE_INTERVAL_S: Final = 0.05
_MAX_REASON_CHARS: Final = 200
#: Seconds a feature is left alone once an upstream refused what was planned.
_REFUSAL_PAUSE_S: Final = 600.0


class PromptPlanning:
    """Plans the calls of one process.

    Args:
        say: Notifies people of features that planning made dearer; None to notify no one.
    """

    def __init__(
        self,
        planner: Planner,
        store: Store,
        tasks: BackgroundTaskGroup,
        *,
        now: Callable[[], float],
        say: SendAlert | None = None,
    ) -> None:
        self._planner, self._store = planner, store
        self._tasks, self._now = tasks, now
        self._lock = threading.Lock()
        self.mark_accounts = MarkAccountExchange(planner.memory, self._lock, store, now)
        self._lessons = LayoutLearner(planner.memory.lesson_bytes)
        self._learner = BackgroundLearner()
        self._calls: Tally[LayoutScope] = Tally()
        self._looked_at: LruCache[LayoutScope, float] = LruCache(_MAX_WAITING_PLANS)
        # Of its own: where one prompt takes long, other work finds a thread all the same.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="planning")
        self._reads = StoreReads(store, now)
        self._layouts = KnownLayouts(store, self._reads)
        self._decisions = PlanningDecisions(planner, self._layouts, now)
        self._fanout = FanOutGate()
        self._guard = PlanningGuard(store, tasks, now=now, say=say)
        self._refused: dict[LayoutScope, float] = {}
        self._unstored: dict[str, tuple[Draft, Plan]] = {}
        self._stored = asyncio.Event()
        self._storing_task: asyncio.Task[None] | None = None
        self._next_store_at = 0.0  # by the loop's clock

    async def plan(self, call: Call, route: Route) -> Planned | Passthrough:
        """Plan the call for this route, or say why it is sent unmodified."""
        if (none := eligibility.skip_reason(call, route)) is not None:
            return none
        self._guard.stop_noted_harm()
        request = eligibility.planning_request(call)
        where = layout_place(request, route.model or call.model)
        state = self._store.board.current.of(where)
        if state.is_off or self._guard.is_suspended(where):
            off = state.mode is PlanningMode.OFF and not state.suspended
            return Passthrough(reason="off") if off else Passthrough("planning is suspended")
        if where in self._refused and self._refused[where] > self._now():
            return Passthrough("an upstream refused what was planned")
        try:
            planned = await self._plan_or_pass(call, request, route, where, state)
            return await self._fanout.wait_for_prefix(planned, streamed=call.is_streaming)
        except Unplannable as error:
            why = str(error)[:_MAX_REASON_CHARS]
        except TimeoutError:
            _log.warning("Planning took too long on call %s; the call is sent unmodified", call.id)
            why = "planning took too long"
        except Exception:  # noqa: BLE001 - an optimiser's mistake must not cost the call
            _log.exception("Planning failed on call %s; the call is sent unmodified", call.id)
            why = "planning failed"
        return Passthrough(why)

    def note_answer_started(self, planned: Planned | Passthrough) -> None:
        """Let calls that were held back read what this one wrote, for its answer begins."""
        if isinstance(planned, Planned):
            self._fanout.note_begun(planned)

    def note_attempt_ended(self, planned: Planned | Passthrough) -> None:
        """The attempt is over; calls that are still held back for it go."""
        if isinstance(planned, Planned):
            self._fanout.note_ended(planned)
            if planned.trial is not None and planned.trial.number:
                self._learner.submit(partial(self._run_locked, self._planner.end_call, planned))

    def note_refusal(self, planned: Planned) -> None:
        """Leave the feature alone for a while: an upstream took its prompt only unmodified."""
        if len(self._refused) > _MAX_WAITING_PLANS:
            self._refused.clear()
        self._refused[planned.place] = self._now() + _REFUSAL_PAUSE_S
        _log.error(
            "An upstream refused a planned prompt of feature %r and took it unmodified:"
            " the feature is not planned for %d s",
            planned.place.feature,
            _REFUSAL_PAUSE_S,
        )

    async def wait_until_stored(self, planned: Planned | Passthrough) -> None:
        """Wait until the store has what was decided for the call's conversation, not for long."""
        if not isinstance(planned, Planned):
            return
        conversation = planned.draft.conversation.hex()
        if conversation not in self._unstored:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(STORE_DEADLINE_S):
                while conversation in self._unstored:
                    await self._stored.wait()

    def settle(
        self,
        planned: Planned | Passthrough,
        usage: Usage | None,
        reason: ProviderReason | None = None,
    ) -> CacheMiss | None:
        """Learn from the call's usage; returns the reason of a cache miss, if there is one.

        A long call, or one that would have to wait, is learned from in a thread.
        """
        if not isinstance(planned, Planned):
            return None
        is_long = len(planned.evidence.sent.blocks) > _MAX_INLINE_BLOCKS
        is_free = not is_long and self._lock.acquire(blocking=False)
        try:
            if is_free:
                miss = self._planner.settle_call(planned, usage, reason=reason)
                self._note_harm(planned)
            else:
                miss = find_miss(planned, usage, provider_reason=reason)
        except Exception:  # noqa: BLE001 - nor the answer
            _log.exception("A call's cache usage could not be evaluated and is not learned from")
            return provider_miss(reason, usage, planned.target.rates)
        finally:
            if is_free:
                self._lock.release()
        # In the lessons' thread; of its usage, too, where that takes long.
        self._learner.submit(partial(self._learn, planned, usage, is_settled=is_free))
        return miss

    def close(self) -> None:
        """Stop planning and learning; what waits is dropped."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._learner.close()

    async def _plan_or_pass(
        self,
        call: Call,
        request: PlanningRequest,
        route: Route,
        where: LayoutScope,
        state: FeatureState,
    ) -> Planned:
        """The call as it is sent; each step of the planner runs in one piece."""
        decide, now = self._decisions, self._now()
        end = asyncio.get_running_loop().time() + _PLANNING_DEADLINE_S
        rules = PlanningRules(
            route_target(route, call.model, now, call.endpoint),
            where,
            self._guard.layout_in_force(where, state.layout_version(now)),
        )
        step = await self._run(end, request, decide.read_and_decide, request, rules)
        draft, names = step.draft, step.missing_plans
        if names:
            stored_plans = await _within(end, self._reads.plans(names))
            step = await self._run(
                end, request, decide.recall_and_decide, draft, rules, stored_plans
            )
            draft = step.draft
        if step.missing_layout:
            await _within(end, self._layouts.fetch(where, step.missing_layout))
            step = await self._run(end, request, decide.decide_next, draft, rules, is_fetched=True)
        known_plan, planned = step.known_plan, step.planned
        assert planned is not None  # noqa: S101 - nothing is missing any more
        if known_plan is not None and planned.plan != known_plan and not names:
            # Another process may have met the new tools first, and put them in its order.
            name = draft.conversation.hex()
            stored_plans = await _within(end, self._reads.plans((name,)))
            agreed = merge_plans(stored_plans.get(name, known_plan), known_plan)
            if agreed != known_plan:
                planned = await self._run(
                    end, request, decide.adopt_and_decide, draft, rules, agreed
                )
        if planned.plan != known_plan:
            self._store_plan_soon(draft, planned.plan)
        return planned

    async def _run(
        self,
        end: float | None,
        request: PlanningRequest | None,
        work: Callable[P, T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """The planner's work on a call: here where little of it is new, else in a thread."""
        if self._lock.acquire(blocking=False):
            try:
                if request is None or self._is_short(request):
                    return work(*args, **kwargs)
            finally:
                self._lock.release()
        loop = asyncio.get_running_loop()
        locked = partial(self._run_locked, work, *args, **kwargs)
        return await _within(end, loop.run_in_executor(self._thread, locked))

    def _is_short(self, request: PlanningRequest) -> bool:
        """True if planning a call takes about a millisecond at most."""
        if len(request.body) < _MIN_THREAD_BYTES:
            return True
        split = request.known_split
        if split is None or len(split.messages) > _MAX_INLINE_BLOCKS:
            return False
        return self._planner.unread_bytes(request, split) < _MIN_NEW_THREAD_BYTES

    def _run_locked(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        with self._lock:
            return work(*args, **kwargs)

    def _store_plan_soon(self, draft: Draft, plan: Plan) -> None:
        """Let the store have the plan, soon; beyond the bound it stays here alone."""
        conversation = draft.conversation.hex()
        if len(self._unstored) >= _MAX_WAITING_PLANS and conversation not in self._unstored:
            return
        self._unstored[conversation] = (draft.without_words(), plan)
        if self._storing_task is None or self._storing_task.done():
            self._storing_task = self._tasks.start(self._store_waiting_plans)

    async def _store_waiting_plans(self) -> None:
        """Bring to the store what waits, all of it at a time."""
        loop = asyncio.get_running_loop()
        while self._unstored:
            await asyncio.sleep(self._next_store_at - loop.time())
            self._next_store_at = loop.time() + _STORE_INTERVAL_S
            some = dict(self._unstored)
            plans = {
                name: to for draft, _ in some.values() for name, to in draft.related_keys().items()
            }
            plans |= {conversation: plan for conversation, (_, plan) in some.items()}
            try:
                stored_plans = await self._store.ask(self._store.plans.grow_all, plans, self._now())
                await self._run(None, None, self._merge, some, stored_plans)
            except StoreError as error:
                lost = quantity(len(some), "conversation")
                _log.warning("The plans of %s could not be stored: %s", lost, error)
            finally:
                for conversation, waiting in some.items():
                    if self._unstored.get(conversation) is waiting:
                        del self._unstored[conversation]
                self._stored.set()
                self._stored = asyncio.Event()

    def _merge(
        self, some: Mapping[str, tuple[Draft, Plan]], stored_plans: Mapping[str, Plan]
    ) -> None:
        """Take over what another process decided first, and what was added since."""
        for conversation, (draft, plan) in some.items():
            if stored_plans[conversation] != plan:
                now = self._planner.known_plan(draft) or plan
                self._planner.adopt_plan(draft, merge_plans(stored_plans[conversation], now))

    def _note_harm(self, planned: Planned) -> None:
        self._guard.note_harm(planned.place, self._planner.take_harm(planned, self._now()))

    def _learn(self, planned: Planned, usage: Usage | None, *, is_settled: bool) -> None:
        """Learn from a call; propose a layout now and then. Runs in the lessons' thread."""
        where = planned.place
        if not is_settled:
            self._run_locked(self._planner.learn, planned, usage)
            self._run_locked(self._note_harm, planned)
        try:
            self._lessons.observe(planned, usage)
            self._calls[where] += 1
            if len(self._calls) > _MAX_WAITING_PLANS:
                self._calls.clear()
            now = self._now()
            if not is_due(self._calls[where], now - (self._looked_at.peek(where) or -inf)):
                return
            self._looked_at.put(where, now)
            version = self._store.board.current.of(where).layout_version(self._now())
            layout = self._lessons.proposal(planned, self._layouts.layout(where, version))
            self._layouts.renew_proposal(where, layout, self._calls[where], self._now())
        except (Unplannable, StoreError) as error:
            _log.warning("A call could not be learned from: %s", error)


async def _within(end: float | None, work: Awaitable[T]) -> T:
    """Wait for what may have to wait, until this time of the loop's at most; None for no end."""
    async with asyncio.timeout_at(end):
        return await work
