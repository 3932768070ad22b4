"""A run: combinations of prompt length, callers and prefix in turn, bounded in calls and time."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Final

import msgspec

from proxy.tools.bench.chat_client import ChatClient
from proxy.tools.bench.latency_summary import CellFigures, CellShape, cell_figures
from proxy.tools.bench.prompts import (
    FEW_WORDS,
    MANY_WORDS,
    PrefixState,
    PromptWriter,
    TokenRatio,
)
from proxy.tools.bench.stream_timing import CallTiming

#: Bytes that a prompt token takes in memory, about.
_BYTES_PER_TOKEN: Final = 6
#: Part of a core from which on the client itself delays what it measures.
_BUSY_CLIENT: Final = 0.7
#: Parts of prompts read from a cache beyond which cold ones were not cold, or warm ones not warm.
_MAX_COLD_SHARE: Final = 0.1
_MIN_WARM_SHARE: Final = 0.3
#: Part of the wanted answer below which it ended early.
_SHORT_ANSWER: Final = 0.9


class LatencyPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of a run.

    Attributes:
        calls: Most measured calls of one combination.
        seconds: Seconds after which a combination starts no further call.
        warmup: Calls per caller before a combination that are not measured.
        shared_share: Part of a warm prompt that others share.
        seed: Names the run, so that its prompts are new to the server.
    """

    model: str
    concurrency: tuple[int, ...]
    prompt_tokens: tuple[int, ...]
    prefixes: tuple[PrefixState, ...]
    output_tokens: int
    calls: int
    seconds: float
    warmup: int
    shared_share: float
    limits_ms: Mapping[str, float]
    seed: str

    @property
    def cells(self) -> list[CellShape]:
        """Every combination, short prompts and few callers first."""
        return [
            CellShape(prompt_tokens=tokens, prefix=prefix, concurrency=callers)
            for tokens, callers, prefix in product(
                self.prompt_tokens, self.concurrency, self.prefixes
            )
        ]

    @property
    def max_calls(self) -> int:
        """Calls of the whole run at most, with those that are not measured."""
        return 2 + sum(self.calls + self._warmup_calls(cell) for cell in self.cells)

    @property
    def max_prompt_tokens(self) -> int:
        """Prompt tokens of the whole run at most, about."""
        return sum(
            cell.prompt_tokens * (self.calls + self._warmup_calls(cell)) for cell in self.cells
        )

    @property
    def memory_bytes(self) -> int:
        """Bytes of the prompts of the largest combination, about."""
        return max(self.prompt_tokens) * self.calls * _BYTES_PER_TOKEN

    def _warmup_calls(self, cell: CellShape) -> int:
        return self.warmup * cell.concurrency + (cell.prefix is PrefixState.WARM)


