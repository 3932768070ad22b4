from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from dashboards.reports import ALL_CALLS, ReportPeriod, SpendFilter
from dashboards.views.fast_path import FastPathView, ProvedLoss, SimilarProof, WrongHit
from proxy.records.receipt import ServedBy
from proxy.store.sql.views.fast_path import FastPathQuestion, FastPathRules, fast_path_view
from proxy.store.store import Store
from slo.policies.answer_cache import AnswerCachePolicy
from slo.policies.drafts import DraftRule
from slo.policies.fast_path_switches import FastPathSwitch, SwitchedPart, with_switches
from slo.policies.file import Policies
from slo.policies.small_first import SmallFirst
from slo.policies.stream_continuation import StreamContinuation
from tests.fakes.ledger import MERGED_PARTS, book
from tests.fakes.receipts import START, a_receipt

DAY = datetime.fromtimestamp(START, UTC).date()
PERIOD = ReportPeriod(first=DAY, end=DAY + timedelta(days=1), zone="UTC")
RULES = FastPathRules(
    answer_cache=(AnswerCachePolicy(name="faq", feature="faq", similar=True),),
    small_first=(SmallFirst(name="mini", feature="chat", small="gpt-mini"),),
    drafts=(DraftRule(name="draft", feature="faq", model="gpt-mini"),),
    stream_continuation=(StreamContinuation(name="on", feature="chat"),),
)


@pytest.fixture(params=MERGED_PARTS)
def ledger(store: Store, request: pytest.FixtureRequest) -> Store:
    chat: dict[str, Any] = {"team": "a", "feature": "chat"}
    faq: dict[str, Any] = {"team": "a", "feature": "faq"}
    receipts = [
        a_receipt(1, **chat, served_by=ServedBy.SMALL, fast_path_nanos=90),
        a_receipt(2, **chat, served_by=ServedBy.LARGE),
        a_receipt(3, **chat, fast_path_nanos=-20),
        a_receipt(4, **faq, served_by=ServedBy.CACHE, fast_path_nanos=50, cost_nanos=0),
        a_receipt(5, **faq, attempt=1),
        a_receipt(5, **faq, final=False, served_by=ServedBy.DRAFT, fast_path_nanos=-2),
        a_receipt(6, team="a", feature="plain"),
        a_receipt(7, team="b", feature="chat"),
    ]
    book(store._engine, receipts, request.param)
    return store


def view(store: Store, only: SpendFilter = ALL_CALLS, rules: FastPathRules = RULES) -> FastPathView:
    proof = ProvedLoss(
        team="a", team_name="", rule="mini", calls=9, small_calls=3, judged_calls=1,
        proved_loss=0.005, max_loss=0.01,
    )  # fmt: skip
    question = FastPathQuestion(period=PERIOD, only=only, rules=rules, proved=[proof])
    return store.dashboard.read(fast_path_view, question)


def test_features_have_their_rules_calls_by_part_and_signed_savings(ledger: Store) -> None:
    chat, faq, other = view(ledger).features

    assert [(rule.title, rule.text) for rule in chat.rules] == [
        ("Small model first", "mini: gpt-mini"),
        ("Unbroken streams", "up to 1 time"),
    ]
    assert (chat.rules[0].proved_loss, chat.rules[0].max_loss) == (0.005, 0.01)
    assert (chat.calls, chat.small_calls, chat.weighed_calls, chat.check_calls) == (3, 1, 1, 1)
    assert chat.saved_nanos == 70
    assert [(rule.part, rule.text) for rule in faq.rules] == [
        ("answer_cache", "faq, similar questions too"),
        ("drafts", "gpt-mini"),
    ]
    assert (faq.calls, faq.cached_calls, faq.drafted_calls, faq.saved_nanos) == (2, 1, 1, 48)
    assert (other.team, other.saved_nanos) == ("b", 0)


