"""Reasons of misses on GPT-5.4, judged by what the second accounting says would have been read."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson
import pytest

from proxy.calls.eligibility.eligibility import planning_request
from proxy.calls.eligibility.route_target import route_target
from proxy.calls.translation.translation import prepare
from proxy.prefix.explain.reasons import MissReason
from proxy.prefix.planner import Planner
from proxy.tools.replay.planning import recorded_as_call
from proxy.tools.replay.prompts import PromptReader
from proxy.tools.replay.recorded_call import RecordedCall
from proxy.tools.simulator.rendering import Vocabulary
from slo.usage import Usage
from tests.accounting import breakpoints
from tests.accounting.accounts import AccountedCall
from tests.accounting.rules import RULES
from tests.accounting.test_agreement import fixed_cache
from tests.accounting.wire import chat_prompt
from tests.bench import no_harm_routes
from tests.fakes.call_dependencies import call as chat_call
from tests.fakes.handbook import handbook
from tests.fakes.messages import said

_START: Final = 1_790_000_000.0
_LEAST_ROWS: Final = 36


class _Call(NamedTuple):
    """A call of a feature, so many seconds after the start."""

    at: float
    feature: str
    body: dict[str, Any]


def _calls() -> Iterator[_Call]:
    """Features of which each loses its reads for another reason."""
    rules, short = handbook(40, "rules"), handbook(6, "short")
    for n in range(10):
        clock = f"It is 10:{n:02} on a Monday.\n"
        yield _chat(60.0 * n, "clock", clock + handbook(40, "clock"), n)
        yield _chat(2_000.0 * n, "pauses", rules, n)
        brief = {"prompt_cache_retention": "in_memory"}
        yield _chat(700.0 * n, "in memory", handbook(40, "memory"), n, **brief)
        yield _chat(60.0 * n, "short", short, n)
        effort = {"reasoning_effort": ("low", "high")[n % 2]} if n < 3 else {}
        yield _chat(400.0 + n, "effort", handbook(40, "effort"), n, **effort)
        key = {"prompt_cache_key": f"k{n // 3}"}
        yield _chat(100.0 + n, "keys", handbook(40, "keys"), n, **key)
        late = handbook(20, "late") + f"\nTicket {n}.\n" + handbook(20, "behind")
        yield _chat(20.0 * n, "late", late, n)
        own = "\n".join(f"Line {n}-{index} of this ticket." for index in range(120))
        yield _chat(30.0 * n, "between", handbook(17, "between") + own, n)
    for n in range(34):
        yield _chat(2_000.0 + 2.0 * n, "burst", handbook(40, "burst"), n)


def _chat(index: float, feature: str, system: str, number: int, **fields: object) -> _Call:
    messages = [said("system", system), said("user", f"Question {number} of {feature}?")]
    return _Call(index, feature, {"model": "gpt-5.4", "messages": messages, **fields})


class _WideIntervals(breakpoints.Intervals):
    """The same cache, had a machine room for any number of calls."""

    calls_a_minute = 10**6


def _reads(calls: Sequence[AccountedCall], cache: breakpoints.Intervals) -> list[int]:
    """Tokens that each call reads; none is under way when the next is sent."""
    reads = []
    for call in calls:
        reads.append(cache.send(call.prompt, call.sent)[0])
        cache.begin(call.prompt, call.began)
    return reads


def _true_reasons(calls: Sequence[AccountedCall], features: Sequence[str]) -> list[MissReason]:
    """The rule without which each call would have read more; else its text is the reason."""
    rules = RULES["openai-interval-24h"]
    immortal = replace(rules, lifetime=1e9, longest=1e9)
    unkeyed = [call._replace(prompt=call.prompt._replace(key="")) for call in calls]
    unretained = [call._replace(prompt=call.prompt._replace(retention="")) for call in calls]
    unscoped = [call._replace(prompt=call.prompt._replace(scope="")) for call in calls]
    reads = _reads(calls, breakpoints.Intervals(rules))
    without = (
        (MissReason.EXPIRED, _reads(unretained, breakpoints.Intervals(immortal))),
        (MissReason.ELSEWHERE, _reads(calls, _WideIntervals(rules))),
        (MissReason.ELSEWHERE, _reads(unkeyed, breakpoints.Intervals(rules))),
        (MissReason.PARAMETER_CHANGED, _reads(unscoped, breakpoints.Intervals(rules))),
    )
    reasons = []
    for index, read in enumerate(reads):
        by_rule = (reason for reason, others in without if others[index] > read)
        reasons.append(next(by_rule, _reason_in_text(calls, features, index)))
    return reasons


def _reason_in_text(
    calls: Sequence[AccountedCall], features: Sequence[str], index: int
) -> MissReason:
    size = len(calls[index].prompt.tokens)
    if size < RULES["openai-interval-24h"].min_tokens:
        return MissReason.BELOW_MINIMUM
    is_first = features[index] not in features[:index]
    return MissReason.FIRST_SEEN if is_first else MissReason.DIVERGED


def _bodies_of_growing_message() -> Iterator[dict[str, Any]]:
    """Calls whose one message grows at its end."""
    words = handbook(60, "growing")
    for number in range(6):
        words += f"\n\nStep {number}.\n" + handbook(6, f"step {number}")
        yield {"model": "gpt-6.1-sol", "messages": [said("user", words)]}


def test_extended_message_is_expected_to_be_read_as_the_second_accounting_reads_it(
    tmp_path: Path,
) -> None:
    catalog, _ = no_harm_routes.catalog(tmp_path)
    model = catalog.models["gpt-6.1-sol"]
    reader = PromptReader(model, model.routes[0], Vocabulary())
    planner, target = Planner(b"misses", share=0.0), route_target(reader.route, "", _START)
    cache = breakpoints.ExactBreakpoints(RULES["openai-breakpoint"])
    reads, expected, reasons = [], [], []
    for number, body in enumerate(_bodies_of_growing_message()):
        now = _START + 20.0 * number
        line = RecordedCall(
            at=0.0, conversation="", key="key", feature="f", body=orjson.dumps(body), reply=b""
        )
        draft = planner.read_call(planning_request(recorded_as_call(line, now)))
        plan = planner.known_plan(draft) or planner.begin_plan(draft, 0)
        planned = planner.plan_call(draft, target, plan, None, now)
        planner.adopt_plan(draft, planned.plan)
        wire = orjson.loads(prepare(chat_call(planned.body), reader.route).body)
        prompt = chat_prompt(wire)
        read, written = cache.send(prompt, now)
        cache.begin(prompt, now)
        size = len(prompt.tokens)
        bill = {f"write_{ttl}": tokens for ttl, tokens in written.items()}
        usage = Usage(input=size - read - sum(written.values()), cache_read=read, **bill)
        reads.append(read)
        expected.append(planned.evidence.expected.rescale(size).tokens)
        miss = planner.settle_call(planned, usage)
        reasons.append(miss and (miss.reason, miss.detail))

    assert reads[1] == 0
    assert reads[-1] > 0
    assert expected == pytest.approx(reads, rel=0.03)
    assert reasons[1] == (
        MissReason.UNMARKED,
        "nothing was stored beyond 0 tokens, and what is repeated ends within a message",
    )
    assert MissReason.PROVIDER_SIDE not in {reason and reason[0] for reason in reasons}


def test_misses_on_gpt_5_4_name_the_reason_of_the_second_accounting(tmp_path: Path) -> None:
    catalog, _ = no_harm_routes.catalog(tmp_path)
    model = catalog.models["gpt-5.4"]
    reader = PromptReader(model, model.routes[0], Vocabulary())
    cache, planner = fixed_cache(reader.simulated), Planner(b"misses", share=0.0)
    target = route_target(reader.route, reader.public, _START)
    calls, accounted, named = sorted(_calls(), key=lambda call: call.at), [], []
    for call in calls:
        body, now = orjson.dumps(call.body), _START + call.at
        line = RecordedCall(
            at=call.at, conversation="", key="key", feature=call.feature, body=body, reply=b""
        )
        request = planning_request(recorded_as_call(line, now))
        draft = planner.read_call(request)
        plan = planner.known_plan(draft) or planner.begin_plan(draft, 0)
        planned = planner.plan_call(draft, target, plan, None, now)
        planner.adopt_plan(draft, planned.plan)
        wire = orjson.loads(prepare(chat_call(planned.body), reader.route).body)
        accounted.append(AccountedCall(chat_prompt(wire), now, now + 0.5, now + 0.6))
        prompt = reader.read_prompt(planned.body, now)
        served = cache.serve(prompt, now)
        cache.begin_answer(prompt, now + 0.5)
        usage = Usage(input=served.fresh, cache_read=served.read)
        named.append(planner.settle_call(planned, usage))
    rows = [
        (call.feature, index, miss.reason, reason, miss.detail)
        for index, (call, miss, reason) in enumerate(
            zip(calls, named, _true_reasons(accounted, [c.feature for c in calls]), strict=True)
        )
        if miss is not None
    ]
    wrong = [row for row in rows if row[2] != row[3]]

    assert len(rows) >= _LEAST_ROWS
    assert not wrong
