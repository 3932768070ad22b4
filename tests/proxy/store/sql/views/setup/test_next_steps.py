"""Steps that nobody has taken, found in the figures of a period."""

from typing import Any

import pytest

from compaction.policy import CompactionMode
from dashboards.reports import latest_days
from dashboards.views.steps import NextStep
from proxy.prefix.explain.reasons import MissReason
from proxy.store.sql.views.counted_savings import SavingsScope, counted_savings
from proxy.store.sql.views.fast_path import FastPathRules
from proxy.store.sql.views.readers import PickledOnce, Readers
from proxy.store.sql.views.setup.next_steps import StepsQuestion, next_steps
from proxy.store.store import Store
from slo.budgets.budget import BudgetUnit
from slo.policies.answer_cache import AnswerCachePolicy
from slo.policies.fast_path_switches import FastPathSwitch, SwitchedPart, with_switches
from slo.policies.file import Policies
from slo.usage import Usage
from tests.fakes.admin_api import ADMIN, of_team
from tests.fakes.board import a_counter
from tests.fakes.chaos import two_model_catalog
from tests.fakes.ledger import book
from tests.fakes.receipts import START, a_receipt
from tests.fakes.savings import propose_layout

DAY = 86_400.0
NOW = START + 2 * DAY
SCOPE = SavingsScope(period=latest_days(NOW, 30), catalog=PickledOnce(two_model_catalog()))
CACHE = AnswerCachePolicy(name="repeats")


def keep(store: Store, *changes: dict[str, Any]) -> None:
    """Books a call for each of these changes."""
    usual = {
        "team": "team_0", "feature": "chat", "model": "model-0", "route": "lab/model-0",
        "cost_nanos": 100, "list_nanos": 100,
    }  # fmt: skip
    book(store._engine, [a_receipt(n, **(usual | change)) for n, change in enumerate(changes)], 0.5)


def steps(store: Store, **fields: Any) -> list[NextStep]:
    readers = Readers(store._engine)
    usual: dict[str, Any] = {"viewer": ADMIN, "scope": SCOPE, "now": NOW}
    question = StepsQuestion(**(usual | fields))
    return next_steps(readers, question, counted_savings(readers, question.scope), {"team_0": "T"})


def test_a_store_without_calls_has_no_steps(store: Store) -> None:
    assert steps(store) == []


def test_dearest_fixable_reason_for_misses_costs_what_was_not_read(store: Store) -> None:
    missed = {"conversation": "ab", "miss_tokens": 7}
    keep(
        store,
        missed | {"miss": MissReason.FIRST_SEEN, "miss_nanos": 90},
        missed | {"miss": MissReason.EXPIRED, "miss_nanos": 5},
        missed
        | {
            "miss": MissReason.PARAMETER_CHANGED,
            "miss_nanos": 40,
            "miss_detail": "tools changed",
        },
    )
    (step,) = steps(store)
    advice = "They can keep one set of parameters for a conversation's calls"

    assert (step.kind, step.saved_nanos, step.bound) == ("cache_misses", 40, "at most")
    assert step.month_nanos == pytest.approx(600, rel=0.01)
    assert step.effect == f"{advice}. The newest call: tools changed"
    assert step.link == f"/admin/cache/{a_receipt(2).call_id}"


def test_the_evidence_of_a_miss_is_shown_only_to_who_sees_calls(store: Store) -> None:
    miss = {"miss": MissReason.DIVERGED, "miss_detail": "system: `on 1 May` changed"}
    keep(store, {"conversation": "ab", "miss_tokens": 7, "miss_nanos": 5} | miss)
    (step,) = steps(store, viewer=of_team("team_0"))

    assert "1 May" not in step.effect
    assert (step.link, step.action) == ("/admin/cache?team=team_0&feature=chat", "See its misses")


