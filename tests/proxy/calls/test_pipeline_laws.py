"""Laws of every call, under any faults of upstreams, callers and the clock, in any order."""

import asyncio
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from proxy.calls.deadlines import ClientDisconnected
from proxy.errors import CallerError
from proxy.records.receipt import Outcome
from proxy.services.objectives.objective_state import track_objective
from proxy.services.objectives.router import ObjectiveRouter
from slo.breaker import BreakerState as Breaking
from slo.controller.state import ControllerSnapshot, ControllerState
from slo.objectives.objective import Enforce, Metric, Objective
from tests.examples import examples
from tests.fakes.chaos import (
    PLAYS,
    ChaosCall,
    ChaosHarness,
    ScriptedAttempt,
    is_reportable,
    two_model_catalog,
)
from tests.fakes.clock import InstantLoop, ticks

#: Seconds that meet in the same moment now and then: 6 is when a hedge goes, 10 the deadline.
SECONDS = st.sampled_from([0.0, 0.05, 0.1, 1.0, 4.0, 6.0, 10.0, 16.0, 30.0])
QUICK = st.sampled_from([0.0, 0.0, 0.0, 1.0, 6.0, 10.0])
FATES = st.builds(
    ScriptedAttempt,
    play=st.sampled_from(PLAYS),
    answers_in=SECONDS,
    opens_in=QUICK,
    planned_in=QUICK,
    admitted_in=QUICK,
    admission=st.sampled_from(["", "", "", "", "no", "small", "mistake"]),
)
TTFT = Objective(
    name="chat-ttft",
    metric=Metric.TTFT,
    target=0.95,
    under=10.0,
    enforce=Enforce.SHED,
    ladder=("elsewhere", "small", "gone", "shed"),
)
ERRORS = Objective(
    name="errors",
    metric=Metric.ERRORS,
    target=0.99,
    enforce=Enforce.DEGRADE,
    ladder=("elsewhere", "small"),
)
BODIES = st.sampled_from(
    [
        '{"role":"user","content":"Hello"}',
        '{"role":"user","content":"Hello"},{"role":"assistant","content":"Hi"}',
    ]
)


