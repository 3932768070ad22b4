"""The load's table has a line a mix, and all of them together."""

from tests.load.report import ReportRow, failures, table

ROWS = [
    ReportRow("POST", "short chat", 10, 1, 5000, 400, 900, 950),
    ReportRow("TTFT", "short chat", 5, 0, 1000, 200, 300, 310),
    ReportRow("TOKENS", "short chat", 10, 0, 1500, 150, 160, 170),
    ReportRow("COST", "short chat", 10, 0, 2500, 250, 260, 270),
    ReportRow("POST", "bad input", 4, 0, 40, 10, 11, 12),
]


def test_the_table_sums_up_tokens_and_dollars():
    head, bad, chat, together = table(ROWS, {"short chat": 0.003}).splitlines()

    assert head.split()[:3] == ["mix", "calls", "failed"]
    assert bad.split() == ["bad", "input", "4", "0", *"---", "10", "11", "12", "-", "-", "0.0000"]
    assert chat.split()[2:6] == ["10", "1", "200", "300"]
    assert chat.split()[-3:] == ["1,500", "0.0025", "0.0030"]
    assert together.split() == ["all", "14", "1", "1,500", "0.0025", "0.0030"]


def test_only_calls_can_fail():
    assert failures(ROWS) == 1
