"""The caller's own marks and keys through a gateway, on a route of every kind of cache."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from proxy.records.feature_mode import PlanningMode
from slo.usage import Usage
from tests.fakes.handbook import handbook, question
from tests.fakes.prefix_harness import MODELS, START, PrefixHarness, prefix_harness

REGIMES = sorted(MODELS)
RULES = handbook(40, "rules")
MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
#: Requests a few words long, which planning leaves alone.
SHORT = "Answer in one word and in lower case, and never say why unless you are asked to. " * 4


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[PrefixHarness]:
    with prefix_harness(tmp_path) as running:
        yield running


def body(regime: str, user_text: str = "So?", rules: str = RULES, **fields: Any) -> dict[str, Any]:
    part = {"type": "text", "text": rules, **fields.pop("mark", {})}
    messages = [{"role": "system", "content": [part]}, {"role": "user", "content": user_text}]
    return {"model": MODELS[regime], "messages": messages, **fields}


def key_of(harness: PrefixHarness, team: str) -> str:
    """A key of another team."""
    created = harness.gateway.store.teams.create(team, now=START)
    return harness.gateway.store.teams.create_key(created.id, "first", now=START)[1]


def usage_and_answer(
    harness: PrefixHarness, request_body: dict[str, Any], key: str = ""
) -> tuple[Usage, httpx.Response]:
    """Return what the simulator charged for a call, and its answer."""
    harness.clock.past += 30.0
    answer = harness.client.post(
        f"{harness.url}/chat/completions",
        content=orjson.dumps(request_body),
        headers={
            "authorization": f"Bearer {key or harness.key}",
            "content-type": "application/json",
            "x-thriftgate-feature": "here",
        },
    )
    assert answer.status_code == 200, answer.text
    charged = harness.lab.exchanges[-1].usage
    assert charged is not None
    return charged, answer


def last_body(harness: PrefixHarness) -> Any:
    """The body that the simulator got last."""
    return orjson.loads(harness.lab.exchanges[-1].body)


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("mark", [MARK, HOUR])
def test_a_prefix_that_the_caller_marked_is_read_by_the_next_call(
    harness: PrefixHarness, regime: str, mark: dict[str, str]
):
    marked = {"cache_control": mark}
    first, _ = usage_and_answer(harness, body(regime, mark=marked))
    same, _ = usage_and_answer(harness, body(regime, mark=marked))
    other, _ = usage_and_answer(harness, body(regime, question("two"), mark=marked))

    assert first.cache_read == 0
    assert same.cache_read > 0.9 * same.prompt_tokens
    assert other.cache_read > 0.9 * (other.prompt_tokens - 60)


@pytest.mark.parametrize("regime", REGIMES)
def test_a_prefix_marked_in_openais_form_is_read_on_every_route(
    harness: PrefixHarness, regime: str
):
    marked = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    usage_and_answer(harness, body(regime, mark=marked))
    other, _ = usage_and_answer(harness, body(regime, question("two"), mark=marked))

    assert other.cache_read > 0.9 * (other.prompt_tokens - 60)


def test_a_marker_keeps_its_lifetime_where_it_is_sold_and_is_never_dearer(harness: PrefixHarness):
    hour, _ = usage_and_answer(harness, body("anthropic-breakpoint", mark={"cache_control": HOUR}))
    half, answer = usage_and_answer(
        harness, body("openai-breakpoint", mark={"cache_control": HOUR})
    )

    assert hour.write_1h > 1_000
    assert (half.write_12h, half.write_30m > 1_000) == (0, True)
    assert "breakpoints" in answer.headers["x-thriftgate-notes"]


def test_a_marker_that_a_model_would_refuse_is_taken_off_and_that_is_said(harness: PrefixHarness):
    mark = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    request_body = body("openai-interval", mark=mark, prompt_cache_options={"mode": "explicit"})
    _, answer = usage_and_answer(harness, request_body)

    assert "dropped 1 cache markers" in answer.headers["x-thriftgate-notes"]
    assert last_body(harness) == body("openai-interval")


@pytest.mark.parametrize("mode", [PlanningMode.OFF, PlanningMode.OBSERVE])
@pytest.mark.parametrize(
    ("regime", "fields"),
    [
        ("openai-breakpoint", {}),
        ("openai-breakpoint", {"prompt_cache_key": "theirs"}),
        ("block-chain", {}),
        ("block-chain", {"cache_salt": "theirs"}),
    ],
)
def test_no_team_reads_or_warms_another_teams_cache(
    harness: PrefixHarness, regime: str, fields: dict[str, Any], mode: PlanningMode
):
    harness.plan("here", mode)
    other = key_of(harness, "rival")
    request_body = body(regime, mark={"cache_control": MARK}, **fields)
    mine = [usage_and_answer(harness, request_body)[0].cache_read for _ in range(2)]
    theirs = [usage_and_answer(harness, request_body, other)[0].cache_read for _ in range(2)]
    again = usage_and_answer(harness, request_body)[0].cache_read

    assert mine[0] == theirs[0] == 0
    assert mine[1] == theirs[1] == again > 1_000


def test_a_prompt_too_short_to_plan_is_kept_apart_too(harness: PrefixHarness):
    other = key_of(harness, "rival")
    request_body = body("block-chain", rules=SHORT)
    usage_and_answer(harness, request_body)
    mine, theirs = (
        usage_and_answer(harness, request_body)[0],
        usage_and_answer(harness, request_body, other)[0],
    )

    assert (mine.cache_read > 0, theirs.cache_read) == (True, 0)


@pytest.mark.parametrize("regime", REGIMES)
def test_a_team_alone_sends_what_it_sent(harness: PrefixHarness, regime: str):
    request_body = body(regime, prompt_cache_key="mine", cache_salt="mine")
    usage_and_answer(harness, request_body)

    if regime != "anthropic-breakpoint":
        assert last_body(harness) == request_body
