"""The gain of warming, counted from receipts of typed prompts and from calls that followed."""

from dataclasses import replace
from typing import Any

from proxy.engines.routing.prompt_chain import PromptChain, chain_root, prompt_chain
from proxy.engines.warming.accounts import WarmingAccounts, WarmingKind, WarmingResult
from proxy.records.receipt import Outcome
from proxy.services.engines.replica_monitor import ReplicaStatus
from proxy.services.engines.warming.warming_gains import WarmingGains
from slo.usage import Usage
from tests.fakes.receipts import a_receipt

TYPED, SYSTEM = WarmingKind.TYPED, WarmingKind.SYSTEM_PROMPT
HOUSE = ReplicaStatus(
    name="house:0", profile="house", model="m", base_url="http://a/v1", prefill_tokens_per_s=500.0
)
WARMED = Usage(input=900, cache_read=100, output=1)


def chain(text: str) -> PromptChain:
    return prompt_chain(chain_root("m", ""), text.encode(), len(text) // 4)


def warm_and_settle(gains: WarmingGains, status: ReplicaStatus = HOUSE, **receipt: object) -> None:
    """A prompt of 4,000 letters is warmed, and its call settled."""
    gains.note_typed("call_1", status, chain("a" * 4_000))
    fields: dict[str, Any] = {"call_id": "call_1", "usage": WARMED, "cost_nanos": 700, **receipt}
    gains.observe(a_receipt(**fields))


def test_a_call_after_its_typed_prompt_gains_the_tokens_that_were_computed_for_that():
    gains = WarmingGains(WarmingAccounts())
    warm_and_settle(gains)
    gains.note_call(HOUSE, chain("a" * 4_400), 1_000)
    accounts, key = gains.accounts, ("house", TYPED)

    assert accounts.results == {(*key, WarmingResult.WARMED): 1}
    assert (accounts.tokens[key], accounts.nanos[key]) == (900, 700)
    assert (accounts.used_calls[key], accounts.used_tokens[key]) == (1, 900)
    assert accounts.saved_s == {key: 1.8}


def test_a_prompt_is_counted_as_used_once_and_only_at_its_replica():
    gains = WarmingGains(WarmingAccounts())
    warm_and_settle(gains)
    other = replace(HOUSE, name="house:1")
    gains.note_call(other, chain("a" * 4_400), 1_000)
    assert not gains.accounts.used_calls

    for _ in range(2):
        gains.note_call(HOUSE, chain("a" * 4_400), 1_000)
    assert gains.accounts.used_calls == {("house", TYPED): 1}


def test_a_restart_of_the_replica_takes_what_was_warmed_there():
    gains = WarmingGains(WarmingAccounts())
    gains.note_warmed(HOUSE, SYSTEM, chain("a" * 4_000), 900)
    gains.note_call(replace(HOUSE, starts=1), chain("a" * 4_400), 1_000)

    assert not gains.accounts.used_calls


def test_a_prompt_whose_caller_left_costs_and_is_not_remembered():
    gains = WarmingGains(WarmingAccounts())
    warm_and_settle(gains, outcome=Outcome.HUNG_UP)
    gains.note_call(HOUSE, chain("a" * 4_400), 1_000)
    accounts = gains.accounts

    assert accounts.results == {("house", TYPED, WarmingResult.CANCELLED): 1}
    assert accounts.nanos["house", TYPED] == 700
    assert not accounts.used_calls


def test_without_a_measured_rate_no_seconds_are_estimated():
    gains = WarmingGains(WarmingAccounts())
    slow = replace(HOUSE, prefill_tokens_per_s=0.0)
    warm_and_settle(gains, slow)
    gains.note_call(slow, chain("a" * 4_400), 1_000)

    assert gains.accounts.used_tokens["house", TYPED] == 900
    assert gains.accounts.saved_s == {}


def test_receipts_of_other_calls_change_nothing_and_awaited_ones_are_bounded():
    gains = WarmingGains(WarmingAccounts())
    gains.observe(a_receipt())
    for number in range(3_000):
        gains.note_typed(f"call_{number}", HOUSE, chain("a" * 4_000))
    gains.observe(a_receipt(call_id="call_0"))
    assert not gains.accounts.results

    gains.observe(a_receipt(call_id="call_2999"))
    assert len(gains.accounts.results) == 1
