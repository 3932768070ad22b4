"""Each fault of an upstream: what the caller gets, and what the ledger holds.

The table is what is right. ``json`` and ``sse`` are what the caller asked for; ``*`` is both.
Usage is ``exact`` (what the upstream charged), ``estimated`` (counted here) or ``none`` (nobody
bills the attempt). Every call has one final receipt; what has a usage has a cost.
"""

from collections.abc import Iterator
from itertools import product

import pytest

from proxy.records.receipt import Outcome
from proxy.tools.simulator.fault_directives import NAMES
from tests.fakes.fault_cases import LEAVES, PATIENCE, STATUSES, CaseResult, FaultCase, cases, meet
from tests.fakes.gateway_fixture import GatewayFixture, running_gateway

# cue                upstream  form   caller got                             outcome   usage
CHAT = """
ok                   | *      | *    | answer stop                            | answered | exact
slow                 | *      | *    | answer stop                            | answered | exact
keepalives=3         | *      | *    | answer stop                            | answered | exact
crlf                 | *      | *    | answer stop                            | answered | exact
split                | *      | *    | answer stop                            | answered | exact
letters              | *      | *    | answer stop                            | answered | exact
words                | *      | *    | answer stop                            | answered | exact
call                 | *      | *    | answer tool_calls                      | answered | exact
args                 | *      | *    | answer stop                            | answered | exact
refuse               | openai | *    | answer stop                            | answered | exact
refuse               | claude | *    | answer content_filter                  | answered | exact
offered-call         | *      | *    | answer stop                            | answered | exact
double-usage         | *      | *    | answer stop                            | answered | exact
early-usage          | *      | *    | answer stop                            | answered | exact
no-usage             | *      | *    | answer stop                            | answered | estimated
zero-usage           | *      | *    | answer stop                            | answered | estimated
no-done              | *      | json | answer stop                            | answered | exact
no-done              | openai | sse  | answer stop, no [DONE]                 | answered | exact
no-done              | claude | sse  | answer stop                            | answered | exact
no-blank-line        | *      | json | answer stop                            | answered | exact
no-blank-line        | openai | sse  | answer stop, 1 unreadable              | answered | exact
no-blank-line        | claude | sse  | part, error upstream_malformed         | broken   | estimated
malformed            | openai | json | JSON cut                               | answered | estimated
malformed            | claude | json | 502 upstream_malformed                 | failed   | estimated
malformed            | openai | sse  | answer stop, 1 unreadable              | answered | exact
malformed            | claude | sse  | part, error upstream_malformed         | broken   | estimated
short                | openai | json | JSON cut                               | answered | estimated
short                | claude | json | 502 upstream_malformed                 | failed   | estimated
short                | *      | sse  | part, error upstream_cut_off           | broken   | estimated
error-event          | *      | json | answer stop                            | answered | exact
error-event          | openai | sse  | part, error server_error               | broken   | estimated
error-event          | claude | sse  | part, error upstream_overloaded        | broken   | estimated
opening-error        | *      | json | answer stop                            | answered | exact
opening-error        | openai | sse  | 502 upstream_error                     | failed   | none
opening-error        | claude | sse  | 503 upstream_overloaded                | failed   | estimated
stall                | *      | json | 504 upstream_timeout                   | failed   | estimated
stall                | *      | sse  | part, error upstream_timeout           | broken   | estimated
death                | *      | json | 502 upstream_connection_broken         | failed   | estimated
death                | *      | sse  | part, error upstream_connection_broken | broken   | estimated
death-before-content | *      | *    | 502 upstream_connection_broken         | failed   | estimated
hang                 | *      | *    | 504 upstream_timeout                   | failed   | estimated
silence              | *      | *    | 504 upstream_timeout                   | failed   | estimated
keepalives           | *      | *    | 504 upstream_timeout                   | failed   | estimated
leaves before head   | *      | *    | left                                   | hung_up  | estimated
leaves before words  | *      | sse  | left                                   | hung_up  | estimated
leaves mid-stream    | *      | sse  | part, left                             | hung_up  | estimated
quota                | openai | *    | 429 insufficient_quota                 | failed   | none
quota                | claude | *    | 429 rate_limit_exceeded                | failed   | none
html                 | *      | *    | 502 upstream_error                     | failed   | none
400                  | openai | *    | 400 None                               | failed   | none
400                  | claude | *    | 400 invalid_request                    | failed   | none
401                  | *      | *    | 502 upstream_unauthorized              | failed   | none
402                  | *      | *    | 502 upstream_unauthorized              | failed   | none
403                  | *      | *    | 502 upstream_unauthorized              | failed   | none
404                  | openai | *    | 404 model_not_found                    | failed   | none
404                  | claude | *    | 404 not_found                          | failed   | none
408                  | *      | *    | 504 upstream_timeout                   | failed   | none
409                  | openai | *    | 409 None                               | failed   | none
409                  | claude | *    | 409 invalid_request                    | failed   | none
413                  | openai | *    | 413 None                               | failed   | none
413                  | claude | *    | 413 request_too_large                  | failed   | none
422                  | openai | *    | 422 None                               | failed   | none
422                  | claude | *    | 422 invalid_request                    | failed   | none
429                  | *      | *    | 429 rate_limit_exceeded, retry-after 1 | failed   | none
500                  | *      | *    | 502 upstream_error                     | failed   | none
502                  | *      | *    | 502 upstream_error                     | failed   | none
503                  | *      | *    | 503 upstream_overloaded                | failed   | none
504                  | *      | *    | 504 upstream_timeout                   | failed   | none
529                  | *      | *    | 503 upstream_overloaded                | failed   | none
"""
#: Where Responses differ from it: the words for an end, and that its closing event has the usage.
RESPONSES = """
refuse               | openai | *    | answer completed                       | answered | exact
refuse               | claude | *    | answer incomplete                      | answered | exact
call                 | *      | *    | answer completed                       | answered | exact
no-done              | openai | sse  | part, error upstream_cut_off           | broken   | estimated
error-event          | claude | sse  | answer failed, error upstream_overloaded | broken | estimated
no-blank-line        | claude | sse  | answer failed, error upstream_malformed | broken | estimated
malformed            | claude | sse  | answer failed, error upstream_malformed | broken | estimated
short                | claude | sse  | answer failed, error upstream_cut_off | broken | estimated
"""
UPSTREAMS = {"*": ("openai", "anthropic"), "openai": ("openai",), "claude": ("anthropic",)}
FORMS = {"*": (False, True), "json": (False,), "sse": (True,)}