def test_parts_add_up_to_what_all_features_saved(ledger: Store) -> None:
    shown = view(ledger)

    assert [(part.part, part.nanos) for part in shown.parts] == [
        ("cache", 50), ("small", 90), ("draft", -2), ("checks", -20)
    ]  # fmt: skip
    assert shown.saved_nanos == sum(feature.saved_nanos for feature in shown.features) == 118
    assert shown.proved[0].team_name == "a"


def test_features_without_rule_and_fast_path_are_left_out(ledger: Store) -> None:
    assert [row.feature for row in view(ledger, rules=FastPathRules()).features] == ["chat", "faq"]


def test_a_part_that_is_switched_off_is_shown_with_its_rule(ledger: Store) -> None:
    policies = Policies(answer_cache=tuple(RULES.answer_cache), drafts=tuple(RULES.drafts))
    switch = FastPathSwitch("a", "faq", SwitchedPart.ANSWER_CACHE)

    rules = FastPathRules.of(with_switches(policies, [switch]))
    _, faq = view(ledger, rules=rules).features

    assert [(rule.part, rule.is_on) for rule in faq.rules] == [
        ("answer_cache", False),
        ("drafts", True),
    ]


def test_a_feature_without_calls_is_shown_while_a_part_of_it_is_off(ledger: Store) -> None:
    team = ledger.teams.create("acme", now=START).id
    switches = [FastPathSwitch(name, "new", SwitchedPart.ANSWER_CACHE) for name in ("acme", "gone")]
    every = Policies(answer_cache=(AnswerCachePolicy(name="all"),))
    rules = FastPathRules.of(with_switches(every, switches))

    def places(**fields: Any) -> list[tuple[str, str]]:
        shown = view(ledger, SpendFilter(**fields), rules).features
        return [(row.team, row.feature) for row in shown if row.feature == "new"]

    assert places() == places(teams=frozenset({team})) == [(team, "new")]
    assert places(teams=frozenset({"a"})) == []
    assert places(values={"feature": frozenset({"chat"})}) == []
    assert places(values={"model": frozenset({"m"})}) == []


def similar_proofs(store: Store, rule: AnswerCachePolicy) -> Sequence[SimilarProof]:
    hit = WrongHit(checked_at=START, asked="a", similar="b")
    proof = SimilarProof(
        team="a", team_name="", feature="faq", is_served=True, checked=1_500, wrong=1, bound=0.004,
        max_wrong=0.005, checked_hits=30, wrong_hits=1, stops=0, last_wrong=[hit],
    )  # fmt: skip
    question = FastPathQuestion(
        period=PERIOD,
        only=ALL_CALLS,
        rules=FastPathRules(answer_cache=(rule,)),
        proved=[],
        similar=[proof, replace(proof, feature="other")],
    )
    return store.dashboard.read(fast_path_view, question).similar


def test_text_of_wrong_hits_is_shown_only_where_the_rule_allows_it_now(ledger: Store) -> None:
    rule = AnswerCachePolicy(name="faq", feature="faq", similar=True, show_wrong=True)
    (shown,) = similar_proofs(ledger, rule)
    (hidden,) = similar_proofs(ledger, msgspec.structs.replace(rule, show_wrong=False))

    assert (shown.team_name, shown.last_wrong[0].asked, shown.last_wrong[0].similar) == (
        "a", "a", "b"
    )  # fmt: skip
    assert hidden.last_wrong == [WrongHit(checked_at=shown.last_wrong[0].checked_at)]


def test_proof_is_shown_only_while_a_rule_asks_for_similar_answers(ledger: Store) -> None:
    rule = AnswerCachePolicy(name="faq", feature="faq")

    assert similar_proofs(ledger, rule) == []


def test_only_teams_that_may_be_seen_are_read(ledger: Store) -> None:
    assert view(ledger, SpendFilter(teams=frozenset({"b"}))).saved_nanos == 0
