"""Each reason, found from calls that went before."""

from typing import Any

import msgspec
import pytest

from proxy.caches.regime import Regime
from proxy.prefix.explain.findings import CallEvidence
from proxy.prefix.explain.reasons import CacheMiss, MissReason, ReasonConfidence
from proxy.prefix.observation import explain_miss
from proxy.prefix.prediction.changes import CallTraces
from proxy.prefix.prediction.prefix_chains import PrefixChainIndex
from proxy.prefix.prediction.sent_call import SentCall
from proxy.prefix.prompts.prompt import Prompt
from slo.usage import Usage
from tests.proxy.prefix.sent_calls import (
    ANTHROPIC,
    DEEPSEEK,
    GEMINI,
    INTERVAL,
    OPENAI,
    VLLM,
    body,
    sent_chat,
    users,
)

RULES = "".join(f"Rule {n} of this house is kept by everyone.\n" for n in range(400))
ALONE = (("system", RULES), ("user", "Hello"))
ON = (*ALONE, ("assistant", "Hello you"), ("user", "What now?"))


class CallHistory:
    """Calls that went before, and what is found for the next."""

    def __init__(self) -> None:
        self.chains = PrefixChainIndex()
        self.traces = CallTraces()

    def record(self, call: SentCall, now: float = 0, usage: Usage | None = None) -> "CallHistory":
        self.chains.record_call(call, usage, now)
        self.traces.record_call(call, now)
        return self

    def evidence(self, call: SentCall, now: float) -> CallEvidence:
        return CallEvidence(
            sent=call,
            expected=self.chains.expect_read(call, now),
            before=self.traces.previous_call(call),
            now=now,
        )

    def explain(
        self, call: SentCall, now: float = 1, read: int = 0, shown: Prompt | None = None
    ) -> CacheMiss | None:
        usage = Usage(input=call.estimate - read, cache_read=read)
        return explain_miss(self.evidence(call, now), usage, shown=shown)


def call(
    regime: Regime, *messages: tuple[str, str], marks: dict[int, str] | None = None, **more: Any
) -> SentCall:
    return sent_chat(regime, *messages, marks=marks, **{"conversation": b"one", **more})


def summary(miss: CacheMiss | None) -> tuple[MissReason, str, ReasonConfidence | None]:
    assert miss is not None
    return miss.reason, miss.detail, miss.confidence


