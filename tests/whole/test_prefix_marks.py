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
def here(tmp_path: Path) -> Iterator[PrefixHarness]:
    with prefix_harness(tmp_path) as made:
        yield made


def body(regime: str, said: str = "So?", rules: str = RULES, **fields: Any) -> dict[str, Any]:
    part = {"type": "text", "text": rules, **fields.pop("mark", {})}
    messages = [{"role": "system", "content": [part]}, {"role": "user", "content": said}]
    return {"model": MODELS[regime], "messages": messages, **fields}


def key_of(here: PrefixHarness, team: str) -> str:
    """A key of another team."""
    made = here.gateway.store.teams.create(team, now=START)
    return here.gateway.store.teams.create_key(made.id, "first", now=START)[1]


def asked(here: PrefixHarness, sent: dict[str, Any], key: str = "") -> tuple[Usage, httpx.Response]:
    """What the simulator charged for a call, and its answer."""
    here.clock.past += 30.0
    answer = here.client.post(
        f"{here.url}/chat/completions",
        content=orjson.dumps(sent),
        headers={
            "authorization": f"Bearer {key or here.key}",
            "content-type": "application/json",
            "x-thriftgate-feature": "here",
        },
    )
    assert answer.status_code == 200, answer.text
    charged = here.lab.exchanges[-1].usage
    assert charged is not None
    return charged, answer


def received(here: PrefixHarness) -> Any:
    """The body that the simulator got last."""
    return orjson.loads(here.lab.exchanges[-1].body)


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("mark", [MARK, HOUR])
def test_a_prefix_that_the_caller_marked_is_read_by_the_next_call(
    here: PrefixHarness, regime: str, mark: dict[str, str]
):
    marked = {"cache_control": mark}
    first, _ = asked(here, body(regime, mark=marked))
    same, _ = asked(here, body(regime, mark=marked))
    other, _ = asked(here, body(regime, question("two"), mark=marked))

    assert first.cache_read == 0
    assert same.cache_read > 0.9 * same.prompt_tokens
    assert other.cache_read > 0.9 * (other.prompt_tokens - 60)


@pytest.mark.parametrize("regime", REGIMES)
def test_a_prefix_marked_in_openais_form_is_read_on_every_route(here: PrefixHarness, regime: str):
    marked = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    asked(here, body(regime, mark=marked))
    other, _ = asked(here, body(regime, question("two"), mark=marked))

    assert other.cache_read > 0.9 * (other.prompt_tokens - 60)


def test_a_marker_keeps_its_lifetime_where_it_is_sold_and_is_never_dearer(here: PrefixHarness):
    hour, _ = asked(here, body("anthropic-breakpoint", mark={"cache_control": HOUR}))
    half, answer = asked(here, body("openai-breakpoint", mark={"cache_control": HOUR}))

    assert hour.write_1h > 1_000
    assert (half.write_12h, half.write_30m > 1_000) == (0, True)
    assert "breakpoints" in answer.headers["x-thriftgate-notes"]


def test_a_marker_that_a_model_would_refuse_is_taken_off_and_that_is_said(here: PrefixHarness):
    mark = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    sent = body("openai-interval", mark=mark, prompt_cache_options={"mode": "explicit"})
    _, answer = asked(here, sent)

    assert "dropped 1 cache markers" in answer.headers["x-thriftgate-notes"]
    assert received(here) == body("openai-interval")


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
    here: PrefixHarness, regime: str, fields: dict[str, Any], mode: PlanningMode
):
    here.plan("here", mode)
    other = key_of(here, "rival")
    sent = body(regime, mark={"cache_control": MARK}, **fields)
    mine = [asked(here, sent)[0].cache_read for _ in range(2)]
    theirs = [asked(here, sent, other)[0].cache_read for _ in range(2)]
    again = asked(here, sent)[0].cache_read

    assert mine[0] == theirs[0] == 0
    assert mine[1] == theirs[1] == again > 1_000


def test_a_prompt_too_short_to_plan_is_kept_apart_too(here: PrefixHarness):
    other = key_of(here, "rival")
    sent = body("block-chain", rules=SHORT)
    asked(here, sent)
    mine, theirs = asked(here, sent)[0], asked(here, sent, other)[0]

    assert (mine.cache_read > 0, theirs.cache_read) == (True, 0)


@pytest.mark.parametrize("regime", REGIMES)
def test_a_team_alone_sends_what_it_sent(here: PrefixHarness, regime: str):
    sent = body(regime, prompt_cache_key="mine", cache_salt="mine")
    asked(here, sent)

    if regime != "anthropic-breakpoint":
        assert received(here) == sent
