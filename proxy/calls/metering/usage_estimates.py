"""Estimates usage that an upstream does not report, and learns the ratio from those that do.

It runs off the event loop. An estimate that is not ready in time is made from lengths alone.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import BoundedSemaphore
from typing import Final

import msgspec

from compaction.reading.vocabulary import is_published
from proxy.calls.metering.metering import Meter
from proxy.calls.metering.settlement import estimate_from_length
from proxy.catalog.entries import Route
from proxy.records.call import Call
from proxy.tokens.counter import TokenCounter
from proxy.tokens.ratios import TokenRatios
from proxy.tokens.wholeness import is_plain, is_whole
from slo.budgets.counter import MAX_AMOUNT
from slo.budgets.output_length_model import OutputLengthModel
from slo.budgets.reservation_sizing import OutputBounds
from slo.usage import Usage

#: Seconds one estimate may take before lengths have to do.
_ESTIMATE_TIMEOUT_S: Final = 5.0
#: Estimates waiting or running at once.
_MAX_WAITING: Final = 256
#: Comparisons waiting or running at once; each holds its call's body.
_MAX_COMPARISONS: Final = 32
#: Calls per model that are compared, to begin with and later one in so many.
_ALWAYS_COMPARED_CALLS: Final = 20
_COMPARE_ONE_IN: Final = 100
_MAX_MODELS: Final = 1024
#: Calls of a feature to a model whose lengths count for its other models, too: to begin with, and
#: later one in so many.
_ALWAYS_POOLED_CALLS: Final = 64
_POOL_ONE_IN: Final = 16
#: Stands for all models together where lengths are learned.
_ANY_MODEL: Final = ""


class UsageEstimates:
    """One worker thread that counts tokens."""

    def __init__(self, deadline: float = _ESTIMATE_TIMEOUT_S) -> None:
        """Begin counting.

        Args:
            deadline: Seconds one estimate may take before lengths have to do.
        """
        self._deadline = deadline
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="estimates")
        self._counter = TokenCounter()
        self._ratios = TokenRatios()
        self._lengths = OutputLengthModel()
        self._seen: dict[str, int] = {}
        self._waiting = 0
        self._comparison_slots = BoundedSemaphore(_MAX_COMPARISONS)

    async def usage(self, call: Call, route: Route, meter: Meter | None) -> Usage:
        """Tokens of the prompt and of what was delivered.

        What the upstream said of the prompt before it was cut off is kept.
        """
        reported = meter.usage if meter is not None else None
        if self._waiting >= _MAX_WAITING:
            return _merge_usage(reported, _usage_by_length(call, route, meter))
        loop = asyncio.get_running_loop()
        self._waiting += 1
        try:
            async with asyncio.timeout(self._deadline):
                counted = await loop.run_in_executor(
                    self._worker, self._count_tokens, call, route, meter
                )
        except TimeoutError:
            counted = _usage_by_length(call, route, meter)
        finally:
            self._waiting -= 1
        return _merge_usage(reported, counted)

    def learn(self, call: Call, route: Route, usage: Usage) -> None:
        """Note the answer's length; compare the counts of a prompt, for a sample of calls."""
        model, generated = route.model or call.model, usage.generated_tokens
        learned_count = self._lengths.add(_length_key(call, model), generated)
        if learned_count <= _ALWAYS_POOLED_CALLS or learned_count % _POOL_ONE_IN == 0:
            self._lengths.add(_length_key(call, _ANY_MODEL), generated)
        if len(self._seen) > _MAX_MODELS:
            self._seen.clear()
        call_count = self._seen[model] = self._seen.get(model, 0) + 1
        if call_count > _ALWAYS_COMPARED_CALLS and call_count % _COMPARE_ONE_IN:
            return
        if self._waiting < _ALWAYS_COMPARED_CALLS and self._comparison_slots.acquire(
            blocking=False
        ):
            comparison = self._worker.submit(self._compare, call, model, usage.prompt_tokens)
            comparison.add_done_callback(lambda _: self._comparison_slots.release())

    def usual_output(self, call: Call, route: Route) -> int | None:
        """Output tokens that 19 of 20 such answers stay below; None where little is learned."""
        learned = self._output_bounds(call, route)
        return learned.likely if learned is not None else None

    def average_output(self, call: Call, route: Route) -> int | None:
        """Output tokens that such answers have on average; None where little is learned."""
        learned = self._output_bounds(call, route)
        return learned.typical if learned is not None else None

    def _output_bounds(self, call: Call, route: Route) -> OutputBounds | None:
        """The learned lengths of a feature's answers by a model, else by all; None for neither."""
        for model in (route.model or call.model, _ANY_MODEL):
            bounds = self._lengths.known_output_bounds(_length_key(call, model), MAX_AMOUNT)
            if bounds is not None:
                return bounds
        return None

    def load_vocabularies(self) -> None:
        """Load the vocabularies now, so that no call waits for them."""
        self._worker.submit(self._counter.generated_tokens, "", "gpt-4o")

    def close(self) -> None:
        """Stop counting; what waits is dropped."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _count_tokens(self, call: Call, route: Route, meter: Meter | None) -> Usage:
        model = route.model or call.model
        prompt = self._counter.prompt_tokens(call.body, call.endpoint, model)
        text = meter.delivered_text() if meter is not None else ""
        generated = self._counter.generated_tokens(text, model) if text else 0
        if not is_published(model):
            generated = self._ratios.estimate(model, generated)
        if not _is_exact(call, model):
            prompt = self._ratios.estimate(model, prompt)
        return Usage(input=prompt, output=generated)

    def _compare(self, call: Call, model: str, reported: int) -> None:
        if is_whole(call.body, call.endpoint) and not _is_exact(call, model):
            counted = self._counter.prompt_tokens(call.body, call.endpoint, model)
            self._ratios.observe(model, counted, reported)


def _length_key(call: Call, model: str) -> tuple[str, str, str]:
    """Calls of one team's feature to one model have answers of like length."""
    return (call.key.team, call.feature, model)


def _is_exact(call: Call, model: str) -> bool:
    """True if the prompt's tokens are what the provider counts, so that nothing is learned."""
    return is_published(model) and is_plain(call.body)


def _usage_by_length(call: Call, route: Route, meter: Meter | None) -> Usage:
    return estimate_from_length(call, meter.delivered_text() if meter is not None else "", route)


def _merge_usage(reported: Usage | None, counted: Usage) -> Usage:
    """Merges reported usage with counted usage; the larger output count is kept."""
    if reported is None or not reported.prompt_tokens:
        return counted
    if reported.generated_tokens >= counted.output:
        return reported
    return msgspec.structs.replace(reported, output=counted.output - reported.reasoning)
