from pathlib import Path

import pytest

from proxy.cli.planning.explain import attempt_lines, explain
from proxy.cli.storage_checks import SIMULATOR_LOCK
from proxy.records.receipt import Outcome, PhasesFrom, ServedBy
from slo.usage import Usage
from tests.fakes.cli_runner import CommandRunner, single_command
from tests.fakes.receipts import START, a_receipt, an_engine_receipt

EXPLAIN = single_command(explain)


def test_a_call_is_reported_attempt_by_attempt(tmp_path: Path) -> None:
    typed = CommandRunner(tmp_path, START)
    failed = a_receipt(
        4, final=False, outcome=Outcome.FAILED, status=529, error="overloaded", usage=None
    )
    answered = a_receipt(
        4,
        attempt=1,
        conversation="ab" * 16,
        arm="treated",
        layout=2,
        usage=Usage(input=3000, cache_read=1000),
        expected_read=3500,
        miss="diverged",
        miss_detail="system line 4 changed",
        miss_tokens=2500,
        miss_nanos=6_000_000,
    )
    typed.keep(failed, answered)
    output = typed.said(EXPLAIN, failed.call_id)

    assert f"Attempt 1 of {failed.call_id}, 2026-09-21 14:13 UTC: team team_0" in output
    assert "lab/model-0 failed with 529 (overloaded); $0.004000004." in output
    assert "It was not planned." in output
    assert "Attempt 2 of" in output
    assert f"Conversation {'ab' * 16} is planned, with layout 2." in output
    assert "Read from the cache: 1,000 of 4,000 tokens, 25 %." in output
    assert "To be expected, as the prompt was sent: 3,500 tokens." in output
    assert "system line 4 changed." in output
    assert "Could have been read besides: 2,500 tokens; that would have saved $0.006" in output
    assert "Fix: Move what varies behind" in output


def test_the_providers_request_id_is_reported_where_it_gave_one() -> None:
    lines = list(attempt_lines(a_receipt(1, upstream_request_id="req_1"), "acme"))

    assert "The provider's request id is req_1." in lines
    assert not any("request id" in line for line in attempt_lines(a_receipt(1), "acme"))


def test_a_small_call_is_told_why_it_was_not_planned(tmp_path: Path) -> None:
    typed = CommandRunner(tmp_path, START)
    small = a_receipt(1, unplanned_why="under_2_kb")
    typed.keep(small)

    output = typed.said(EXPLAIN, small.call_id)
    assert (
        "It was not planned: its prompt is smaller than 2 KB, which hardly any cache keeps"
        in output
    )


def test_a_reason_in_words_is_reported_as_it_is() -> None:
    lines = list(attempt_lines(a_receipt(1, unplanned_why="planning took too long"), "acme"))

    assert "It was not planned: planning took too long." in lines


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        (
            {"fast_path_nanos": 140_000},
            (
                "The answer to another call answered it with 200, so nothing was sent;"
                " its answer cost $0.00014 the first time."
            ),
        ),
        ({}, "The answer to another call answered it with 200, so nothing was sent."),
        (
            {"outcome": Outcome.HUNG_UP},
            "The caller hung up before it had the answer to another call; it cost nothing.",
        ),
    ],
)
def test_a_call_that_the_cache_answered_says_so_and_nothing_of_planning(fields, line) -> None:
    receipt = a_receipt(1, served_by=ServedBy.CACHE, cost_nanos=0, usage=None, **fields)
    lines = list(attempt_lines(receipt, "acme"))

    assert lines[1] == line
    assert not any("planned" in one for one in lines)


def test_a_call_nobody_made_is_told(tmp_path: Path) -> None:
    why = CommandRunner(tmp_path, START).error_of(EXPLAIN, "call_1")

    assert f"no call with the id call_1 in the ledger sqlite:///{tmp_path}/thriftgate.db." in why
    assert "names the ledger of the gateway that took it" in why


def test_a_call_that_may_be_simulated_is_looked_for_in_the_simulators_ledger(
    tmp_path: Path,
) -> None:
    simulated = tmp_path / "simulated"
    simulated.mkdir()
    (simulated / SIMULATOR_LOCK).touch()
    why = CommandRunner(tmp_path, START).error_of(EXPLAIN, "call_1")

    command = f"THRIFTGATE_FOLDER={simulated} thriftgate explain call_1."
    assert why.endswith(f"run THRIFTGATE_DATABASE_URL= {command}")


def test_a_conversation_left_alone_is_told_as_such() -> None:
    lines = list(
        attempt_lines(a_receipt(1, conversation="cd", arm="control", cost_nanos=None), "acme")
    )

    assert lines[1].endswith("at no known price.")
    assert lines[2] == "Conversation cd is sent unmodified, to compare with."


