import pytest

from dashboards.report_summary.savings_sentences import (
    fallback_sentence,
    headline_sentences,
    quality_sentence,
)
from dashboards.savings_headline import (
    MeasuredShare,
    SavingsSums,
    UncountedSaving,
    count_planning,
    savings_headline,
)


def test_sentences_have_every_digit_and_name_what_is_not_counted() -> None:
    refuted = UncountedSaving(
        team="t", team_name="acme", feature="", part="planning", nanos=5 * 10**8, why="it is worse"
    )
    sums = SavingsSums(
        list_nanos=10**9, cost_nanos=10**9, planning_nanos=250_000_001, compaction_nanos=-1
    )

    assert headline_sentences(savings_headline(count_planning(sums, None), [refuted])) == [
        "Saved $0.25 (20.0%) against sending directly: $1 in place of $1.25, by estimate.",
        "It is the sum of planning $0.250000001 (estimated), compaction -$0.000000001 (estimated).",
        "Not counted: planning of (none) (acme), $0.5 by estimate; it is worse.",
    ]
    assert headline_sentences(savings_headline(SavingsSums())) == []


def test_only_part_of_a_headline_is_no_sum_and_lost_attempts_are_no_replies() -> None:
    sums = SavingsSums(list_nanos=110, cost_nanos=110, routing_nanos=-10)
    _, parts = headline_sentences(savings_headline(sums))

    assert parts == "It is routing and lost attempts -$0.00000001 (estimated)."


def test_a_loss_is_called_one() -> None:
    sums = SavingsSums(list_nanos=110, cost_nanos=110, planning_nanos=-10)

    (first, _) = headline_sentences(savings_headline(sums))
    assert first.startswith("Lost $0.00000001 (10.0%) against sending directly")


def test_an_interval_is_said_where_a_control_arm_measured() -> None:
    sums = SavingsSums(list_nanos=80, cost_nanos=80, planned_cost_nanos=80)
    headline = savings_headline(count_planning(sums, MeasuredShare(value=0.2, low=0.0, high=0.5)))

    assert headline_sentences(headline)[-1].startswith(
        "By control arms, 95 % sure to lie between $0"
    )


def test_the_fast_path_is_told_by_its_parts_checks_taken_off() -> None:
    sums = SavingsSums(
        list_nanos=10**9, cost_nanos=10**9, cache_nanos=3 * 10**8, checks_nanos=-(10**8)
    )
    headline = savings_headline(sums)

    assert headline.saved_nanos == 2 * 10**8
    assert headline_sentences(headline) == [
        "Saved $0.2 (16.7%) against sending directly: $1 in place of $1.2, by estimate.",
        "It is the fast path $0.2 (estimated).",
        "Fast path: answers given before $0.3, checks of answers and prompts read ahead -$0.1.",
    ]


@pytest.mark.parametrize(
    ("sums", "bounds", "words"),
    [
        ({"planning_nanos": 1}, (0.1, 0.1), ""),
        ({"small_nanos": 1}, (0.0125, None), "small models at most 1.25 % of answers lost"),
        ({"small_nanos": -1}, (None, 0.1), "small models not measured"),
        ({"cache_nanos": 1}, (None, None), "equal calls got an answer given before"),
        (
            {"cache_nanos": 1},
            (None, 0.004),
            (
                "equal calls got an answer given before; answers to similar questions"
                " at most 0.40 % wrong"
            ),
        ),
        (
            {"cache_nanos": 1},
            (None, 0.0),
            (
                "equal calls got an answer given before; answers to similar questions"
                " at most 0.00 % wrong"
            ),
        ),
        (
            {"routing_nanos": 1, "fallback_nanos": 1},
            (None, None),
            "cheaper models that ceilings chose not measured; fallbacks not measured",
        ),
        ({"routing_nanos": -1, "fallback_nanos": -1}, (None, None), ""),
    ],
)
def test_the_quality_of_cheaper_answers_is_said_as_far_as_it_is_known(
    sums: dict[str, int], bounds: tuple[float | None, float | None], words: str
) -> None:
    headline = savings_headline(SavingsSums(cost_nanos=9, list_nanos=9, **sums))

    text = f"Quality of cheaper answers: {words}." if words else ""
    assert quality_sentence(headline, *bounds) == text


def test_the_cost_of_running_the_gateway_is_taken_off_in_words() -> None:
    sums = SavingsSums(list_nanos=10**9, cost_nanos=10**9, compaction_nanos=5 * 10**8)

    assert headline_sentences(savings_headline(sums, running_nanos=10**8)) == [
        (
            "Saved $0.4 (26.7%) against sending directly: $1 and $0.1 to run in place of $1.5,"
            " by estimate."
        ),
        "It is the sum of compaction $0.5 (estimated), running the gateway -$0.1 (stated).",
    ]


@pytest.mark.parametrize(
    ("nanos", "words"),
    [
        (5 * 10**8, "cheaper models: cost $0.5 less by estimate, not counted as saved."),
        (-(5 * 10**8), "dearer models: cost $0.5 more by estimate, not counted."),
    ],
)
def test_fallbacks_are_told_beside_the_saving_and_are_not_in_it(nanos: int, words: str) -> None:
    headline = savings_headline(SavingsSums(list_nanos=9, cost_nanos=9, fallback_nanos=nanos))

    assert (headline.saved_nanos, headline.direct_nanos) == (0, 9)
    assert fallback_sentence(nanos) == f"Fallbacks to {words}"
    assert headline_sentences(headline)[1:] == [fallback_sentence(nanos)]