TALK = tuple((role, f"{n} " * 600) for n, role in enumerate(["user", "assistant"] * 6 + ["user"]))
CERTAIN, LIKELY = ReasonConfidence.CERTAIN, ReasonConfidence.LIKELY
POSSIBLE = ReasonConfidence.POSSIBLE
Finding = tuple[MissReason, str, ReasonConfidence]
#: A call, the next one a second later, and what is found for that.
CASES: dict[str, tuple[SentCall, SentCall, Finding]] = {
    "a prompt unlike the feature's last call": (
        users(VLLM, ("a", 500), conversation=b"one", feature=b"f"),
        users(VLLM, ("b", 500), conversation=b"two", feature=b"f"),
        (MissReason.FIRST_SEEN, "nothing of it was in the call before", LIKELY),
    ),
    "a short prompt": (
        users(GEMINI, ("a", 500)),
        users(GEMINI, ("a", 500)),
        (MissReason.BELOW_MINIMUM, "500 tokens; nothing below 4,096 is cached", CERTAIN),
    ),
    "a short repeated part": (
        users(GEMINI, ("a", 500), ("b", 9_000)),
        users(GEMINI, ("a", 500), ("c", 9_000)),
        (
            MissReason.BELOW_MINIMUM,
            "500 tokens are repeated; nothing below 4,096 is cached",
            LIKELY,
        ),
    ),
    "a prompt estimated just above the minimum": (
        users(ANTHROPIC, ("a", 1_100), marks={0: "5m"}),
        users(ANTHROPIC, ("a", 1_100), marks={0: "5m"}),
        (MissReason.BELOW_MINIMUM, "about 1,100 tokens; nothing below 1,024 is cached", POSSIBLE),
    ),
    "a prompt estimated a third above the minimum": (
        users(ANTHROPIC, ("a", 1_360), marks={0: "5m"}),
        users(ANTHROPIC, ("a", 1_360), marks={0: "5m"}),
        (MissReason.PROVIDER_SIDE, "1,360 tokens should have been there", LIKELY),
    ),
    "moved tools": (
        call(VLLM, *ALONE, tools=("a", "b", "c")),
        call(VLLM, *ON, tools=("b", "a", "c")),
        (MissReason.DIVERGED, "tools[0] moved", CERTAIN),
    ),
    "another conversation that begins otherwise": (
        call(VLLM, ("system", f"1\n{RULES}"), conversation=b"one", feature=b"f"),
        call(VLLM, ("system", f"2\n{RULES}"), conversation=b"two", feature=b"f"),
        (MissReason.DIVERGED, "system line 1 changed", LIKELY),
    ),
    "changed parameters of the prefix": (
        call(OPENAI, *ALONE, early={"model": b"m", "verbosity": b"x"}),
        call(OPENAI, *ON, early={"model": b"m", "reasoning_effort": b"x"}),
        (MissReason.PARAMETER_CHANGED, "reasoning_effort and verbosity changed", CERTAIN),
    ),
    "another cache key": (
        call(VLLM, *ALONE, early={"prompt_cache_key": b"a"}),
        call(VLLM, *ON, early={"prompt_cache_key": b"b"}),
        (MissReason.ELSEWHERE, "prompt_cache_key changed", CERTAIN),
    ),
    "another place": (
        call(VLLM, *ALONE, place=b"a"),
        call(VLLM, *ON, place=b"b"),
        (
            MissReason.ELSEWHERE,
            "the call before it went to another account, upstream or replica",
            CERTAIN,
        ),
    ),
    "two messages that are gone": (
        call(VLLM, ("system", "a"), *TALK),
        call(VLLM, ("system", "a"), *TALK[2:], ("user", "x")),
        (MissReason.COMPACTED, "messages[1] removed: 2 messages gone", LIKELY),
    ),
    "a conversation that the caller shortened": (
        call(VLLM, ("system", "a"), *TALK),
        call(VLLM, ("system", "a"), *TALK[6:], ("user", "x")),
        (MissReason.COMPACTED, "messages[1] removed: 6 messages gone", LIKELY),
    ),
    "a conversation that the gateway shortened": (
        call(VLLM, ("system", "a"), *TALK),
        call(VLLM, ("system", "a"), ("user", "In short: x"), *TALK[8:], compacted=True),
        (MissReason.COMPACTED, "the gateway shortened the conversation", CERTAIN),
    ),
    "no mark": (
        call(ANTHROPIC, *ALONE),
        call(ANTHROPIC, *ON),
        (MissReason.UNMARKED, "no mark; 4,481 tokens are repeated", CERTAIN),
    ),
    "an entry that no mark reaches": (
        call(ANTHROPIC, *ALONE, marks={1: "5m"}),
        call(ANTHROPIC, *ALONE, *[("user", f"{n}") for n in range(40)], marks={41: "5m"}),
        (MissReason.UNMARKED, "4,481 tokens are stored; no mark of this call looks there", CERTAIN),
    ),
    "more marks than are taken": (
        call(ANTHROPIC, *ALONE),
        call(ANTHROPIC, *ON, ("user", "x"), marks=dict.fromkeys(range(5), "5m")),
        (MissReason.UNMARKED, "5 marks, and at most 4 taken", CERTAIN),
    ),
    "text shared for the first time on DeepSeek": (
        users(DEEPSEEK, ("a", 2_000), ("b", 100)),
        users(DEEPSEEK, ("a", 2_000), ("c", 100)),
        (MissReason.PROVIDER_SIDE, "what calls share is kept from its second use on", LIKELY),
    ),
    "nothing else": (
        call(ANTHROPIC, *ALONE, marks={1: "5m"}),
        call(ANTHROPIC, *ON, marks={3: "5m"}),
        (MissReason.PROVIDER_SIDE, "4,481 tokens should have been there", LIKELY),
    ),
    "nothing else on GPT-5.4": (
        call(INTERVAL, *ALONE),
        call(INTERVAL, *ON),
        (MissReason.PROVIDER_SIDE, "4,096 tokens should have been there", POSSIBLE),
    ),
    "nothing else on vLLM": (
        call(VLLM, *ALONE),
        call(VLLM, *ON),
        (MissReason.PROVIDER_SIDE, "4,480 tokens should have been there", POSSIBLE),
    ),
}


