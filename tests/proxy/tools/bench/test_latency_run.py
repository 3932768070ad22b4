import json
from collections.abc import Iterator

import pytest

from proxy.catalog.entries import Upstream
from proxy.errors import OperatorError
from proxy.providers.port import PreparedRequest
from proxy.tools.bench.chat_client import BenchTarget, ChatClient
from proxy.tools.bench.latency_run import LatencyPlan, LatencyRun, doubts
from proxy.tools.bench.latency_summary import CellFigures
from proxy.tools.bench.prompts import PrefixState, TokenRatio
from tests.fakes.clock import run_in_instant_time, ticks
from tests.fakes.streams import chat_usage, chunk, event
from tests.fakes.upstream import EVENTS, After, FakeExchange, ScriptedAnswer

STOP = event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})


class CountingEngine:
    """An engine whose prompts cost 2 tokens a word; it remembers what it has seen of each."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.in_flight = self.most_in_flight = 0

    async def open(self, upstream: Upstream, prepared: PreparedRequest) -> FakeExchange:
        body = json.loads(prepared.body)
        prompt = body["messages"][0]["content"]
        words = prompt.split()
        cached = max(
            (self._common_words(words, earlier.split()) for earlier in self.prompts), default=0
        )
        self.prompts.append(prompt)
        usage_document = chat_usage(
            2 * len(words), 4, prompt_tokens_details={"cached_tokens": 2 * cached}
        )
        usage = event({"choices": [], "usage": usage_document})
        return FakeExchange(
            ScriptedAnswer(
                [After(0.5, chunk("a b")), After(0.5, chunk("c d")), STOP + usage], headers=EVENTS
            )
        )

    @staticmethod
    def _common_words(words: list[str], earlier: list[str]) -> int:
        pairs = zip(words, earlier, strict=False)
        return next((n for n, (one, other) in enumerate(pairs) if one != other), len(words))


def plan(**changes: object) -> LatencyPlan:
    fields: dict[str, object] = {
        "model": "m",
        "concurrency": (1, 3),
        "prompt_tokens": (400,),
        "prefixes": (PrefixState.COLD, PrefixState.WARM),
        "output_tokens": 4,
        "calls": 6,
        "seconds": 100.0,
        "warmup": 1,
        "shared_share": 0.9,
        "limits_ms": {},
        "seed": "s",
    }
    return LatencyPlan(**fields | changes)  # type: ignore[arg-type]


def measure(chosen: LatencyPlan) -> tuple[list[CellFigures], LatencyRun, CountingEngine]:
    engine = CountingEngine()
    cells: list[CellFigures] = []

    async def run() -> LatencyRun:
        client = ChatClient(engine, BenchTarget(base_url="http://engine/v1"), ticks)
        measurement = LatencyRun(client, chosen, ticks, lambda: 0.0)
        await measurement.measure(cells.append)
        return measurement

    return cells, run_in_instant_time(run()), engine


def test_each_combination_is_measured_with_its_number_of_callers():
    cells, _, _ = measure(plan())

    assert [(c.shape.concurrency, str(c.shape.prefix), c.calls) for c in cells] == [
        (1, "cold", 6),
        (1, "warm", 6),
        (3, "cold", 6),
        (3, "warm", 6),
    ]
    assert [cell.seconds for cell in cells] == [6.0, 6.0, 2.0, 2.0]


def test_prompts_have_the_wanted_length_in_the_servers_own_tokens():
    cells, run, _ = measure(plan())

    assert not run.ratio.is_estimate
    assert all(cell.prompt_tokens == pytest.approx(400, rel=0.02) for cell in cells)


def test_cold_prompts_are_cold_and_warm_ones_warm_from_the_first_measured_call_on():
    cells, _, _ = measure(plan())
    shares = {(c.shape.concurrency, str(c.shape.prefix)): c.cached_share for c in cells}

    assert shares[1, "cold"] == shares[3, "cold"] == 0.0
    assert min(shares[1, "warm"] or 0, shares[3, "warm"] or 0) > 0.8


def test_no_call_starts_after_the_combinations_time_is_up():
    cells, _, _ = measure(plan(seconds=2.5, concurrency=(1,), prefixes=(PrefixState.COLD,)))

    assert cells[0].calls == 3


def test_the_plan_announces_no_fewer_calls_than_it_makes():
    chosen = plan()
    _, _, engine = measure(chosen)

    assert len(engine.prompts) == chosen.max_calls


def test_a_server_that_refuses_the_first_call_ends_the_run():
    class RefusingEngine(CountingEngine):
        async def open(self, upstream: Upstream, prepared: PreparedRequest) -> FakeExchange:
            return FakeExchange(ScriptedAnswer([b'{"error":{"code":"no_model"}}'], status=404))

    async def run() -> None:
        client = ChatClient(RefusingEngine(), BenchTarget(base_url="http://engine/v1"), ticks)
        await LatencyRun(client, plan(), ticks, lambda: 0.0).measure(lambda cell: None)

    with pytest.raises(OperatorError, match="HTTP 404 no_model"):
        run_in_instant_time(run())


def doubts_of(cells: list[CellFigures], chosen: LatencyPlan, ratio: TokenRatio) -> Iterator[str]:
    return doubts(chosen, ratio, cells)


def test_a_whole_run_with_cold_and_warm_prompts_leaves_no_doubts():
    cells, run, _ = measure(plan())

    assert list(doubts_of(cells, plan(), run.ratio)) == []


def test_doubts_name_short_answers_and_unknown_usage():
    cells, _, _ = measure(plan())
    notes = " ".join(doubts_of(cells, plan(output_tokens=100), TokenRatio()))

    assert "The server reports no usage" in notes
    assert "400 tokens cold, 1 caller; 400 tokens warm, 1 caller; 2 more: answers ended" in notes


def test_doubts_name_warm_prompts_that_the_cache_does_not_have():
    cells, run, _ = measure(plan(shared_share=0.1))

    assert any(
        "warm" in note and "read from a cache" in note
        for note in doubts_of(cells, plan(), run.ratio)
    )