def rows(table: str, endpoint: str) -> Iterator[tuple[FaultCase, tuple[str, str, str]]]:
    for line in table.strip().splitlines():
        cue, upstream, form, *right = (cell.strip() for cell in line.split("|"))
        content, outcome, usage = right
        for wire, streamed in product(UPSTREAMS[upstream], FORMS[form]):
            yield FaultCase(cue, wire, streamed, endpoint), (content, outcome, usage)


def responses() -> dict[FaultCase, tuple[str, str, str]]:
    by_case = {
        FaultCase(case.cue, case.wire, case.streamed, "responses"): (
            row.replace("answer stop", "answer completed"),
            outcome,
            usage,
        )
        for case, (row, outcome, usage) in rows(CHAT, "chat/completions")
    }
    return by_case | dict(rows(RESPONSES, "responses"))


RIGHT = {**dict(rows(CHAT, "chat/completions")), **responses()}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayFixture]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIMULATOR_KEY", "simulator-key")
        with running_gateway(tmp_path_factory.mktemp("faults"), **PATIENCE) as gateway:
            yield gateway


@pytest.fixture(scope="module")
def met(gateway: GatewayFixture) -> dict[FaultCase, CaseResult]:
    every = cases() + cases("responses")
    return {one.case: one for one in meet(gateway, every)}


def test_the_table_has_every_fault_of_the_lab() -> None:
    named = {case.cue.partition("=")[0] for case in RIGHT}

    assert named == {*NAMES, *LEAVES, *map(str, STATUSES)}
    assert set(RIGHT) == {*cases(), *cases("responses")}