class LatencyRun:
    """Measures a plan's combinations one after another."""

    def __init__(
        self,
        client: ChatClient,
        plan: LatencyPlan,
        ticks: Callable[[], float],
        cpu_ticks: Callable[[], float],
    ) -> None:
        self._client = client
        self._plan = plan
        self._ticks = ticks
        self._cpu_ticks = cpu_ticks
        self._writer = PromptWriter(plan.seed, plan.shared_share)
        self.ratio = TokenRatio()

    async def measure(self, on_cell: Callable[[CellFigures], None]) -> None:
        """Measure each combination; its figures go to the function as soon as they are there.

        Raises:
            OperatorError: If the server refuses the first call.
        """
        model, writer = self._plan.model, self._writer
        few = await self._client.first_call(model, writer.cold_prompt(FEW_WORDS))
        many = await self._client.first_call(model, writer.cold_prompt(MANY_WORDS))
        self.ratio = TokenRatio.from_usage(few, many)
        for shape in self._plan.cells:
            on_cell(await self._measure_cell(shape))

    async def _measure_cell(self, shape: CellShape) -> CellFigures:
        plan = self._plan
        if shape.prefix is PrefixState.WARM:
            await self._client.measure(self._body(shape))  # writes the prefix for all that follow
        warmup = [self._body(shape) for _ in range(plan.warmup * shape.concurrency)]
        await self._call_all(warmup, shape.concurrency, self._ticks() + plan.seconds)
        bodies = [self._body(shape) for _ in range(plan.calls)]
        started, cpu_started = self._ticks(), self._cpu_ticks()
        timings = await self._call_all(bodies, shape.concurrency, started + plan.seconds)
        load = (self._cpu_ticks() - cpu_started) / max(self._ticks() - started, 1e-9)
        return cell_figures(shape, timings, plan.limits_ms, load)

    async def _call_all(
        self, bodies: Sequence[bytes], concurrency: int, until: float
    ) -> list[CallTiming]:
        """The timings of calls by so many callers; none starts after that moment but the first."""
        timings: list[CallTiming] = []
        waiting = iter(bodies)

        async def call_in_turn() -> None:
            for body in waiting:
                timings.append(await self._client.measure(body))
                if self._ticks() >= until:
                    return

        async with asyncio.TaskGroup() as tasks:
            for _ in range(concurrency):
                tasks.create_task(call_in_turn())
        return timings

    def _body(self, shape: CellShape) -> bytes:
        words = self.ratio.words(shape.prompt_tokens)
        is_warm = shape.prefix is PrefixState.WARM
        prompt = self._writer.warm_prompt(words) if is_warm else self._writer.cold_prompt(words)
        return self._client.body(self._plan.model, prompt, self._plan.output_tokens)


def doubts(plan: LatencyPlan, ratio: TokenRatio, cells: Sequence[CellFigures]) -> Iterator[str]:
    """Reasons to distrust some of the figures, as sentences."""
    if ratio.is_estimate:
        yield "The server reports no usage: prompt lengths are estimates, tokens are unknown."
    yield from _prefix_doubts(cells)
    short = [cell for cell in cells if _is_short(cell, plan.output_tokens)]
    if short:
        yield (
            f"{_cell_names(short)}: answers ended before {plan.output_tokens} tokens; where the"
            " server takes it, --extra-body '{\"ignore_eos\": true}' makes them whole."
        )
    if busy := [cell for cell in cells if cell.client_load > _BUSY_CLIENT]:
        yield f"{_cell_names(busy)}: this client was busy itself, so times are too long."


def _prefix_doubts(cells: Sequence[CellFigures]) -> Iterator[str]:
    """Combinations whose prefix was not as it should be, by the cached tokens told."""
    reported = [(cell, cell.cached_share) for cell in cells if cell.cached_share is not None]
    cold = [
        cell
        for cell, share in reported
        if cell.shape.prefix is PrefixState.COLD and share > _MAX_COLD_SHARE
    ]
    warm = [
        cell
        for cell, share in reported
        if cell.shape.prefix is PrefixState.WARM and share < _MIN_WARM_SHARE
    ]
    if cold:
        yield (
            f"{_cell_names(cold)}: a cache had part of the prompts although nothing but the chat"
            " template is shared; short prompts show that most."
        )
    if warm:
        yield (
            f"{_cell_names(warm)}: under {_MIN_WARM_SHARE:.0%} of the prompts was read from a"
            " cache. They may be below its minimum, or its blocks larger than the prompt."
        )


def cell_name(shape: CellShape) -> str:
    """A combination in short, as ``2,048 tokens warm, 4 callers``."""
    callers = f"{shape.concurrency} caller{'' if shape.concurrency == 1 else 's'}"
    return f"{shape.prompt_tokens:,} tokens {shape.prefix}, {callers}"


def _is_short(cell: CellFigures, expected: int) -> bool:
    return cell.output_tokens is not None and cell.output_tokens < expected * _SHORT_ANSWER


def _cell_names(cells: Sequence[CellFigures]) -> str:
    """The first names of combinations, and the number of the others."""
    names = [cell_name(cell.shape) for cell in cells[:2]]
    if len(cells) > 2:
        names.append(f"{len(cells) - 2} more")
    return "; ".join(names)
