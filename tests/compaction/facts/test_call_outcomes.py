import pytest

from compaction.facts.call_outcomes import action_outcome
from compaction.facts.segment_fitting import segment_within
from compaction.reading.token_estimate import estimate_tokens
from tests.compaction.facts.regions import (
    Said,
    assistant,
    call_and_result,
    read_contents,
    region,
    user,
)


def outcome(result: str) -> str:
    return action_outcome(read_contents(call_and_result("transfer_money", result)).exchanges[0])


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ("Error: insufficient funds", "insufficient funds"),
        ("The mail was not sent.", "The mail was not sent."),
        ("Transaction failed, no money was sent", "Transaction failed, no money was sent"),
        ('{"error": "insufficient funds", "code": 7}', "insufficient funds"),
        ('{"success": false, "message": "Card declined"}', "Card declined"),
        ('{"status": "failed", "reason": "no seat"}', "no seat"),
        ('{"result": {"error": {"message": "boom"}}}', "boom"),
        ('{"statusCode": 503, "body": "x"}', "statuscode 503"),
        ('[{"id": 1}, {"error": "gone"}]', "gone"),
        ("<returncode>1</returncode>\n<output>cannot remove x</output>", "exit 1: cannot remove x"),
        ("余额不足，无法转账。", "余额不足，无法转账"),
        (
            "Überweisung fehlgeschlagen: Konto gesperrt",
            "Überweisung fehlgeschlagen: Konto gesperrt",
        ),
        ("Transfer gagal karena saldo kurang.", "Transfer gagal karena saldo kurang."),
        ("이체 실패. 나중에 다시 하세요.", "이체 실패."),
    ],
)
def test_a_failure_is_told_in_the_words_of_its_result(result, words):
    assert outcome(result) == f"error: {words}"


@pytest.mark.parametrize(
    "result",
    [
        *("ok", "Done.", "Successfully paid", "Transaction to US133 sent.", "转账成功"),
        *("Stolik został zarezerwowany na piątek.", "금요일 테이블이 예약되었습니다."),
        *('{"reservation_id": "QXM04B"}', '{"ok": true}', '{"errors": [], "data": {"id": 1}}'),
        *('{"error": null, "id": 3}', "Updated 3 rows; 0 errors", "<returncode>0</returncode>"),
        "Message 'the payment failed' sent.",
        "The file tidewatch/clock.py has been edited.",
        '{"title": "Login error", "id": 4, "description": "it fails"}',
        '{"order_id": "W1", "status": "pending", "items": [], "user": "mei"}',
    ],
)
def test_a_successful_action_is_ok(result):
    assert outcome(result) == "ok"


@pytest.mark.parametrize(
    "result", ["", "null", "{}", "[]", "QXM04B", "Payment pending", '{"status": "queued"}', "Hm."]
)
def test_an_outcome_that_cannot_be_judged_is_unknown(result):
    assert outcome(result) == "unknown"


@pytest.mark.parametrize(
    "result",
    [
        *('{"success": "false"}', '{"success": 0}', '{"statusCode": "404"}', '{"approved": false}'),
        *('{"errorMessage": "Balance too low"}', '{"code": "INSUFFICIENT_FUNDS"}', '["Error: x"]'),
        *('"Insufficient funds"', "HTTP 402 Payment Required", "success: false\nmessage: poor"),
        *('<response success="false"/>', "Exit code: 2"),
    ],
)
def test_a_failure_is_seen_however_it_is_written(result):
    assert outcome(result).startswith("error: ")


@pytest.mark.parametrize(
    "result",
    [
        *("转账未成功", "没有成功", "送金は完了していません", "لم يتم التحويل", "не успешно"),
        *("No payment has been sent", "Nothing was transferred.", "0 of 3 transfers succeeded"),
        *("Transfer cancelled due to fraud check", '{"payment": {"status": "declined"}}'),
        '{"id": "t1", "amount": 5, "to": "X", "status": "rejected"}',
        '{"results": [{"id": 1, "status": "ok"}, {"id": 2, "status": "failed"}]}',
    ],
)
def test_an_action_that_may_have_failed_is_never_ok(result):
    assert outcome(result) != "ok"


def test_long_errors_are_cut():
    assert len(outcome("Error: " + "no seat is free " * 90)) < 180


PAYS: list[Said] = [
    user("Pay the three of them."),
    call_and_result("transfer_money", "Error: insufficient funds", "a", amount=500, to="DE89"),
    call_and_result("transfer_money", '{"transaction": "T-1"}', "b", amount=7, to="US133"),
    call_and_result("transfer_money", "", "c", amount=9, to="GB29"),
    assistant("I have paid what I could. " * 40),
    call_and_result("get_balance", "Error: account locked", "d", of="DE89"),
]


def test_without_a_target_a_failed_action_does_not_read_as_done():
    lines = segment_within(region(*PAYS), 0, estimate_tokens).text.split("\n")
    did = [line for line in lines if line.startswith(("did: ", "tried: "))]

    ends = [line.rpartition(" → ")[2] for line in did]
    assert set(ends) <= {"error: insufficient funds", "ok", "unknown"}
    assert len(did) == 3


@pytest.mark.parametrize("max_tokens", range(20, 200, 12))
def test_an_action_goes_whole_before_its_outcome_does(max_tokens):
    lines = segment_within(region(*PAYS), max_tokens, estimate_tokens).text.split("\n")

    ends = [line.rpartition(" → ")[2] for line in lines if line.startswith(("did: ", "tried: "))]
    assert set(ends) <= {"error: insufficient funds", "ok", "unknown"}


def test_a_look_that_failed_says_so_where_its_result_is_left_out():
    text = segment_within(region(*PAYS), 100, estimate_tokens).text

    assert "get_balance(of=DE89) → error: account locked" in text


def test_of_an_error_160_characters_are_told():
    assert outcome(f'{{"error": "{"x" * 160}"}}') == f"error: {'x' * 160}"
    assert outcome(f'{{"error": "{"x" * 161}"}}') == f"error: {'x' * 160} …"


def test_an_outcome_is_told_within_300_characters_of_a_plain_result():
    assert outcome("y " * 146 + " refused" + " y" * 500).startswith("error: ")
    assert outcome("y " * 146 + "  refused" + " y" * 500) == "unknown"


@pytest.mark.parametrize(("status", "is_failure"), [(399, 0), (400, 1), (599, 1), (600, 0)])
def test_a_status_from_400_to_599_is_a_failure(status, is_failure):
    assert outcome(f'{{"statusCode": {status}}}').startswith("error") == bool(is_failure)


def test_an_object_of_three_members_reports_its_state_and_a_larger_one_is_a_record():
    assert outcome('{"status": "pending", "a": 1, "b": 2}') == "unknown"
    assert outcome('{"status": "pending", "a": 1, "b": 2, "c": 3}') == "ok"


def test_a_record_is_searched_six_levels_deep():
    assert outcome('{"a":' * 6 + "1" + "}" * 6) == "ok"
    assert outcome('{"a":' * 7 + "1" + "}" * 7) == "unknown"
