"""The measurements of the engine demo: medians of calls that take turns between the engines."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from statistics import median
from typing import Final

from proxy.errors import OperatorError
from proxy.tools.demo.conversation import file_table
from proxy.tools.engine_demo.calls import EngineAnswer, EngineCaller, engine_client
from proxy.tools.engine_demo.profiles import DRAFTED, NGRAM, PLAIN
from proxy.tools.engine_demo.session import EngineDemoSession

Messages = Sequence[dict[str, str]]

SYSTEM: Final = "You answer customers of Acme Parcel."
#: Of one measured round, by their answers' topics: long answers of different kinds.
_TOPICS: Final = (0, 7, 14, 15, 23, 49)
#: Sections of the handbook that stand in a long prompt: about 1,500 tokens.
_SECTIONS: Final = 3
_FIRST_TOKENS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeRate:
    """The pace of answers after their first token, and the part of speculation in it.

    Attributes:
        rounds: Tokens per second of each round.
    """

    rounds: tuple[float, ...]
    draft_tokens: int = 0
    accepted_tokens: int = 0

    @property
    def tokens_per_s(self) -> float:
        """The median over the rounds."""
        return median(self.rounds)

    def ratios(self, other: "DecodeRate") -> list[float]:
        """This rate ÷ another one, in each round, so that both met the same load."""
        return [mine / its for mine, its in zip(self.rounds, other.rounds, strict=True)]

    @property
    def acceptance_rate(self) -> float:
        """Accepted ÷ proposed tokens; 0 where none was proposed."""
        return self.accepted_tokens / self.draft_tokens if self.draft_tokens else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstTokens:
    """Waits for the first token of a long prompt, in seconds, and what was cached of it.

    Attributes:
        cold: Through the gateway, the prompt never seen before.
        cold_direct: The same without the gateway.
        warm: Through the gateway, another question below the same system message.
        warm_direct: The same without the gateway.
    """

    cold: float
    cold_direct: float
    warm: float
    warm_direct: float
    prompt_tokens: int
    cached_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurements:
    """All that was measured.

    Attributes:
        decode: By the engine's name; ``direct`` is the plain one without the gateway, and
            ``direct, drafted`` the one with a draft model.
        repeated: The same where the answer stands in the conversation already.
        sample: One long call to the engine with a draft model, for its receipt.
    """

    decode: Mapping[str, DecodeRate]
    repeated: Mapping[str, DecodeRate]
    first_tokens: FirstTokens
    sample: EngineAnswer
    question: str


DIRECT: Final = "direct"
DIRECT_DRAFTED: Final = "direct, drafted"
#: Engines that are asked without the gateway.
_DIRECT_ENGINES: Final = {DIRECT: PLAIN, DIRECT_DRAFTED: DRAFTED}


async def measure(
    session: EngineDemoSession, rounds: int, tell: Callable[[str], None]
) -> Measurements:
    """Measure everything; about a second for each round on an idle machine.

    Args:
        rounds: Rounds of calls after one that warms up.
    """
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(engine_client())
        callers = {name: EngineCaller(session.base_url, client, session.key) for name in ENGINES}
        for name, engine in _DIRECT_ENGINES.items():
            callers[name] = EngineCaller(session.direct_url(engine), client)
        tell("tokens per second")
        decode, repeated = await _decode_rates(callers, rounds)
        tell("time to the first token")
        first_tokens = await _first_tokens(callers, rounds)
        question = topics()[_TOPICS[0]][0]
        messages = conversation(long_system("for the receipt"), question)
        sample = await callers[DRAFTED].ask(DRAFTED, messages)
    return Measurements(
        decode=decode,
        repeated=repeated,
        first_tokens=first_tokens,
        sample=sample,
        question=question,
    )


ENGINES: Final = (PLAIN, DRAFTED, NGRAM)


async def _decode_rates(
    callers: Mapping[str, EngineCaller], rounds: int
) -> tuple[dict[str, DecodeRate], dict[str, DecodeRate]]:
    """Rates of new and of repeated answers; engines take turns, so that all meet the same load."""
    fresh = _Tally((PLAIN, DRAFTED, DIRECT, DIRECT_DRAFTED))
    repeated = _Tally((PLAIN, NGRAM))
    for number in range(rounds + 1):
        for topic in _TOPICS:
            question = topics()[topic][0]
            messages = conversation(SYSTEM, question)
            answers = await fresh.play(callers, messages)
            answer = {"role": "assistant", "content": answers[PLAIN].text}
            again = [*messages, answer, messages[-1]]
            await repeated.play(callers, again)
        if number == 0:  # the first warms up
            fresh.clear()
            repeated.clear()
        else:
            fresh.end_round()
            repeated.end_round()
    return fresh.rates(), repeated.rates()


class _Tally:
    """The rounds of some engines that are asked the same."""

    def __init__(self, names: Sequence[str]) -> None:
        self._answers: dict[str, list[EngineAnswer]] = {name: [] for name in names}
        self._all: dict[str, list[EngineAnswer]] = {name: [] for name in names}
        self._rates: dict[str, list[float]] = {name: [] for name in names}

    async def play(
        self, callers: Mapping[str, EngineCaller], messages: Messages
    ) -> dict[str, EngineAnswer]:
        """The answer of each engine."""
        latest = {}
        for name, answers in self._answers.items():
            latest[name] = await callers[name].ask(_DIRECT_ENGINES.get(name, name), messages)
            answers.append(latest[name])
        return latest

    def clear(self) -> None:
        """Forget the answers of this round."""
        for answers in self._answers.values():
            answers.clear()

    def end_round(self) -> None:
        """Keep the rates of this round."""
        for name, answers in self._answers.items():
            self._rates[name].append(decode_rate(answers))
            self._all[name] += answers
        self.clear()

    def rates(self) -> dict[str, DecodeRate]:
        """The rate of each engine over all rounds."""
        return {
            name: DecodeRate(
                rounds=tuple(self._rates[name]),
                draft_tokens=sum(answer.draft_tokens for answer in answers),
                accepted_tokens=sum(answer.accepted_tokens for answer in answers),
            )
            for name, answers in self._all.items()
        }


def decode_rate(answers: Sequence[EngineAnswer]) -> float:
    """Tokens after the first one ÷ seconds after it.

    Raises:
        OperatorError: If the answers are too short to be measured.
    """
    tokens = sum(max(answer.output_tokens - 1, 0) for answer in answers)
    seconds = sum(answer.decode_seconds for answer in answers)
    if not tokens or seconds <= 0:
        raise OperatorError("The answers are too short to measure tokens per second.")
    return tokens / seconds


async def _first_tokens(callers: Mapping[str, EngineCaller], rounds: int) -> FirstTokens:
    cold, cold_direct, warm, direct = [], [], [], []
    for number in range(rounds + 1):
        system, other = long_system(f"number {number}"), long_system(f"without gateway {number}")
        prompts = [conversation(system, topics()[topic][0]) for topic in _TOPICS[:3]]
        unseen = conversation(other, topics()[_TOPICS[0]][0])
        cold_direct.append(await callers[DIRECT].ask(PLAIN, unseen, _FIRST_TOKENS))
        cold.append(await callers[PLAIN].ask(PLAIN, prompts[0], _FIRST_TOKENS))
        warm.append(await callers[PLAIN].ask(PLAIN, prompts[1], _FIRST_TOKENS))
        direct.append(await callers[DIRECT].ask(PLAIN, prompts[2], _FIRST_TOKENS))
    return FirstTokens(
        cold=median(answer.ttft for answer in cold[1:]),
        cold_direct=median(answer.ttft for answer in cold_direct[1:]),
        warm=median(answer.ttft for answer in warm[1:]),
        warm_direct=median(answer.ttft for answer in direct[1:]),
        prompt_tokens=warm[-1].prompt_tokens,
        cached_tokens=warm[-1].cached_tokens,
    )


def conversation(system: str, question: str) -> list[dict[str, str]]:
    """The messages of a first question."""
    return [{"role": "system", "content": system}, {"role": "user", "content": question}]


@cache
def topics() -> tuple[tuple[str, ...], ...]:
    """The questions of each topic that the model was trained on."""
    entries = file_table(files("proxy.tools.engine_demo") / "model/answers.toml", "topic")
    return tuple(tuple(topic["asks"]) for topic in entries)


def long_system(shop: str) -> str:
    """A long system message: a shop's name first, so that no other call has the same prefix."""
    return f"Shop {shop}.\n\n{''.join(_handbook_sections())}"


@cache
def _handbook_sections() -> tuple[str, ...]:
    text = (files("proxy.tools.demo") / "texts/handbook.md").read_text("utf8")
    # The part before the first heading of the second level, and each part below one.
    return tuple(re.split(r"(?m)^(?=## )", text))[: _SECTIONS + 1]
