from typing import Any

import pytest

from compaction.simple_ways import KeptValues
from proxy.cli.compaction.dry_run import DryRunResult
from proxy.cli.compaction.dry_run_report import kept_line, single_line, summary_lines


def dry_run_result(**fields: Any) -> DryRunResult:
    values: dict[str, Any] = {
        "messages": (),
        "facts": (),
        "tokens_before": 12_000,
        "tokens_after": 12_000,
        "compacted": False,
        "reason": "does_not_pay",
        "changed": False,
        "compacted_messages": 0,
        "cut_results": 0,
        "mode": "facts",
        "model": "any",
        "break_even": None,
        "segments": (),
        "lost": (),
        "target": 0,
        "target_missed": None,
        "kept_tokens": None,
        "calls": 60,
        "since_call": None,
        "faults": (),
        "kept_values": None,
    }
    return DryRunResult(**values | fields)


COMPACTED = {
    "compacted": True,
    "changed": True,
    "compacted_messages": 175,
    "tokens_after": 3_000,
    "since_call": 60,
    "kept_tokens": 2_410,
}


def lines_of_summary(**fields: Any) -> list[str]:
    return list(summary_lines(dry_run_result(**fields), 182))


def test_a_compaction_that_does_not_pay_yet_says_what_it_would_take() -> None:
    assert lines_of_summary(break_even=7.0) == [
        "any: 12,000 → 12,000 tokens, tools included.",
        (
            "Not compacted: it may end before a compaction is paid back."
            " It would be sent unmodified."
        ),
        (
            "A compaction now would pay itself back in 7.0 calls. Nobody knows how many will"
            " follow, so it is done once about 70 were made, 10 times as many; 60 were made."
        ),
    ]


def test_where_calls_enough_were_made_earlier_compactions_are_owed() -> None:
    lines = lines_of_summary(**COMPACTED | {"since_call": 9, "calls": 80}, break_even=2.5)

    assert lines[2].startswith("Another compaction now would pay itself back in 2.5 calls.")
    assert lines[2].endswith("80 were made, but earlier compactions have to be paid back too.")


def test_a_compaction_of_now_is_reported_with_its_reason_and_its_price() -> None:
    lines = lines_of_summary(**COMPACTED, reason="pays", break_even=1.5)

    assert lines[0].endswith("(−75.0%), tools included.")  # noqa: RUF001
    assert lines[1] == (
        "Compacted: facts stand for 175 of 182 messages;"
        " enough calls are to be expected for the compaction to pay."
    )
    assert lines[2] == (
        "The compaction pays itself back in 1.5 calls, this one included; 60 were made so far."
    )


def test_compaction_that_a_lost_stake_delays_says_until_when() -> None:
    lines = lines_of_summary(**COMPACTED, reason="pays", break_even=2.5)

    assert lines[3] == (
        "If compaction has lost its feature's stake (THRIFTGATE_LEARNING_STAKE), it waits until"
        " about 75 calls were made."
    )


@pytest.mark.parametrize(("reason", "break_even"), [("pays", 2.0), ("banked", 2.5), ("forced", 9)])
def test_compaction_that_no_stake_delays_says_nothing_of_it(reason: str, break_even: float) -> None:
    lines = lines_of_summary(**COMPACTED, reason=reason, break_even=break_even)

    assert len(lines) == 3


def test_the_reason_for_no_further_compaction_is_kept_apart_from_an_earlier_one() -> None:
    lines = lines_of_summary(
        **COMPACTED | {"since_call": 41}, reason="no_progress", break_even=7.25
    )

    assert lines[1].startswith(
        "Compacted: facts stand for 175 of 182 messages since call 41 of 60; nothing more is"
        " compacted now: a compaction would take away less than"
    )
    assert (
        lines[2] == "Another compaction now would pay itself back in 7.2 calls, this one included."
    )


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        (
            COMPACTED | {"reason": "forced"},
            "by 590: system text, tools and the last turns alone weigh 2,410.",
        ),
        (
            COMPACTED | {"reason": "forced", "kept_tokens": 500},
            "by 590: system text, tools and the last turns weigh 500, and the facts 2,500.",
        ),
        (
            COMPACTED | {"since_call": 2},
            "by 590: system text, tools and the turns after the compaction alone weigh 2,410.",
        ),
        ({}, "by 590: nothing was compacted."),
    ],
)
def test_a_target_that_was_missed_is_reported_with_what_stands_in_its_way(
    fields: dict[str, Any], line: str
) -> None:
    lines = lines_of_summary(**fields, target=2_400, target_missed=590)

    assert lines[-1] == f"The target of 2,400 tokens was missed {line}"


def test_faults_of_the_conversation_are_named_and_bounded() -> None:
    wrong = tuple(f"messages[{n}] is wrong" for n in range(5))
    line = lines_of_summary(reason="invalid", faults=wrong)[1]

    assert line.startswith(
        "Not compacted: it is invalid unmodified: messages[0] is wrong; messages[1]"
    )
    assert line.endswith("; and 2 more. It would be sent unmodified.")
    assert lines_of_summary(reason="invalid", faults=wrong[:1])[1].endswith(
        ": messages[0] is wrong. It would be sent unmodified."
    )


def test_trim_is_reported_in_its_own_words() -> None:
    trim = {"mode": "trim", "reason": "nothing_to_compact"}

    assert lines_of_summary(**trim, changed=True)[1] == (
        "Trimmed: tool results are shortened without loss. Not compacted: trim goes no further."
    )
    assert lines_of_summary(changed=True, cut_results=2)[1].startswith(
        "Trimmed: tool results are shortened, 2 of them to head and tail after they were shown"
    )
    assert "no tool result can be shortened" in lines_of_summary(**trim)[1]
    assert "asks for a summary" in lines_of_summary(mode="trim", reason="client")[1]


def test_a_single_call_is_reported_in_the_singular() -> None:
    assert lines_of_summary(
        **COMPACTED | {"calls": 1, "since_call": 1}, reason="forced", break_even=1.0
    )[2].endswith("; 1 was made so far.")


def test_a_text_is_shown_on_one_short_line_without_what_moves_a_cursor() -> None:
    assert single_line("a\x1b[0m\n  b", 20) == "a�[0m b"
    assert single_line("long " * 9, 10) == "long long…"


def test_values_that_are_kept_stand_beside_those_of_the_best_simple_way() -> None:
    values = KeptValues(total=1_240, kept=1_200, way="keep last", way_kept=480)

    assert list(kept_line(dry_run_result(kept_values=values))) == [
        (
            "Of 1,240 values and names of the whole conversation 1,200 are kept;"
            " the best simple way in as many tokens (keep last) would keep 480."
        )
    ]
    assert list(kept_line(dry_run_result())) == []
