from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo.budgets.budget import (
    Budget,
    BudgetIndex,
    BudgetUnit,
    Subject,
    counter_key,
)
from slo.window import Window

AT = datetime(2026, 11, 22, 13, 5, tzinfo=UTC).timestamp()
CALL = Subject(team="search", key="key_1", feature="chat", user="ann", labels={"project": "x"})
NAMELESS = Subject(team="search", key="key_1")
SCOPES = ("organization", "team", "key", "feature", "user", "label:project")


def budget(scope: str, of: str = "*", **more: object) -> Budget:
    fields = {"name": "b", "unit": BudgetUnit.USD, "window": Window.MONTH, "limit": 5, **more}
    return Budget(scope=scope, of=of, **fields)  # type: ignore[arg-type]


def counted_subject(counting: Budget, subject: Subject) -> str | None:
    """The subject whose counter the call counts in; None for none."""
    subjects = [whose for _, whose in BudgetIndex([counting]).applicable(subject)]
    assert len(subjects) <= 1
    return subjects[0] if subjects else None


@pytest.mark.parametrize(
    ("scope", "whose"),
    [
        ("organization", "*"),
        ("team", "search"),
        ("key", "key_1"),
        ("feature", "chat"),
        ("user", "ann"),
        ("label:project", "x"),
    ],
)
def test_a_budget_of_everyone_counts_each_call_for_whom_it_names(scope: str, whose: str) -> None:
    assert counted_subject(budget(scope), CALL) == whose


@pytest.mark.parametrize("scope", ["feature", "user", "label:project"])
def test_call_without_a_name_counts_only_in_the_budget_of_such_calls(scope: str) -> None:
    assert counted_subject(budget(scope), NAMELESS) is None
    assert counted_subject(budget(scope, of=""), NAMELESS) == ""
    assert counted_subject(budget(scope, of=""), CALL) is None


def test_a_budget_of_one_name_counts_no_other() -> None:
    assert counted_subject(budget("team", of="search"), CALL) == "search"
    assert counted_subject(budget("team", of="ads"), CALL) is None
    assert counted_subject(budget("label:project", of="x"), CALL) == "x"
    assert counted_subject(budget("label:stage", of="x"), CALL) is None


def test_someone_called_asterisk_is_one_of_everyone_and_counted_once() -> None:
    call = Subject(team="search", key="key_1", user="*")
    pairs = list(BudgetIndex([budget("user")]).applicable(call))
    assert [whose for _, whose in pairs] == ["*"]


NAMES = st.sampled_from(["", "*", "a", "b"])
SUBJECTS = st.builds(
    Subject,
    team=st.sampled_from("ab"),
    key=st.sampled_from("ab"),
    feature=NAMES,
    user=NAMES,
    labels=st.dictionaries(st.sampled_from(["project"]), NAMES),
)


def expected_subject(counting: Budget, call: Subject) -> str | None:
    label = call.labels.get("project", "")
    names = dict(
        zip(SCOPES, ("*", call.team, call.key, call.feature, call.user, label), strict=True)
    )
    whose = names[counting.scope]
    return whose if counting.of == whose or (counting.of == "*" and whose) else None


@given(st.lists(st.tuples(st.sampled_from(SCOPES), NAMES), max_size=30), SUBJECTS)
def test_budgets_found_by_name_are_those_that_apply(
    scopes: list[tuple[str, str]], call: Subject
) -> None:
    budgets = [budget(scope, of, name=str(i)) for i, (scope, of) in enumerate(scopes)]
    expected = {
        (b.name, whose) for b in budgets if (whose := expected_subject(b, call)) is not None
    }
    pairs = [(b.name, whose) for b, whose in BudgetIndex(budgets).applicable(call)]
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == expected


def test_a_counter_says_what_is_counted_for_whom_and_when() -> None:
    assert (
        counter_key(budget("team", name="month"), "search", AT) == "month/team/usd/2026-11/search"
    )


def test_a_changed_limit_goes_on_counting_and_any_other_change_starts_anew() -> None:
    before = budget("team")
    assert counter_key(budget("team", limit=9, hard=False), "a", AT) == counter_key(before, "a", AT)
    variants = [
        budget("key"),
        budget("team", name="c"),
        budget("team", unit=BudgetUnit.TOKENS),
        budget("team", window=Window.DAY),
    ]
    names = {counter_key(variant, "a", AT) for variant in (before, *variants)}
    assert len(names) == 5


USERS = st.text(max_size=100)


@given(USERS, USERS, st.sampled_from(Window), st.sampled_from(Window))
def test_no_two_share_a_counter_whatever_they_call_themselves(
    one: str, other: str, first: Window, second: Window
) -> None:
    a = counter_key(budget("user", window=first), one, AT)
    b = counter_key(budget("user", window=second), other, AT)
    assert (a == b) == ((one, first) == (other, second))


def test_a_name_of_any_length_makes_a_counter_of_bounded_length() -> None:
    long = counter_key(budget("user"), "u" * 1_000_000, AT)
    assert len(long) < 200
    assert long != counter_key(budget("user"), "u" * 999_999, AT)


def test_a_name_that_no_store_can_encode_is_counted() -> None:
    names = {counter_key(budget("user"), whose, AT) for whose in ("\ud800", "\udfff", "a\0")}
    assert len(names) == 3
    assert all(name.isascii() for name in names)


def test_a_name_of_up_to_64_characters_stands_in_its_counters_name_and_a_longer_one_hashed() -> (
    None
):
    assert counter_key(budget("user"), "u" * 64, AT).endswith("/" + "u" * 64)
    assert "/sha256:" in counter_key(budget("user"), "u" * 65, AT)
