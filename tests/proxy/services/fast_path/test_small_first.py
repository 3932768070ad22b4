"""Calls of a rule are weighed, sent small or not, compared, and never twice counted."""

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import orjson
import pytest

from proxy.calls.route_choice import RouteChoice, RoutingDecision
from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Model
from proxy.configuration import Snapshot
from proxy.fast_path.small_first.answer_checks import AnswerCheck, AnswerWebhook, CheckRules
from proxy.fast_path.small_first.judge_channel import Verdict
from proxy.records.receipt import Outcome, Receipt, ServedBy
from proxy.services.fast_path.comparisons import AnswerComparison
from proxy.services.fast_path.small_first import SmallFirstRouting
from slo.policies.fast_path_switches import FastPathSwitch, SwitchedPart, with_switches
from slo.policies.file import Policies
from slo.policies.small_first import SmallFirst, SmallFirstMode
from tests.fakes.call_dependencies import KEY, route
from tests.fakes.call_dependencies import call as a_call

LARGE, SMALL = route("large", window=100_000), route("small", window=100_000)
RULE = SmallFirst(name="first", small="small", max_loss=0.3, judged_share=0.3)
METER: Any = SimpleNamespace(delivered_text=lambda: "")


class FakeComparisons:
    """Takes comparisons and makes none."""

    def __init__(self) -> None:
        self.added: list[AnswerComparison] = []

    def add(self, comparison: AnswerComparison) -> None:
        self.added.append(comparison)


class SmallFirstHarness:
    """Routing by one rule; verdicts come at once."""

    def __init__(self, rule: SmallFirst = RULE) -> None:
        self.comparisons: Any = FakeComparisons()
        self.routing = SmallFirstRouting(cast(Any, self.comparisons), draw=lambda: 0.05)
        models = {
            "m": Model(id="m", routes=(LARGE,)),
            "small": Model(id="small", routes=(SMALL,)),
        }
        catalog = Catalog(models=models, upstreams={}, default=LARGE)
        self.snapshot = Snapshot(catalog, Policies(small_first=(rule,)))
        self.routing.update(self.snapshot)
        self.calls = 0

    def decide(self, model: str = "m", **fields: Any) -> RoutingDecision:
        self.calls += 1
        body = {"model": model, "messages": [{"role": "user", "content": "Hello"}]}
        body |= fields.pop("body", {})
        self.call = a_call(orjson.dumps(body), id=f"call_{self.calls}", **fields)
        choice = RouteChoice(LARGE if model == "m" else SMALL, model)
        return self.routing.decide(self.call, RoutingDecision(choices=(choice,)))

    def end(self, served_by: ServedBy, outcome: Outcome = Outcome.ANSWERED) -> None:
        """The end of the call decided last, with its receipt before its answer's last bytes."""
        receipt = Receipt(
            call_id=self.call.id,
            started=0.0,
            team="team_1",
            key_id="key_1",
            endpoint="chat/completions",
            status=200,
            outcome=outcome,
            duration=1.0,
            served_by=served_by,
        )
        self.routing.observe(receipt)
        if outcome is Outcome.ANSWERED:
            self.routing.note_answer(self.call, METER)

    def until_small(self) -> RoutingDecision:
        """The decision for the first call that goes to the small model."""
        for _ in range(600):
            decision = self.decide()
            if decision.choices[0].model == "small":
                return decision
            self.end(ServedBy.LARGE)
            while self.comparisons.added:
                self.comparisons.added.pop().report(Verdict.EQUAL, Verdict.EQUAL)
        raise AssertionError("no call went to the small model")

    @property
    def control(self) -> Any:
        state: Any = self.routing.states.peek(("team_1", "first"))
        return state.control


def test_calls_go_large_until_enough_is_compared():
    decision = SmallFirstHarness().decide()

    assert [choice.served_by for choice in decision.choices] == [ServedBy.LARGE]
    assert decision.choices[0].route is LARGE


def test_small_model_comes_first_once_its_answers_are_as_good_and_the_large_one_follows():
    decision = SmallFirstHarness().until_small()

    small, large = decision.choices
    assert small.route.upstream.name == "small"
    assert small.served_by is ServedBy.SMALL
    assert small.instead_of is LARGE
    assert small.reroute_reason == "first: small model first"
    assert large.served_by is ServedBy.LARGE


