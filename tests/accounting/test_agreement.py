"""The cache model agrees with the second accounting, to the token, on bodies of every regime."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from heapq import heappop, heappush
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from proxy.caches import openai_interval
from proxy.caches.port import Cache, CachedPrompt, Served
from proxy.calls.translation.translation import prepare
from proxy.catalog.entries import Model
from proxy.tools.replay.planning import PlannedVariant
from proxy.tools.replay.prompts import PromptReader
from proxy.tools.replay.recorded_call import RecordedCall
from proxy.tools.simulator.models import SimulatedModel
from proxy.tools.simulator.rendering import Vocabulary
from proxy.tools.simulator.upstream import cache_of
from slo.usage import Usage
from tests.accounting.accounts import AccountedCall, PromptBill, account
from tests.accounting.rules import MODEL_RULES, RULES
from tests.accounting.wire import chat_prompt, messages_prompt, text_tokens
from tests.bench import no_harm_routes
from tests.bench.no_harm_sets import folder, recorded_workload, sets, shapes
from tests.fakes.call_dependencies import call as chat_call
from tests.fakes.workloads import TimedCall, Workload, timed_calls

#: Made-up conversations, and calls of each.
SHAPES: Final = {
    "agent, 50 at once": 30,
    "three tails held, tools": 20,
    "few-shot, chats": 20,
    "parallel fan-out": 20,
    "pauses of 310 s": 16,
    "pauses of 3700 s": 16,
    "own marks: system and last": 20,
    "own explicit mode": 20,
    "own key per session": 20,
    "around 1,024 tokens": 24,
}
SETS: Final = ("AgentDojo", "tau-bench", "Claude Code", "crewAI", "SGD", "mini-swe-agent, flat")
_SET_CALLS: Final = 16
_NOON_S: Final = 1_790_000_000.0 // 86_400 * 86_400 + 43_200
_TTFT_S, _SECONDS_A_TOKEN = 0.5, 0.01


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Model]:
    catalog, _ = no_harm_routes.catalog(tmp_path_factory.mktemp("catalog"))
    return dict(catalog.models)


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Vocabulary()


def _answer(timed: TimedCall) -> str:
    content = (timed.turn.reply or {}).get("content")
    return content if isinstance(content, str) else "Done."


def _wire_bodies(
    reader: PromptReader, workload: Workload, calls: Sequence[TimedCall], *, is_planned: bool
) -> Iterator[tuple[TimedCall, bytes, dict[str, Any]]]:
    """Each call's chat body, and the same on the wire; with a planner's marks where it plans."""
    planner = PlannedVariant(reader, 0.0, arranges=True)
    for timed in calls:
        body = timed.body(workload, reader.public, reader.route.regime)
        if is_planned:
            line = RecordedCall(
                at=timed.at,
                conversation=timed.session.name,
                key="accounting",
                feature=timed.session.feature,
                body=body,
                reply=orjson.dumps(timed.turn.reply),
            )
            body = planner.body(line, _NOON_S + timed.at)
            planner.record_answer(Usage(input=1))
        yield timed, body, orjson.loads(prepare(chat_call(body), reader.route).body)


def model_bills(
    calls: Sequence[tuple[CachedPrompt, AccountedCall]], cache: Cache
) -> list[PromptBill | None]:
    """The bills of the cache model, each call begun and ended at its moments."""
    due: list[tuple[float, int, bool, CachedPrompt, tuple[int, ...]]] = []
    bills: list[PromptBill | None] = []
    for number, (prompt, call) in enumerate(calls):
        while due and due[0][0] <= call.sent:
            now, _, is_end, before, answer = heappop(due)
            if is_end:
                cache.finish_answer(before, answer, now)
            else:
                cache.begin_answer(before, now)
        try:
            bills.append(_bill(cache.serve(prompt, call.sent)))
        except ValueError:  # its marks are refused
            bills.append(None)
            continue
        heappush(due, (call.began, 2 * number, False, prompt, call.answer))
        heappush(due, (call.ended, 2 * number + 1, True, prompt, call.answer))
    return bills


def _bill(served: Served) -> PromptBill:
    return PromptBill(
        served.fresh, served.read, {str(ttl): size for ttl, size in served.written.items()}
    )


def fixed_cache(model: SimulatedModel) -> Cache:
    """The model's cache; unused entries of the intervals live five minutes, not five to ten."""
    if model.regime != "openai-interval":
        return cache_of(model)
    rules = openai_interval.provider_rules(model.provider)
    return openai_interval.OpenAIIntervals(replace(rules, idle_most=rules.idle_least))


def _assert_both_agree(
    reader: PromptReader, workload: Workload, calls: Sequence[TimedCall], *, is_planned: bool
) -> None:
    read = messages_prompt if reader.route.upstream.speaks_messages else chat_prompt
    accounted, modelled = [], []
    for timed, body, wire in _wire_bodies(reader, workload, calls, is_planned=is_planned):
        sent = _NOON_S + timed.at
        answer = text_tokens(_answer(timed))
        began = sent + _TTFT_S
        ended = began + _SECONDS_A_TOKEN * len(answer)
        call = AccountedCall(read(wire), sent, began, ended, answer)
        accounted.append(call)
        modelled.append((reader.read_prompt(body, sent), call))
    bills = account(accounted, RULES[MODEL_RULES[reader.public]])
    pairs = enumerate(zip(bills, model_bills(modelled, fixed_cache(reader.simulated)), strict=True))
    differing = [(at, *pair) for at, pair in pairs if pair[0] != pair[1]]
    assert not differing, f"{workload.name}: {len(differing)} calls differ: {differing[:3]}"


@cache
def _workloads() -> dict[str, Workload]:
    return {workload.name: workload for workload in shapes()}


@cache
def _recorded_workload(data: Path, set_name: str) -> Workload:
    return recorded_workload(data, set_name, 8)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", MODEL_RULES)
def test_cache_model_agrees_with_second_accounting_on_written_conversations(
    name: str, shape: str, models: dict[str, Model], vocabulary: Vocabulary
) -> None:
    workload = _workloads()[shape]
    calls = timed_calls(workload, 30.0, SHAPES[shape])
    reader = PromptReader(models[name], models[name].routes[0], vocabulary)
    _assert_both_agree(reader, workload, calls, is_planned=False)
    _assert_both_agree(reader, workload, calls, is_planned=True)


@pytest.mark.parametrize("set_name", SETS)
@pytest.mark.parametrize("name", MODEL_RULES)
def test_cache_model_agrees_with_second_accounting_on_recorded_set(
    name: str, set_name: str, models: dict[str, Model], vocabulary: Vocabulary
) -> None:
    data: Path | None = folder()
    if data is None or not dict(sets(data)).get(set_name):
        pytest.skip(f"The recorded set {set_name} is not at ../shared/data.")
    workload = _recorded_workload(data, set_name)
    calls = timed_calls(workload, 30.0, _SET_CALLS)
    reader = PromptReader(models[name], models[name].routes[0], vocabulary)
    is_planned = reader.simulated.regime.endswith("breakpoint")
    _assert_both_agree(reader, workload, calls, is_planned=is_planned)
