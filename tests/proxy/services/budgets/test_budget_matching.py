from collections.abc import Sequence

import orjson
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.prompts.fingerprints import Pseudonymizer
from proxy.records.call import Call, Key
from proxy.services.budgets.budget_matching import BudgetMatcher
from proxy.services.budgets.cost_bounds.reservation_requests import counted_budgets, subject
from slo.budgets.budget import Budget, BudgetIndex, BudgetUnit
from slo.window import Window
from tests.fakes.admission_harness import BODY, NOW, budget
from tests.fakes.call_dependencies import KEY, call

SEAL = Pseudonymizer(b"secret")
TEAM = budget()
MINUTE = budget(name="rate", unit=BudgetUnit.REQUESTS, window=Window.MINUTE, scope="key")
USER = budget(name="user", scope="user")
PROJECT = budget(name="project", scope="label:project")
FEATURE = budget(name="feature", scope="feature", of="search")


def chat_body(**fields: object) -> bytes:
    return orjson.dumps({"model": "m", "messages": [], **fields})


def counters(matcher: BudgetMatcher, asking: Call) -> list[str]:
    return [counted.counter for counted in matcher.match(asking).counted]


def test_calls_of_one_caller_share_a_match_until_a_window_ends():
    matcher = BudgetMatcher([TEAM, MINUTE], SEAL)
    first = matcher.match(call(BODY, arrived=NOW))

    assert matcher.match(call(BODY, id="call_2", arrived=first.until - 0.001)) is first
    later = matcher.match(call(BODY, arrived=first.until))
    assert later.counted[0] == first.counted[0]
    assert later.counted[1].counter != first.counted[1].counter
    assert matcher.match(call(BODY, arrived=NOW)) == first


def test_a_match_says_what_is_counted_and_whether_headers_tell_of_it():
    both = BudgetMatcher([TEAM, MINUTE], SEAL).match(call(BODY))
    assert both.units == {BudgetUnit.USD, BudgetUnit.REQUESTS}
    assert both.has_rate
    assert both.since <= call(BODY).arrived < both.until

    one = BudgetMatcher([TEAM], SEAL).match(call(BODY))
    assert one.units == {BudgetUnit.USD}
    assert not one.has_rate

    none = BudgetMatcher([budget(of="others")], SEAL).match(call(BODY))
    assert not none.counted
    assert not none.units


def test_calls_that_only_read_share_no_match_with_paid_ones():
    matcher = BudgetMatcher([TEAM, MINUTE], SEAL)
    assert len(matcher.match(call(BODY)).counted) == 2
    assert len(matcher.match(call(b"", "files", method="GET", fields=None)).counted) == 1


def test_end_users_are_kept_apart_where_a_budget_is_theirs_and_only_there():
    ann, bob = (call(chat_body(user=name)) for name in ("ann", "bob"))

    matcher = BudgetMatcher([TEAM], SEAL)
    assert matcher.match(ann) is matcher.match(bob)

    matcher = BudgetMatcher([TEAM, USER], SEAL)
    assert counters(matcher, ann) != counters(matcher, bob)
    assert "ann" not in "".join(counters(matcher, ann))


def test_budgets_by_label_are_matched_anew_for_each_call():
    matcher = BudgetMatcher([PROJECT], SEAL)
    one, other = (
        counters(matcher, call(chat_body(metadata={"project": name})))
        for name in ("apollo", "gemini")
    )
    assert one[0].endswith("/apollo")
    assert other[0].endswith("/gemini")


def test_more_callers_than_are_remembered_are_matched_as_well():
    matcher = BudgetMatcher([budget(scope="feature")], SEAL)
    for number in range(5000):
        (counter,) = counters(matcher, call(BODY, feature=f"feature-{number}"))
        assert counter.endswith(f"/feature-{number}")
    assert len(matcher._remembered) < 5000


KEYS = st.builds(
    Key,
    id=st.sampled_from(["key_1", "key_2"]),
    team=st.sampled_from(["team_1", "team_2"]),
    team_name=st.sampled_from(["acme", "globex"]),
)
CALLS = st.builds(
    lambda key, feature, user, arrival, method: call(
        chat_body(user=user) if user else BODY,
        key=key,
        feature=feature,
        arrived=arrival,
        method=method,
    ),
    KEYS | st.just(KEY),
    st.sampled_from(["", "chat", "search"]),
    st.sampled_from(["", "ann", "bob"]),
    st.floats(NOW - 200_000, NOW + 200_000) | st.sampled_from([NOW, NOW + 60]),
    st.sampled_from(["POST", "GET"]),
)


@given(st.sets(st.sampled_from([TEAM, MINUTE, USER, PROJECT, FEATURE])), st.lists(CALLS))
def test_a_remembered_match_is_what_would_be_found_anew(
    budgets: set[Budget], calls: Sequence[Call]
) -> None:
    matcher, limits = BudgetMatcher(budgets, SEAL), BudgetIndex(budgets)
    for request in calls:
        fresh = counted_budgets(limits, subject(request, SEAL, labelled=True), request)
        matched = matcher.match(request).counted
        assert sorted(matched, key=lambda one: one.counter) == sorted(
            fresh, key=lambda one: one.counter
        )


def test_matches_of_4096_callers_are_remembered_and_then_found_anew():
    matcher = BudgetMatcher([TEAM], SEAL)
    first = matcher.match(call(BODY, feature="0"))
    for number in range(1, 4_096):
        matcher.match(call(BODY, feature=str(number)))
    assert matcher.match(call(BODY, feature="0")) is first

    matcher.match(call(BODY, feature="one more"))

    assert matcher.match(call(BODY, feature="0")) is not first
