"""One variant's upstream through time."""

from dataclasses import replace

import msgspec
import pytest

from proxy.caches import longest_prefix, prefix_unit
from proxy.tools.replay.upstream_simulation import SimulatedCall, UpstreamSimulation
from proxy.tools.simulator.models import SimulatedModel
from tests.proxy.tools.replay.scene import RULES, assistant, body, prompt_reader, system, user

BLOCKS = SimulatedModel(regime="block-chain", provider="mistral")
UNITS = SimulatedModel(regime="prefix-unit")
IMPLICIT = SimulatedModel(regime="implicit", min_cache_tokens=64)
MARKS = SimulatedModel(regime="anthropic-breakpoint", min_cache_tokens=64)
RULED = system(*RULES)


class SimulatedUpstream:
    def __init__(self, vocabulary, model: SimulatedModel) -> None:
        self.world = UpstreamSimulation(model)
        self._reading = prompt_reader("blocks", vocabulary)
        self._vocabulary = vocabulary

    def simulated_call(
        self, *messages, answer: str = "Yes", conversation: str = "", **fields
    ) -> SimulatedCall:
        keyed = {"prompt_cache_key": "one", **fields}  # Mistral caches nothing without
        prompt = self._reading.read_prompt(body(*messages, **keyed), 0.0)
        generated = self._vocabulary.ids(answer)
        return SimulatedCall(
            prompt=prompt, generated=generated, length=len(generated), conversation=conversation
        )

    def read(self, call: SimulatedCall, now: float) -> int:
        return self.world.serve(call, now).read


def test_a_prompt_can_be_read_once_its_answer_has_begun(vocabulary):
    upstream = SimulatedUpstream(vocabulary, BLOCKS)
    one, two = (
        upstream.simulated_call(RULED, user("One")),
        upstream.simulated_call(RULED, user("Two")),
    )

    assert upstream.read(one, 0.0) == 0
    assert upstream.read(two, 0.1) == 0
    assert upstream.read(two, 5.0) > 64


def test_an_answer_is_stored_when_it_has_ended(vocabulary):
    upstream = SimulatedUpstream(vocabulary, UNITS)
    answer = "A rather long answer, for once. " * 40
    upstream.read(upstream.simulated_call(RULED, user("One"), answer=answer), 0.0)
    after = upstream.simulated_call(RULED, user("One"), assistant(answer), user("Two"))

    alone = upstream.simulated_call(RULED, user("One")).prompt.tokens
    assert upstream.read(after, 60.0) > alone


def test_a_call_that_goes_on_shows_that_the_answer_had_come(vocabulary):
    def read(conversation: str) -> int:
        upstream = SimulatedUpstream(vocabulary, BLOCKS)
        first = upstream.simulated_call(RULED, user("One"), conversation=conversation)
        then = upstream.simulated_call(
            RULED, user("One"), assistant("Yes"), user("Two"), conversation=conversation
        )
        upstream.read(first, 0.0)
        return upstream.read(then, 0.0)

    assert read("c") > 64
    assert read("") == 0


@pytest.mark.parametrize("conversation", ["c", ""])
@pytest.mark.parametrize("model", [IMPLICIT, UNITS])
def test_an_answer_that_was_over_before_the_next_call_was_over_in_its_own_time(
    vocabulary, model, conversation
):
    def read(now: float) -> int:
        upstream = SimulatedUpstream(vocabulary, model)
        messages = [RULED, user("One"), assistant("Yes"), user("Two")]
        upstream.read(upstream.simulated_call(*messages[:2], conversation=conversation), 0.0)
        return upstream.read(upstream.simulated_call(*messages, conversation=conversation), now)

    rules = prefix_unit.DEEPSEEK if model is UNITS else longest_prefix.provider_rules("")
    lifetime = rules.lifetime

    assert read(60.0) > 64
    assert read(lifetime - 30.0) > 64
    assert read(lifetime + 30.0) == 0


def test_calls_side_by_side_in_a_conversation_do_not_end_each_other(vocabulary):
    upstream = SimulatedUpstream(vocabulary, BLOCKS)

    assert upstream.read(upstream.simulated_call(RULED, user("One"), conversation="c"), 0.0) == 0
    assert upstream.read(upstream.simulated_call(RULED, user("One"), conversation="c"), 0.0) == 0


def test_answers_under_way_are_bounded(vocabulary):
    upstream = SimulatedUpstream(vocabulary, BLOCKS)
    upstream.world = UpstreamSimulation(BLOCKS, room=1_000)

    for number in range(50):
        upstream.read(
            upstream.simulated_call(RULED, user(f"{number}"), conversation=f"{number}"), 0.0
        )

    assert upstream.world._held <= 1_000
    assert len(upstream.world._open) < 10


def test_answers_that_a_call_showed_to_be_over_are_bounded_too(vocabulary):
    upstream = SimulatedUpstream(vocabulary, BLOCKS)
    upstream.world = UpstreamSimulation(BLOCKS, room=5_000)
    messages = [RULED, user("One")]

    for _ in range(50):
        upstream.read(upstream.simulated_call(*messages, conversation="c"), 0.0)
        messages += [assistant("Yes"), user("More")]

    assert upstream.world._held <= 5_000
    assert len(upstream.world._due) < 50


def test_a_refusal_is_told(vocabulary):
    upstream = SimulatedUpstream(vocabulary, MARKS)
    simulated = upstream.simulated_call(user("x"))
    first, *rest = simulated.prompt.blocks
    prompt = replace(simulated.prompt, blocks=(replace(first, mark="12h"), *rest))

    with pytest.raises(ValueError, match="ttl"):
        upstream.read(msgspec.structs.replace(simulated, prompt=prompt), 0.0)
