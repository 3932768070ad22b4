"""Calls that another model answers: translated for it, or kept from it, and both are told."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
import pytest

from proxy.calls.eligibility.retry_policy import RetryPolicy
from proxy.calls.metering.settlement import AttemptInfo
from proxy.calls.ports import Admitted, CheaperRoute
from proxy.calls.route_choice import RouteChoice, RoutingDecision, substitute_routes
from proxy.catalog.catalog import Catalog
from proxy.errors import ProxyError
from proxy.providers.port import PreparedRequest
from proxy.records.timeline import Timeline
from tests.fakes.answers import COMPLETION, STREAM, failed_answer, stream
from tests.fakes.call_dependencies import FreeCalls, call, fake_dependencies, serve_call
from tests.fakes.caller import FakeCaller
from tests.fakes.chaos import two_model_catalog
from tests.fakes.clock import run_in_instant_time, ticks
from tests.fakes.hedged_calls import FixedDecision
from tests.fakes.upstream import After, FakeTransport, Piece, ScriptedAnswer

ASKED = b'{"model":"m", "max_tokens":50, "temperature":0.2, "messages":[{"role":"user"}]}'
STREAMED = ASKED.replace(b"{", b'{"stream":true,"stream_options":{"include_usage":true},', 1)
REASONING = frozenset({"max_completion_tokens", "effort", "openai_params"})
SKIPPED = "x-thriftgate-fallback-skipped"


def catalog_with_reasoning_model(**small: Any) -> Catalog:
    """A gateway whose small model is of another kind than the one that is asked for."""
    two_models = two_model_catalog()
    model = two_models.models["small"]
    (there,) = model.routes
    other = replace(model, routes=(replace(there, **{"traits": REASONING, **small}),))
    return replace(two_models, models={**two_models.models, "small": other})


class TooDear(FreeCalls):
    """A ceiling that only another model is below."""

    async def admit(
        self, attempt: AttemptInfo, prepared: PreparedRequest, fits: Callable[[str], bool]
    ) -> Admitted | CheaperRoute:
        if attempt.reroute_reason or not fits("small"):
            return Admitted(prepared)
        return CheaperRoute("small", "ceiling")


class PlayedCall:
    def __init__(self) -> None:
        self.caller = FakeCaller()
        self.error: ProxyError | None = None
        self.sent: list[tuple[str, bytes]] = []

    @property
    def headers(self) -> dict[str, str]:
        assert self.caller.head is not None
        return dict(self.caller.head.headers)


def play(
    *scripts: ScriptedAnswer | Piece,
    body: bytes = ASKED,
    catalog: Catalog | None = None,
    decision: Callable[[tuple[RouteChoice, ...], tuple[RouteChoice, ...]], RoutingDecision]
    | None = None,
    limits: TooDear | None = None,
) -> PlayedCall:
    async def work() -> PlayedCall:
        done, transport, there = (
            PlayedCall(),
            FakeTransport(scripts),
            catalog or catalog_with_reasoning_model(),
        )
        table, _ = fake_dependencies(transport, patience=RetryPolicy(retries=0))
        here = tuple(RouteChoice(candidate, "m") for candidate in there.models["m"].routes)
        table = replace(table, catalog=there, limits=limits)
        if decision is not None:
            small = substitute_routes(there.models["small"], "slow: fallback level 1")
            table = replace(table, router=FixedDecision(decision(here, small)))
        try:
            await serve_call(call(body), done.caller, table, Timeline(ticks))
        except ProxyError as error:
            done.error = error
        done.sent = [(name, prepared.body) for name, prepared in transport.sent]
        return done

    return run_in_instant_time(work())


def limits_and_temperature(body: bytes) -> dict[str, Any]:
    read: dict[str, Any] = orjson.loads(body)
    return {name: read[name] for name in read if name.endswith("tokens") or name == "temperature"}


def is_translated(done: PlayedCall, attempt: int) -> bool:
    """True if an attempt went to the other model in its words, and all before it unmodified."""
    own = [body for name, body in done.sent if name != "small"]
    name, body = done.sent[attempt]
    assert all(body in {ASKED, STREAMED} for body in own)
    return name == "small" and limits_and_temperature(body) == {"max_completion_tokens": 50}


def test_a_fallback_is_translated():
    done = play(failed_answer(503), failed_answer(503), ScriptedAnswer([COMPLETION]))

    assert is_translated(done, 2)
    assert done.caller.head is not None
    assert "sent max_tokens as max_completion_tokens" in done.caller.head.notes


def test_a_ladders_level_is_translated_and_what_was_asked_for_behind_it_is_not():
    done = play(
        failed_answer(503),
        ScriptedAnswer([COMPLETION]),
        decision=lambda here, small: RoutingDecision(choices=(*small, *here), level=1),
    )

    assert is_translated(done, 0)
    assert done.sent[1] == ("one", ASKED)


def test_a_call_rerouted_by_a_ceiling_is_translated():
    done = play(ScriptedAnswer([COMPLETION]), limits=TooDear())

    assert is_translated(done, 0)


def test_a_second_attempt_at_another_model_is_translated():
    done = play(
        stream(After(30.0, STREAM)),
        stream(STREAM),
        body=STREAMED,
        decision=lambda here, small: RoutingDecision(choices=(here[0], *small), deadline=1.0),
    )

    assert is_translated(done, 1)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"n": 2}, "It cannot give several answers (n)."),
        ({"stop": ["END"]}, "It cannot end at stop sequences (stop)."),
        ({"logprobs": True}, "It cannot tell log probabilities (logprobs)."),
        ({"tools": [{}], "tool_choice": "required"}, "It cannot use tools."),
    ],
)
def test_untranslatable_features_rule_a_fallback_out_and_the_error_says_so(fields, why):
    body = orjson.dumps({"model": "m", **fields})
    done = play(failed_answer(503), failed_answer(503), body=body)

    assert [name for name, _ in done.sent] == ["one", "two"]
    assert done.error is not None
    assert done.error.headers[SKIPPED] == f"small: {why}"


def test_the_answer_says_which_models_a_ceiling_could_not_use():
    done = play(ScriptedAnswer([COMPLETION]), body=b'{"model":"m","n":2}', limits=TooDear())

    assert done.headers[SKIPPED] == "small: It cannot give several answers (n)."


def test_the_answer_says_which_models_a_ladder_skipped():
    done = play(
        ScriptedAnswer([COMPLETION]),
        decision=lambda here, _: RoutingDecision(choices=here, skipped={"small": "It cannot."}),
    )

    assert done.headers[SKIPPED] == "small: It cannot."


def test_an_untranslatable_fallback_leaves_the_first_failure():
    upstream = two_model_catalog().models["small"].routes[0].upstream
    claude: dict[str, Any] = {"upstream": replace(upstream, kind="anthropic")}
    body = b'{"model":"m","max_tokens":0,"messages":[{"role":"user","content":"Hi"}]}'
    done = play(
        failed_answer(503),
        failed_answer(503),
        body=body,
        catalog=catalog_with_reasoning_model(**claude),
    )

    assert done.error is not None
    assert done.error.status == 503
    assert done.error.headers[SKIPPED].startswith("small: ")


MESSAGE = (
    b'{"id":"msg_1","type":"message","content":[{"type":"text","text":"Hi"}],'
    b'"stop_reason":"end_turn","usage":{"input_tokens":30,"output_tokens":5}}'
)


@pytest.mark.parametrize("upstream_name", ["", "claude-x-20261001"])
def test_a_fallback_to_claude_names_the_model_that_answered_in_header_and_body(upstream_name):
    upstream = replace(two_model_catalog().models["small"].routes[0].upstream, kind="anthropic")
    claude: dict[str, Any] = {"name": "small/small", "upstream": upstream, "model": upstream_name}
    done = play(
        failed_answer(503),
        failed_answer(503),
        ScriptedAnswer([MESSAGE]),
        catalog=catalog_with_reasoning_model(**claude),
    )

    assert done.caller.head is not None
    assert done.caller.head.model == "small"
    assert orjson.loads(done.caller.body)["model"] == "small"


def test_a_fallback_to_an_openai_model_is_passed_on_byte_for_byte():
    there = catalog_with_reasoning_model(name="small/small", model="theirs")
    done = play(failed_answer(503), failed_answer(503), ScriptedAnswer([COMPLETION]), catalog=there)

    assert done.caller.head is not None
    assert done.caller.head.model == "small"
    assert done.caller.body == COMPLETION
