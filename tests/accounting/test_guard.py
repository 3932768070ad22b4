"""The guard stops a layout that the second accounting finds dearer than sending directly."""

from itertools import product
from pathlib import Path
from typing import Final

import msgspec
import pytest

from proxy.prefix.layouts.layout import Layout, LayoutMove
from proxy.prefix.prompts.prompt import PromptSlot
from proxy.records.feature_mode import LayoutScope, PlanningMode, model_family
from tests.accounting.prices import FILE
from tests.bench.accounted_calls import JudgedCalls
from tests.bench.no_harm_live import beside
from tests.fakes.handbook import handbook
from tests.fakes.messages import said
from tests.fakes.virtual_clock import run_in_virtual_time
from tests.fakes.workloads import ONE_BY_ONE, Json, Session, SessionTurn, Workload, timed_calls

#: Calls beyond which a dearer layout has to be stopped, whatever it lost.
_MAX_DEARER_CALLS: Final = 20
#: Dollars that a layout may lose; its first dearer call where that lost more.
_STAKE: Final = 0.01
_CALLS: Final = 60
#: Sections of the rules: 2,250 tokens, which Gemini does not store, and 4,480.
_SECTIONS: Final = (20, 40)
_MODELS: Final = (
    "claude-sonnet-5-5", "gpt-6.1-sol", "gpt-5.4", "deepseek-flash", "gemini-3.8-flash",
    "mistral-large-4", "vllm-own",
)  # fmt: skip
#: All instructions go behind the conversation: nothing is left that two conversations share.
_HARMFUL: Final = Layout(
    moves=(LayoutMove(before=None, after=None, slot=PromptSlot.VARIABLE, label="All"),)
)


def _with_mark(body: Json, regime: str) -> Json:
    """The body with its caller's own mark behind the rules, where the cache takes marks."""
    names = {
        "anthropic-breakpoint": "cache_control",
        "openai-breakpoint": "prompt_cache_breakpoint",
    }
    if regime not in names:
        return body | {"prompt_cache_key": "desk"}
    mark = {"type": "ephemeral"} if regime == "anthropic-breakpoint" else {"mode": "explicit"}
    system, *rest = body["messages"]
    part = {"type": "text", "text": system["content"], names[regime]: mark}
    return body | {"messages": [{**system, "content": [part]}, *rest]}


def _workload(sections: int) -> Workload:
    rules = handbook(sections, "guarded")
    bodies = [
        {"messages": [said("system", rules), said("user", f"Who is {index}?")]}
        for index in range(_CALLS)
    ]
    sessions = [
        Session(name=f"s{index}", feature="desk", turns=(SessionTurn(body=body),))
        for index, body in enumerate(bodies)
    ]
    return Workload(name="guarded", sessions=sessions, pace=ONE_BY_ONE, dressed=_with_mark)


def _judged_calls(folder: Path, model: str, sections: int) -> tuple[JudgedCalls, JudgedCalls]:
    """Dollars of each call, sent directly and through a gateway with the harmful layout."""

    async def story() -> tuple[JudgedCalls, JudgedCalls]:
        workload = _workload(sections)
        async with beside(folder, planning=PlanningMode.APPLY, control_share=0.0) as both:
            layouts = both.processes.store.layouts
            place = LayoutScope(f"team_1-{model}", "desk", model_family(model))
            moves = msgspec.json.encode(_HARMFUL).decode()
            proposal = layouts.propose(place, "harmful", moves, both.clock())
            assert proposal is not None
            layouts.approve(place, proposal.version, "bench", both.clock())
            both.processes.store.board.refresh()
            await both.cells(workload, timed_calls(workload, 30.0), [model], 30.0)
            direct, gateway = (recorder.judge(model) for recorder in both.recorders)
        assert direct is not None
        assert gateway is not None
        return direct, gateway

    return run_in_virtual_time(story)


@pytest.mark.skipif(not FILE.exists(), reason="the reference price list is not here")
@pytest.mark.parametrize(
    ("model", "sections"),
    [pair for pair in product(_MODELS, _SECTIONS) if pair != ("gemini-3.8-flash", 20)],
)
def test_layout_that_is_dearer_by_second_accounting_is_stopped_in_time(
    model: str, sections: int, tmp_path: Path
) -> None:
    direct, gateway = _judged_calls(tmp_path, model, sections)
    pairs = list(zip(direct.dollars, gateway.dollars, strict=True))
    dearer = [theirs - ours for ours, theirs in pairs if theirs > 1.02 * ours]
    lost = sum(gateway.dollars) - sum(direct.dollars)

    assert dearer
    assert len(dearer) <= _MAX_DEARER_CALLS
    assert lost <= max(_STAKE, dearer[0]) + 1e-9  # sums of fractions drift
    assert gateway.dollars[-10:] == direct.dollars[-10:]