@pytest.mark.parametrize("case", RIGHT, ids=lambda case: case.mark)
def test_a_fault_is_met_as_the_table_says(
    met: dict[FaultCase, CaseResult], case: FaultCase
) -> None:
    one = met[case]
    content, outcome, usage = RIGHT[case]

    assert one.got == content
    assert [receipt.final for receipt in one.receipts] == [True]
    assert (one.final.outcome, one.account) == (outcome, usage)
    assert len(one.exchanges) == 1


@pytest.mark.parametrize("case", RIGHT, ids=lambda case: case.mark)
def test_usage_of_a_faulty_answer_is_priced_and_its_text_is_kept(
    met: dict[FaultCase, CaseResult], case: FaultCase
) -> None:
    one = met[case]
    receipt = one.final
    status = "499" if "left" in one.got else one.got.partition(" ")[0]

    assert (receipt.cost_nanos is None) == (receipt.usage is None)
    assert (receipt.error == "") == (receipt.outcome is Outcome.ANSWERED)
    assert str(receipt.status) == (status if status.isdecimal() else "200")
    assert receipt.streamed == case.streamed
    assert receipt.endpoint == case.endpoint
    assert receipt.duration >= receipt.overhead >= 0


def test_an_estimate_is_what_the_upstream_charged_or_what_was_delivered(
    gateway: GatewayFixture, met: dict[FaultCase, CaseResult]
) -> None:
    for one in met.values():
        if one.account != "estimated" or one.final.usage is None:
            continue
        counted, charged = one.final.usage, one.exchanges[-1].usage
        delivered = len(gateway.lab.vocabulary.ids(one.said))

        assert counted.prompt_tokens > 0, one.case
        assert charged is None or abs(counted.prompt_tokens - charged.prompt_tokens) <= 2, one.case
        assert counted.generated_tokens >= delivered - 3, one.case
        is_abandoned = "left" in one.got or "upstream_timeout" in one.got
        assert ("abandoned: " in "".join(one.final.notes)) == is_abandoned, one.case
        is_part = is_abandoned or any(word in one.got for word in ("cut", "malformed"))
        # Of a JSON body that breaks off, the caller gets nothing and the upstream charges its part.
        is_half = one.case.cue.startswith("death") and not one.case.streamed
        body = bytes(one.exchanges[-1].sent).decode() if is_half else one.said
        received = len(gateway.lab.vocabulary.ids(body))
        assert is_part or counted.generated_tokens <= received + 3, one.case


def test_an_answer_that_is_whole_says_what_the_upstream_said(
    met: dict[FaultCase, CaseResult],
) -> None:
    for one in met.values():
        raw = bytes(one.exchanges[-1].sent)
        if one.case.wire == "openai" and one.got.startswith("answer") and not one.case.streamed:
            assert one.body == raw, one.case


def test_the_first_content_byte_is_timed_and_keep_alives_are_none(
    met: dict[FaultCase, CaseResult],
) -> None:
    for one in met.values():
        receipt = one.final
        is_begun = one.exchanges[-1].usage is not None and receipt.outcome is not Outcome.FAILED
        assert (receipt.ttft is not None) == is_begun, one.case
        if one.case.cue == "keepalives=3":
            assert receipt.ttft is not None
            assert 0.03 <= receipt.ttft <= receipt.duration, one.case


def test_an_upstream_is_left_when_nobody_waits_for_it_any_more(
    met: dict[FaultCase, CaseResult],
) -> None:
    endless = {"hang", "silence", "keepalives", "stall", *LEAVES}

    for one in met.values():
        if one.case.cue in endless:
            assert one.exchanges[-1].hung_up, one.case


def test_the_ledger_holds_each_call_once_and_no_other(
    gateway: GatewayFixture, met: dict[FaultCase, CaseResult]
) -> None:
    every = gateway.all_receipts()

    assert len({receipt.call_id for receipt in every}) == len(every) == len(met)
    assert gateway.gateway.store.ledger.count_calls() == len(met)