def test_a_layout_that_waits_stands_for_the_misses_it_would_fix(store: Store) -> None:
    keep(
        store,
        *[
            {
                "model": "gpt-9",
                "route": "lab/gpt-9",
                "conversation": "ab",
                "miss": MissReason.DIVERGED,
                "miss_nanos": 40,
            }
            for _ in range(3)
        ],
    )
    propose_layout(store, "chat", 5_000)
    (admins,), (viewers,) = steps(store), steps(store, viewer=of_team("team_0"))

    assert (admins.kind, admins.saved_nanos, admins.nanos_per_1k_calls) == ("layout", 15, 5_000)
    assert (admins.action, admins.fields["version"]) == ("Apply", "1")
    assert (viewers.action, viewers.fields) == ("See the layout", {})


def test_equal_calls_are_answered_from_memory_at_their_share_of_the_cost(
    store: Store,
) -> None:
    keep(
        store,
        *[
            {"fingerprint": of, "cost_nanos": cost}
            for of, cost in (("a", 10), ("b", 70), ("a", 20))
        ],
    )
    (step,) = steps(store)

    assert (step.kind, step.saved_nanos, step.bound) == ("equal_calls", 20, "at most")
    assert step.basis == "1 of its last 3 calls repeat earlier ones"
    assert step.fields == {}
    assert steps(store, rules=FastPathRules(answer_cache=[CACHE])) == []


def test_an_answer_cache_that_a_person_disabled_is_enabled_by_a_button(store: Store) -> None:
    keep(store, {"fingerprint": "a"}, {"fingerprint": "a"})
    switch = FastPathSwitch("T", "chat", SwitchedPart.ANSWER_CACHE)
    rules = FastPathRules.of(with_switches(Policies(answer_cache=(CACHE,)), [switch]))
    (step,) = steps(store, rules=rules)

    assert (step.link, step.action) == ("/admin/fast-path", "Enable")
    assert step.fields == {
        "team": "team_0",
        "feature": "chat",
        "part": "answer_cache",
        "is_on": "true",
    }


@pytest.mark.parametrize(("spent", "titles"), [(74, []), (76, ["Budget b of acme is at 76 %"])])
def test_a_budget_is_a_step_once_three_quarters_are_spent(
    store: Store, spent: int, titles: list[str]
) -> None:
    counters = [
        a_counter(budget="b", unit=BudgetUnit.TOKENS, limit=100, spent=part, whose=whose)
        for part, whose in ((10, "other"), (spent, "acme"), (None, "unknown"))
    ]

    assert [step.title for step in steps(store, budgets=counters)] == titles


def test_calls_without_a_price_or_a_feature_are_steps_of_unknown_savings(store: Store) -> None:
    keep(store, {"feature": ""}, {"feature": "", "cost_nanos": None, "list_nanos": None})
    unpriced, unnamed = steps(store)

    assert (unpriced.title, unpriced.saved_nanos) == ("Set the price of 1 attempt", None)
    assert (unnamed.title, unnamed.cost_nanos) == ("Name the feature of 2 calls", 100)
    assert unnamed.link == "/admin/costs?feature=%28none%29&by=key"


def test_long_prompts_without_compaction_are_a_step(store: Store) -> None:
    keep(store, *[{"usage": Usage(input=6_000, cache_read=2_000, output=9)}] * 20)
    (step,) = steps(store)

    assert (step.kind, step.link) == (
        "compaction",
        "/admin/layouts/team_0/chat#compaction-title",
    )
    assert "8,000 prompt tokens on average" in step.effect
    assert step.saved_nanos is None
    assert "Send 20 calls with x-thriftgate-compaction: dry-run" in step.basis
    assert steps(store, compaction=CompactionMode.FACTS) == []


def test_twenty_dry_runs_say_what_compaction_would_save_at_most(store: Store) -> None:
    long = {"usage": Usage(input=8_000, output=2_000)}
    dry = {"compaction": "facts", "compaction_why": "dry_run: pays"}
    keep(store, *[long | dry | {"tokens_before": 8_000, "tokens_after": 6_000}] * 20)
    (step,) = steps(store)

    assert (step.saved_nanos, step.nanos_per_1k_calls, step.bound) == (400, 20_000, "at most")
    assert step.basis.startswith("The share of prompts that 20 dry runs would not have sent")
