"""Both runs are compared test by test, and request by request."""

import json
from collections import Counter

from tests.conformance.results import SuiteComparison, changed_requests, outcomes

REPORT = """<testsuites><testsuite>
<testcase classname="tests.api_resources.chat.test_completions.TestIt" name="test_a"/>
<testcase classname="tests.api_resources.test_files.TestIt" name="test_b"><failure
 message="openai.NotFoundError:
 404"/></testcase>
<testcase classname="tests.api_resources.test_files.TestIt" name="test_c"><skipped/></testcase>
<testcase classname="tests.api_resources.test_files.TestIt" name="test_d"><error/></testcase>
</testsuite></testsuites>"""
CHAT = "tests.api_resources.chat.test_completions.TestIt::test_"
FILES = "tests.api_resources.test_files.TestIt::test_"


def test_outcomes_are_read_from_a_report(tmp_path):
    report = tmp_path / "report.xml"
    report.write_text(REPORT)

    assert outcomes(report) == {
        f"{CHAT}a": "passed",
        f"{FILES}b": "openai.NotFoundError: 404",
        f"{FILES}c": "skipped",
        f"{FILES}d": "failed",
    }


def test_only_tests_that_pass_direct_count():
    direct = {f"{CHAT}a": "passed", f"{CHAT}b": "passed", f"{FILES}c": "broken: it says why"}
    through = {f"{CHAT}a": "passed", f"{CHAT}b": "lost: 404", f"{FILES}c": "passed"}
    comparison = SuiteComparison(direct, through, dict.fromkeys(direct, "passed"), Counter())

    assert comparison.share == 50
    assert comparison.lost == {f"{CHAT}b": "lost: 404"}
    assert "50.00 %" in comparison.table()
    assert "100.00 % under default settings" in comparison.table()
    assert f"{CHAT}b: lost: 404" in comparison.table()
    assert "it says why" in comparison.table()


def test_a_test_that_did_not_run_through_the_gateway_is_lost():
    comparison = SuiteComparison({f"{CHAT}a": "passed"}, {}, {}, Counter())

    assert (comparison.share, comparison.lost) == (0, {f"{CHAT}a": "did not run"})


def test_no_test_at_all_is_no_success():
    assert SuiteComparison({}, {}, {}, Counter()).share == 0


def test_requests_that_arrived_otherwise_are_counted_by_endpoint(tmp_path):
    direct, through = tmp_path / "direct", tmp_path / "through"
    direct.write_text(json.dumps(["POST", "/files", "", "a"]) + "\n")
    through.write_text(json.dumps(["POST", "/files", "", "b"]) + "\n")

    assert changed_requests(direct, through) == {"POST /files": 1}
    assert changed_requests(direct, direct) == Counter()
