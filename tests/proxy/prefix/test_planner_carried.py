"""Calls whose beginning is known are planned as those that are read anew, whatever was edited."""

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.prefix.planned import Planned, PlanningRequest, PlanningTarget
from proxy.prefix.planner import Planner
from proxy.records.body_reader import BodyReader
from slo.usage import Usage
from tests.bench.planning import way

TEXT = "A sentence of some length that says little.\n" * 60
_TEXTS = st.sampled_from(["yes", TEXT, f"{TEXT}more", 'a "quoted" word \u00e9'])
_PARTS = st.fixed_dictionaries({"type": st.just("text"), "text": _TEXTS})
_MESSAGES = st.lists(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["user", "assistant", "user", "system"]),
            "content": _TEXTS | st.lists(_PARTS, min_size=1, max_size=2),
        }
    ),
    max_size=4,
)
_EDITS = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 2), _MESSAGES), max_size=5)
_CACHES = ["anthropic-breakpoint", "openai-breakpoint", "block-chain"]


def conversation() -> list[dict[str, Any]]:
    return [
        {"role": "system", "content": TEXT},
        *({"role": role, "content": f"{role} {TEXT}"} for role in ("user", "assistant") * 2),
    ]


def plan_and_settle(
    planner: Planner, body: bytes, reader: BodyReader | None, to: PlanningTarget, now: float
) -> Planned:
    """The call, planned and settled; its body read with what ``reader`` knows."""
    split = reader.read("team", body)[1] if reader is not None else None
    request = PlanningRequest(team="team", feature="f", key="k", body=body, split=split)
    draft = planner.read_call(request)
    plan = planner.known_plan(draft) or planner.begin_plan(draft, 0)
    planned = planner.plan_call(draft, to, plan, None, now)
    planner.adopt_plan(draft, planned.plan)
    tokens = len(planned.body) // 4
    planner.settle_call(planned, Usage(input=tokens // 10, cache_read=tokens - tokens // 10))
    return planned


@pytest.mark.parametrize("cache", _CACHES)
@given(edits=_EDITS)
@settings(max_examples=25)
def test_a_carried_call_is_planned_as_a_fresh_one_after_any_edit(cache, edits):
    carrying, reading = (Planner(b"secret", share=0.0) for _ in range(2))
    reader, messages, to = BodyReader(), conversation(), way(cache)
    for index, (place, left_out, more) in enumerate([(9, 0, []), *edits]):
        messages = [*messages[:place], *more, *messages[place + left_out :]]
        messages.append({"role": "user", "content": f"question {index}"})
        body = orjson.dumps({"model": "m", "messages": messages, "stream": True})
        carried = plan_and_settle(carrying, body, reader, to, 1e6 + index)
        fresh = plan_and_settle(reading, body, None, to, 1e6 + index)

        assert carried.body == fresh.body
        assert carried.evidence.expected == fresh.evidence.expected
        assert carried.evidence.sent == fresh.evidence.sent
        assert (carried.direct, carried.trial) == (fresh.direct, fresh.trial)
        assert carried.draft.conversation == fresh.draft.conversation