@pytest.mark.parametrize(
    ("outcome", "sentence"),
    [
        (Outcome.ANSWERED, "up/m answered it with 200; $0.5, by estimate"),
        (Outcome.FAILED, "up/m failed with 200; $0.5, by estimate"),
        (Outcome.BROKEN, "up/m broke off its answer with 200; $0.5, by estimate"),
        (Outcome.HUNG_UP, "The caller hung up before up/m was done, with 200; $0.5, by estimate"),
    ],
)
def test_an_attempt_says_who_ended_it_and_whether_its_tokens_were_estimated(outcome, sentence):
    receipt = a_receipt(
        1, outcome=outcome, status=200, route="up/m", estimated=True, cost_nanos=500_000_000
    )

    assert list(attempt_lines(receipt, "acme"))[1] == (
        f"{sentence}: no upstream reported its tokens."
    )


def test_changes_by_the_gateway_are_reported() -> None:
    lines = list(
        attempt_lines(a_receipt(5, conversation="cd", arm="treated", model="", route=""), "acme")
    )

    assert "chat/completions" in lines[0]
    assert lines[1].startswith("An upstream answered it with 200;")
    assert lines[2] == "Conversation cd is planned, with no layout."
    assert lines[-1] == "Note: dropped logit_bias."


def test_a_reason_of_another_version_is_reported_in_its_own_words() -> None:
    lines = list(attempt_lines(a_receipt(1, miss="of_tomorrow", miss_detail="who knows"), "acme"))

    assert lines[-1] == "Why not more: of_tomorrow: who knows."


def test_a_prompt_that_diverged_names_the_command_that_shows_its_layout() -> None:
    diverged = list(attempt_lines(a_receipt(1, feature="the chat", miss="diverged"), "acme"))
    expired = list(attempt_lines(a_receipt(1, feature="the chat", miss="expired"), "acme"))

    assert any("`thriftgate layout show acme 'the chat'`" in line for line in diverged)
    assert not any("thriftgate layout" in line for line in expired)


def test_a_refusal_by_the_gateway_is_not_blamed_on_an_upstream():
    refused = a_receipt(
        1, outcome=Outcome.REFUSED, status=429, error="budget_exceeded", route="openai/m"
    )
    lines = list(attempt_lines(refused, "acme"))

    assert "The gateway refused it with 429 (budget_exceeded), and sent it nowhere." in lines
    assert not any("openai" in line for line in lines)


def test_a_call_that_was_moved_says_so():
    lines = list(attempt_lines(a_receipt(1, reroute_reason="chat-ttft: fallback level 2"), "acme"))

    assert "It went there in place of what it asked for: chat-ttft: fallback level 2." in lines


def test_a_call_that_was_compacted_says_what_was_sent_and_what_that_saved():
    compacted = a_receipt(
        1,
        compaction="facts",
        compaction_why="pays",
        compacted=True,
        tokens_before=12_034,
        tokens_after=2_987,
        reset=True,
        compaction_nanos=-1_500_000,
        needed=3,
        lost=1,
    )
    lines = list(attempt_lines(compacted, "acme"))

    assert (
        "Compacted (mode facts): about 12,034 tokens came, 2,987 were sent;"
        " it was the first call after a compaction."
    ) in lines
    assert "Why: enough calls are to be expected for the compaction to pay." in lines
    assert "Saved by that, resets paid for: -$0.0015." in lines
    assert (
        "Its last tool calls needed 3 values of what was compacted: 2 of them are in what is sent."
    ) in lines


def test_a_call_that_was_not_compacted_says_why():
    left = a_receipt(1, compaction="facts", compaction_why="signed")
    dry = a_receipt(
        1, compaction="facts", compaction_why="dry_run: pays", tokens_before=9_000, tokens_after=900
    )

    assert (
        "Compaction (mode facts) left it unmodified: it holds signed thinking, before which nothing"
        " may change at its provider; the mode native leaves compaction to the provider."
    ) in list(attempt_lines(left, "acme"))
    assert any(
        line.endswith(
            "it was a dry run; else: enough calls are to be expected for the compaction to pay."
        )
        for line in attempt_lines(dry, "acme")
    )
    assert "Of about 9,000 tokens it would have sent 900." in list(attempt_lines(dry, "acme"))
    assert not any("ompaction" in line for line in attempt_lines(a_receipt(1), "acme"))


def compaction_lines(**fields: object) -> str:
    """Return what is told of a call that went out shorter."""
    changes = {"compacted": True, "tokens_before": 900, "tokens_after": 300}
    lines = list(attempt_lines(a_receipt(1, **changes | fields), "acme"))
    index = next(n for n, line in enumerate(lines) if "900 tokens came" in line)
    return " ".join(lines[index : index + 2])


def test_results_said_shorter_are_kept_apart_from_a_compaction():
    trimmed = compaction_lines(compaction="trim", compaction_why="nothing_to_compact")

    assert trimmed.startswith("Trimmed, tool results alone and without loss (mode trim): about 900")
    assert "compaction" not in trimmed.split("Read from")[0]