class PipelineCalls(RuleBasedStateMachine):
    """Calls come, wait, hang up and are cut off; objectives move meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner(loop_factory=InstantLoop)
        two_models = two_model_catalog()
        tracks = {objective.name: track_objective(objective) for objective in (TTFT, ERRORS)}
        self._harness = ChaosHarness(ObjectiveRouter(tracks, two_models), two_models, room=2)
        self._lasts(0.0)
        self._lanes = self._harness.lanes

    def _lasts(self, seconds: float) -> None:
        self._runner.run(asyncio.sleep(seconds))

    @rule(
        fates=st.lists(FATES, min_size=1, max_size=4),
        body=BODIES,
        leaves=st.none() | SECONDS,
        reads=st.sampled_from([None, None, None, 0, 1]),
    )
    def a_call_comes(
        self, fates: list[ScriptedAttempt], body: str, leaves: Any, reads: Any
    ) -> None:
        async def come() -> None:
            self._harness.begin(fates, body, leaves_after=leaves, reads=reads)
            await asyncio.sleep(0)

        self._runner.run(come())

    @rule(seconds=SECONDS)
    def time_passes(self, seconds: float) -> None:
        self._lasts(seconds)

    @rule(steps=st.integers(1, 6))
    def the_loop_turns(self, steps: int) -> None:
        async def turn() -> None:
            for _ in range(steps):
                await asyncio.sleep(0)

        self._runner.run(turn())

    @precondition(lambda self: any(not chaos_call.task.done() for chaos_call in self._calls))
    @rule(pick=st.integers(0, 100), again=st.integers(0, 3), twice=st.booleans())
    def a_call_is_cut_off(self, pick: int, again: int, *, twice: bool) -> None:
        """As a gateway that stops does; at times it says so twice."""

        running = [chaos_call.task for chaos_call in self._calls if not chaos_call.task.done()]
        task = running[pick % len(running)]

        async def cancel_task() -> None:
            task.cancel()
            for _ in range(again):
                await asyncio.sleep(0)
            if twice:
                task.cancel()
            await asyncio.sleep(0)

        self._runner.run(cancel_task())

    @rule(name=st.sampled_from([TTFT.name, ERRORS.name]), level=st.integers(0, 4))
    def an_objective_moves(self, name: str, level: int) -> None:
        state = ControllerState.DEGRADED if level else ControllerState.HEALTHY
        here = ControllerSnapshot(state=state, level=level, since=0.0, share=0.0 if level else 1.0)
        self._harness.router.snapshots = {**self._harness.router.snapshots, name: here}

    @rule(calls=st.integers(1, 100))
    def many_calls_were_made(self, calls: int) -> None:
        async def record_calls() -> None:
            for _ in range(calls):
                self._lanes.record_call(1_000_000, ticks())
                self._lanes.retries.record_call(ticks())

        self._runner.run(record_calls())

    @property
    def _calls(self) -> list[ChaosCall]:
        return list(self._harness.calls.values())

    @invariant()
    def every_call_that_ended_has_one_final_receipt(self) -> None:
        for chaos_call in self._calls:
            finals = [receipt for receipt in chaos_call.receipts if receipt.final]
            if chaos_call.task.done():
                assert len(finals) == 1, chaos_call.receipts
                self._answers_for(chaos_call)
            else:
                assert len(finals) <= 1
            numbers = [receipt.attempt for receipt in chaos_call.receipts]
            assert len(set(numbers)) == len(numbers), chaos_call.receipts

    def _answers_for(self, chaos_call: ChaosCall) -> None:
        final = next(receipt for receipt in chaos_call.receipts if receipt.final)
        took = (chaos_call.over or 0.0) - chaos_call.began
        assert final.duration <= took + 1e-6
        if chaos_call.task.cancelled():
            return
        error = chaos_call.task.exception()
        assert is_reportable(error), error
        if final.outcome is Outcome.ANSWERED:
            assert chaos_call.caller.head is not None
        if isinstance(error, CallerError) and error.code == "objective_shed":
            assert (len(chaos_call.receipts), final.outcome) == (1, Outcome.REFUSED)
        if error is not None and not isinstance(error, ClientDisconnected):
            assert chaos_call.caller.head is None
        assert chaos_call.task.cancelling() == 0

    @invariant()
    def times_add_up(self) -> None:
        for chaos_call in self._calls:
            for receipt in chaos_call.receipts:
                assert -1e-6 <= receipt.overhead <= receipt.duration + 1e-6
                assert receipt.ttft is None or 0 <= receipt.ttft <= receipt.duration + 1e-6

    @invariant()
    def what_is_open_belongs_to_a_call_that_runs(self) -> None:
        running = {
            name for name, chaos_call in self._harness.calls.items() if not chaos_call.task.done()
        }
        assert set(self._harness.router._open) <= running
        if not running:
            assert all(exchange.closed for exchange in self._harness.exchanges)
            assert self._harness.plans_left == []
            for _, lane in self._lanes.states():
                assert lane.limit is None or lane.limit.in_flight == 0
                assert not lane._queue

    def teardown(self) -> None:
        self._runner.run(self._end())
        self.every_call_that_ended_has_one_final_receipt()
        self.what_is_open_belongs_to_a_call_that_runs()
        self._runner.close()

    async def _end(self) -> None:
        tasks = [chaos_call.task for chaos_call in self._calls]
        if tasks:
            await asyncio.wait(tasks)
        await asyncio.sleep(2.0)  # what is counted in the background
        assert asyncio.all_tasks() == {asyncio.current_task()}
        for name, lane in self._lanes.states():
            now = ticks()
            if lane.breaker.state(now) is Breaking.HALF_OPEN:
                assert lane.breaker.seconds_until_admission(now) == 0, (
                    f"the probe of {name} is not back"
                )


TestCalls = PipelineCalls.TestCase
TestCalls.settings = examples(30, stateful_step_count=30, deadline=None)