@pytest.mark.parametrize(
    "fields",
    [
        {"model": "small"},
        {"endpoint": "embeddings"},
        {"body": {"messages": [{"role": "assistant", "content": "Hi"}]}},
        {"key": KEY.__class__(id="k", team="t", team_name="a", models=frozenset({"m"}))},
        {"feature": "warming:chat"},
    ],
    ids=["small model asked", "no text", "later turn", "key for one model", "warming"],
)
def test_calls_that_no_small_model_may_answer_are_not_weighed(fields):
    harness = SmallFirstHarness()

    decision = harness.decide(**fields)

    assert [choice.served_by for choice in decision.choices] == [ServedBy.NOBODY]
    assert not harness.routing.states


@pytest.mark.parametrize(("judge", "is_weighed"), [("judge", False), ("m", True), ("", True)])
def test_key_that_may_not_call_the_judge_has_no_call_weighed(judge, is_weighed):
    harness = SmallFirstHarness(msgspec.structs.replace(RULE, judge=judge))
    key = KEY.__class__(id="k", team="t", team_name="a", models=frozenset({"m", "small"}))

    harness.decide(key=key)

    assert bool(harness.routing.states) == is_weighed


def test_rule_of_another_feature_weighs_no_call():
    harness = SmallFirstHarness(SmallFirst(name="first", feature="other", small="small"))
    harness.decide()

    assert not harness.routing.states


def test_checks_of_the_rule_go_with_the_small_routes_alone():
    rule = msgspec.structs.replace(RULE, checks=("finish",), pattern="yes")
    small, large = SmallFirstHarness(rule).until_small().choices

    assert small.checks == CheckRules((AnswerCheck.FINISH,), None, "yes")
    assert large.checks is None


def test_the_service_of_the_rule_is_asked_within_its_deadline():
    url = "https://checks.test/"
    rule = msgspec.structs.replace(RULE, check_url=url, check_ms=50)

    checks = SmallFirstHarness(rule).until_small().choices[0].checks

    assert checks is not None
    assert checks.webhook == AnswerWebhook(url, 0.05)


CASCADE = msgspec.structs.replace(RULE, mode=SmallFirstMode.CASCADE, checks=("finish",))


def test_a_cascade_asks_the_small_model_from_the_first_call_on_and_checks_it():
    small, large = SmallFirstHarness(CASCADE).decide().choices

    assert (small.served_by, small.reroute_reason) == (
        ServedBy.SMALL,
        "first: small model first, checked",
    )
    assert small.checks is not None
    assert large.served_by is ServedBy.LARGE


@pytest.mark.parametrize("fields", [{"body": {"stream": True}}, {"endpoint": "messages"}])
def test_answers_that_cannot_be_checked_go_through_no_cascade(fields):
    assert SmallFirstHarness(CASCADE).decide(**fields).choices[0].served_by is ServedBy.NOBODY


def test_a_cascade_by_the_teams_own_service_covers_whole_answers_of_every_api():
    rule = msgspec.structs.replace(CASCADE, check_url="https://checks.test/")

    whole = SmallFirstHarness(rule).decide(endpoint="messages")
    stream = SmallFirstHarness(rule).decide(endpoint="messages", body={"stream": True})

    assert whole.choices[0].served_by is ServedBy.SMALL
    assert stream.choices[0].served_by is ServedBy.NOBODY


def test_a_cascade_that_loses_too_much_asks_the_large_model_and_says_so_once(caplog):
    harness = SmallFirstHarness(CASCADE)
    harness.decide()
    while not harness.control.loses_too_much():
        harness.decide()
        harness.end(ServedBy.SMALL)
        while harness.comparisons.added:
            harness.comparisons.added.pop().report(Verdict.WORSE, Verdict.WORSE)

    assert harness.decide().choices[0].served_by is ServedBy.LARGE
    assert caplog.text.count("the cascade stopped") == 1


def test_teams_have_states_of_their_own():
    harness = SmallFirstHarness()
    harness.decide()
    harness.decide(key=KEY.__class__(id="k", team="team_2", team_name="b"))

    assert {key for key, _ in harness.routing.states.items()} == {
        ("team_1", "first"),
        ("team_2", "first"),
    }


def test_small_answer_is_compared_with_the_model_asked_for():
    harness = SmallFirstHarness()
    harness.until_small()
    harness.end(ServedBy.SMALL)

    (comparison,) = harness.comparisons.added
    assert comparison.was_small
    assert comparison.other == comparison.judge == "m"