def test_the_reason_for_no_further_compaction_is_reported():
    either = compaction_lines(compaction="facts", compaction_why="cooling_down")
    surely = compaction_lines(compaction="facts", compaction_why="cooling_down", needed=2)

    assert either.startswith("Sent shorter, compacted earlier or tool results alone (mode facts): ")
    assert either.endswith(
        "No more was compacted at this call: the last compaction was a short while ago."
    )
    assert surely.startswith("Compacted (mode facts): ")


def test_a_receipt_that_counts_compacted_messages_tells_a_trimmed_call_from_a_compacted_one():
    trimmed = compaction_lines(
        compaction="facts", compaction_why="too_few_calls", compacted_messages=0
    )
    compacted = compaction_lines(
        compaction="facts", compaction_why="pays", compacted_messages=1_204
    )
    earlier = compaction_lines(
        compaction="facts", compaction_why="cooling_down", compacted_messages=1
    )

    assert trimmed.startswith("Trimmed, tool results alone (mode facts): ")
    assert "No message was compacted: nothing is known before" in trimmed
    assert compacted.startswith(
        "Compacted, 1,204 messages as facts (mode facts): about 900 tokens came"
    )
    assert earlier.startswith("Compacted, 1 message as facts (mode facts): ")
    assert "No more was compacted at this call" in earlier


def test_thinking_that_forbids_a_compaction_is_reported_in_a_sentence():
    lines = list(attempt_lines(a_receipt(1, compaction="facts", compaction_why="thinks"), "acme"))

    assert any("thinking is signed" in line and "too few answers" in line for line in lines)


@pytest.mark.parametrize(
    ("recalls", "words"), [(1, "recalled once, 700 tokens"), (2, "recalled 2 times, 1,340 tokens")]
)
def test_recalls_are_reported_with_their_tokens(recalls, words):
    fields = {"compaction": "facts+recall", "compacted": True, "recalls": recalls}
    tokens = 700 if recalls == 1 else 1_340
    lines = list(attempt_lines(a_receipt(1, **fields, recalled_tokens=tokens), "acme"))

    assert f"The model {words} of what was compacted; the cost has all rounds." in lines


def test_a_providers_own_compaction_is_reported():
    lines = list(attempt_lines(a_receipt(1, compaction="native", compaction_why="asked"), "acme"))

    assert "Its provider was asked to compact it (mode native)." in lines


@pytest.mark.parametrize(("lost", "sentence"), [(0, "it is"), (1, "it is not")])
def test_a_single_value_that_was_needed_is_reported_in_the_singular(
    lost: int, sentence: str
) -> None:
    compacted = a_receipt(
        1, compaction="facts", compacted=True, compacted_messages=1, needed=1, lost=lost
    )
    lines = list(attempt_lines(compacted, "acme"))

    assert (
        f"Its last tool calls needed 1 value of what was compacted: {sentence} in what is sent."
        in lines
    )


def test_an_engine_s_call_shows_its_phases_its_drafts_and_its_gpu_seconds() -> None:
    lines = list(attempt_lines(an_engine_receipt(2), "acme"))

    assert (
        "Time 1,500 ms: gateway 0.4 ms, queue 250 ms, prefill 250 ms, decode 750 ms,"
        " transfer 62 ms." in lines
    )
    assert "Speculation: 30 of 42 draft tokens were accepted (71%)." in lines
    assert "Its share of the engine: 0.500 GPU seconds." in lines


def test_a_queue_that_the_gateway_saw_is_marked() -> None:
    receipt = an_engine_receipt(2, phases_from=PhasesFrom.BOTH)

    assert any("the queue is what the gateway saw." in line for line in attempt_lines(receipt, "a"))


def test_a_provider_s_call_shows_the_time_that_the_gateway_saw() -> None:
    lines = list(attempt_lines(a_receipt(2), "acme"))

    assert (
        "Time 1,500 ms: first content after 250 ms, the rest in 1,250 ms,"
        " as the gateway saw it." in lines
    )


def test_a_draft_is_reported_as_one_and_by_whom_it_was_ended() -> None:
    draft = a_receipt(
        1,
        attempt=1000,
        served_by=ServedBy.DRAFT,
        outcome=Outcome.HUNG_UP,
        error="draft_ended",
        route="up/s",
    )
    first, second, *_ = attempt_lines(draft, "acme")

    assert first.startswith("The draft of call_")
    assert second.startswith("The answer began before up/s was done")


def test_the_words_of_an_upstream_that_failed_are_reported() -> None:
    lines = list(attempt_lines(a_receipt(1, upstream_error="it answered 503 'Overloaded.'"), "a"))

    assert "Of the upstream: it answered 503 'Overloaded.'." in lines