@pytest.mark.parametrize(("before", "later", "finding"), CASES.values(), ids=CASES)
def test_a_miss_has_the_reason_that_accounts_for_it(before, later, finding):
    assert summary(CallHistory().record(before).explain(later)) == finding


@pytest.mark.parametrize(
    ("regime", "marks", "idle_s", "lives_s", "sure"),
    [
        (GEMINI, ({}, {}), 612, 240, CERTAIN),
        (GEMINI, ({}, {}), 300, 240, LIKELY),
        (ANTHROPIC, ({1: "5m"}, {3: "5m"}), 700, 300, CERTAIN),
    ],
)
def test_a_prefix_idle_beyond_its_lifetime_is_expired(regime, marks, idle_s, lives_s, sure):
    history = CallHistory().record(call(regime, *ALONE, marks=marks[0]))

    assert summary(history.explain(call(regime, *ON, marks=marks[1]), now=idle_s)) == (
        MissReason.EXPIRED,
        f"idle for {idle_s} s; entries live {lives_s} s",
        sure,
    )


def test_a_prompt_without_predecessor_is_first_seen():
    miss = CallHistory().explain(call(VLLM, *ALONE))

    assert summary(miss) == (
        MissReason.FIRST_SEEN,
        "nothing that begins like it was sent before",
        ReasonConfidence.CERTAIN,
    )
    assert miss is not None
    assert (miss.tokens, miss.nanos) == (0, 0)


def test_a_changed_line_is_a_divergence():
    history = CallHistory().record(
        call(VLLM, ("system", f"Time: 12:00\n{RULES}"), ("user", "Hello"))
    )
    later = call(VLLM, ("system", f"Time: 12:01\n{RULES}"), ("user", "Hello"))

    miss = history.explain(later)

    assert summary(miss) == (
        MissReason.DIVERGED,
        "system line 1 changed",
        ReasonConfidence.CERTAIN,
    )
    assert miss is not None
    assert miss.tokens > 0.9 * later.estimate


def test_a_divergence_quotes_words_only_where_they_may_be_shown():
    history = CallHistory().record(
        call(VLLM, ("system", f"Time: 12:00\n{RULES}"), ("user", "Hello"))
    )
    messages = (("system", f"Time: 12:01\n{RULES}"), ("user", "Hello"))
    prompt, _ = body(*messages)

    miss = history.explain(call(VLLM, *messages), shown=prompt)

    assert summary(miss)[1] == "system line 1: `Time: 12:01` changed"
    assert "12:01" not in summary(history.explain(call(VLLM, *messages)))[1]