def test_call_that_the_large_model_answered_after_all_is_no_loss():
    harness = SmallFirstHarness()
    harness.until_small()
    assert harness.control.awaited == 1

    harness.end(ServedBy.LARGE)

    assert harness.control.awaited == 0
    assert not harness.comparisons.added


def test_call_that_a_cache_answered_awaits_no_comparison():
    harness = SmallFirstHarness()
    harness.decide()
    while not harness.control.pending:  # a share of them may be compared
        harness.end(ServedBy.LARGE)
        harness.decide()

    harness.end(ServedBy.CACHE)

    assert not harness.control.pending
    assert not harness.comparisons.added


def test_small_answer_that_cannot_be_compared_counts_as_lost():
    harness = SmallFirstHarness()
    harness.until_small()
    harness.end(ServedBy.SMALL)

    harness.comparisons.added.pop().give_up()

    assert harness.control.awaited == 1


def test_small_answer_whose_caller_left_counts_as_lost_and_is_not_compared():
    harness = SmallFirstHarness()
    harness.until_small()
    harness.end(ServedBy.SMALL, Outcome.HUNG_UP)

    assert harness.control.awaited == 1
    assert not harness.comparisons.added


def test_feedback_is_learned_for_small_answers_of_the_same_team_alone():
    harness = SmallFirstHarness()
    harness.until_small()
    count, call_id = harness.control.model.count, harness.call.id

    assert harness.routing.record_feedback("team_1", call_id, is_good=False)
    assert harness.control.model.count == count + 1
    assert not harness.routing.record_feedback("team_2", call_id, is_good=True)
    assert not harness.routing.record_feedback("team_1", "call_other", is_good=True)


def test_only_the_first_rating_of_a_call_is_learned():
    harness = SmallFirstHarness()
    harness.until_small()
    count, call_id = harness.control.model.count, harness.call.id

    ratings = [harness.routing.record_feedback("team_1", call_id, is_good=False) for _ in range(3)]

    assert ratings == [True] * 3
    assert harness.control.model.count == count + 1


def test_state_of_a_team_with_calls_outlives_those_of_teams_without():
    harness = SmallFirstHarness()
    harness.decide()
    control = harness.control

    for number in range(1_200):
        key = KEY.__class__(id="k", team=f"other_{number}", team_name="b")
        harness.decide(key=key)
        if number % 100 == 0:
            harness.decide()

    assert harness.control is control
    assert len(harness.routing.states) <= 1_000


def test_state_goes_with_its_rule():
    harness = SmallFirstHarness()
    harness.decide()

    harness.routing.update(Snapshot(Catalog(models={}, upstreams={}, default=LARGE), Policies()))

    assert not harness.routing.states
    assert harness.decide().choices[0].served_by is ServedBy.NOBODY


def test_rule_that_is_switched_off_weighs_no_call_and_keeps_its_state():
    harness = SmallFirstHarness()
    harness.until_small()
    control, snapshot = harness.control, harness.snapshot
    switch = FastPathSwitch("acme", harness.call.feature, SwitchedPart.SMALL_FIRST)

    policies = with_switches(snapshot.policies, [switch])
    harness.routing.update(msgspec.structs.replace(snapshot, policies=policies))
    off = harness.decide()
    harness.routing.update(snapshot)

    assert off.choices[0].served_by is ServedBy.NOBODY
    assert harness.control is control
    assert harness.decide().choices[0].served_by is not ServedBy.NOBODY


def test_rule_with_another_promise_begins_anew():
    harness = SmallFirstHarness()
    harness.decide()
    catalog = Catalog(models={}, upstreams={}, default=LARGE)
    same, stricter = RULE, msgspec.structs.replace(RULE, max_loss=0.01)

    harness.routing.update(Snapshot(catalog, Policies(small_first=(same,))))
    assert harness.routing.states

    harness.routing.update(Snapshot(catalog, Policies(small_first=(stricter,))))
    assert not harness.routing.states


def test_call_goes_as_asked_where_it_cannot_be_weighed(caplog):
    harness = SmallFirstHarness()
    harness.routing._draw = lambda: 1 / 0

    decision = harness.decide()

    assert [choice.served_by for choice in decision.choices] == [ServedBy.NOBODY]
    assert "could not be weighed" in caplog.text