def test_a_changed_message_parameter_is_the_reason_only_where_messages_come_next():
    long = (*ALONE, ("user", "x" * 40_000))
    marks = {0: "5m", 2: "5m"}
    late = {"tool_choice": b"x"}
    history = CallHistory().record(call(ANTHROPIC, *long, marks=marks))

    miss = history.explain(call(ANTHROPIC, *long, marks=marks, late=late), read=4_000)
    assert summary(miss)[:2] == (MissReason.PARAMETER_CHANGED, "tool_choice changed")
    miss = history.explain(call(ANTHROPIC, ("system", f"x\n{RULES}"), *long[1:], late=late))
    assert summary(miss)[:2] == (MissReason.DIVERGED, "system line 1 added")


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ({"early": {"model": b"b", "verbosity": b"x"}}, "another model"),
        ({"early": {"model": b"b"}, "place": b"b"}, "another model"),
        ({"early": {"model": b"a"}, "place": b"b"}, "another upstream"),
    ],
)
def test_a_fallback_of_the_gateway_is_no_change_of_the_caller(changes: Any, detail: str):
    names: dict[str, Any] = {"asked_model": b'"m"'}
    first = call(OPENAI, *ALONE, early={"model": b"a"}, **names)
    miss = CallHistory().record(first).explain(call(OPENAI, *ON, **changes, **names))

    assert summary(miss)[0] is MissReason.REROUTED
    assert detail in summary(miss)[1]


@pytest.mark.parametrize("kept", [(("system", "a"),), ()])
@pytest.mark.parametrize("facts", [RULES, "x"])
def test_a_short_prompt_after_a_compaction_is_compacted_and_not_below_the_minimum(kept, facts):
    history = CallHistory().record(call(ANTHROPIC, *kept, *TALK))
    after = (*kept, ("user", f"In short: {facts}"))

    assert summary(history.explain(call(ANTHROPIC, *after, compacted=True))) == (
        MissReason.COMPACTED,
        "the gateway shortened the conversation",
        ReasonConfidence.CERTAIN,
    )
    assert summary(history.explain(call(ANTHROPIC, *after)))[0] is not MissReason.COMPACTED
    alone = summary(CallHistory().explain(call(ANTHROPIC, *after, compacted=True)))[0]
    assert alone is (MissReason.FIRST_SEEN if facts == RULES else MissReason.BELOW_MINIMUM)


def test_a_call_that_was_forgotten_here_leaves_the_reason_open():
    history = CallHistory().record(call(VLLM, *ALONE))
    history.chains = PrefixChainIndex()

    assert summary(history.explain(call(VLLM, *ON))) == (
        MissReason.PROVIDER_SIDE,
        "no difference was found to the call before",
        ReasonConfidence.POSSIBLE,
    )


def test_marks_that_stand_too_early_are_the_reason():
    talk = (("system", RULES), *TALK)
    history = CallHistory().record(call(ANTHROPIC, *talk, marks={0: "5m"}))
    later = call(ANTHROPIC, *talk, ("user", "x"), marks={0: "5m"})

    reason, detail, _ = summary(history.explain(later, read=later.blocks[0].size // 4))

    assert reason is MissReason.UNMARKED
    assert detail.startswith("nothing was stored beyond ")


def test_too_many_calls_in_a_minute_go_elsewhere():
    history = CallHistory()
    for second in range(20):
        history.record(users(INTERVAL, ("a", 9_000)), second)

    assert summary(history.explain(users(INTERVAL, ("a", 9_000)), now=20)) == (
        MissReason.ELSEWHERE,
        "21 calls in a minute began alike; 15 fit one machine",
        ReasonConfidence.LIKELY,
    )


def test_small_steps_of_an_estimate_do_not_look_like_an_expiry():
    history = CallHistory().record(users(INTERVAL, ("a", 12_000)))
    evidence = history.evidence(users(INTERVAL, ("a", 12_000)), 3)

    miss = explain_miss(evidence, Usage(input=10_800))

    assert summary(miss)[0] is MissReason.PROVIDER_SIDE


def test_evidence_can_be_kept_until_the_answer_ends():
    evidence = CallHistory().evidence(call(VLLM, *ALONE), 5)

    assert msgspec.structs.replace(evidence, now=6).now == 6
