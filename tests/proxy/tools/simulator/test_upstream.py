"""A simulated provider's state."""

import pytest

from proxy.caches.port import CachedPrompt, TokenBlock
from proxy.tools.simulator.fault_directives import FaultDirectives, parse_directives
from proxy.tools.simulator.models import MODELS, SimulatedModel
from proxy.tools.simulator.rendering import Vocabulary
from proxy.tools.simulator.upstream import SimulatedExchange, Uncached, cache_of
from tests.proxy.tools.simulator.scene import SimulatorHarness

PROMPT = CachedPrompt(blocks=(TokenBlock(role="user", tokens=tuple(range(3000)), message=0),))


def test_a_script_is_played_once_in_order(scene: SimulatorHarness) -> None:
    scene.lab.queue_directives(["429", "", "death,crlf"])

    played = [scene.lab.next_scripted() for _ in range(4)]

    assert played == [
        parse_directives("429"),
        FaultDirectives(),
        parse_directives("death,crlf"),
        FaultDirectives(),
    ]


def test_a_script_with_an_unknown_cue_is_refused_whole(scene: SimulatorHarness) -> None:
    with pytest.raises(ValueError, match="dearth"):
        scene.lab.queue_directives(["429", "dearth"])

    assert scene.lab.next_scripted() == FaultDirectives()


def test_a_models_fault_lasts_until_it_is_cleared(scene: SimulatorHarness) -> None:
    scene.lab.inject_fault("gpt-6.1-sol", "503")

    statuses = [scene.chat(cues=cues).status_code for cues in ("", "", "words=3")]
    other_status = scene.chat(model="gpt-5.5").status_code
    scene.lab.inject_fault("gpt-6.1-sol", "")

    assert (statuses, other_status) == ([503, 503, 503], 200)
    assert scene.chat().status_code == 200


@pytest.mark.parametrize(("model", "cue"), [("gpt-6.1-sol", "dearth"), ("gpt-0", "503")])
def test_fault_for_an_unknown_model_or_cue_is_refused(
    scene: SimulatorHarness, model: str, cue: str
) -> None:
    with pytest.raises(ValueError, match=r"dearth|gpt-0"):
        scene.lab.inject_fault(model, cue)

    assert scene.lab.injected_fault(model) == FaultDirectives()


def test_no_number_is_given_twice(scene: SimulatorHarness) -> None:
    assert len({scene.lab.number() for _ in range(50)}) == 50


def test_remembered_exchanges_are_bounded(vocabulary: Vocabulary) -> None:
    lab = SimulatorHarness(vocabulary, max_records=2).lab
    for number in range(4):
        lab.store(f"resp_{number}", [])
        lab.exchanges.append(
            SimulatedExchange(method="GET", path=str(number), headers={}, body=b"")
        )

    assert list(lab.responses) == ["resp_2", "resp_3"]
    assert [exchange.path for exchange in lab.exchanges] == ["2", "3"]


def test_a_model_has_the_cache_of_its_regime() -> None:
    cache = cache_of(MODELS["vllm-local"])
    cache.serve(PROMPT, 0)
    cache.begin_answer(PROMPT, 0)

    assert cache.serve(PROMPT, 1).read > 2900


def test_a_model_without_a_regime_caches_nothing() -> None:
    cache = cache_of(SimulatedModel(regime=""))

    for now in range(2):
        served = cache.serve(PROMPT, now)
        cache.begin_answer(PROMPT, now)
        cache.finish_answer(PROMPT, (1, 2), now)
        assert (served.read, served.fresh) == (0, 3000)
    assert isinstance(cache, Uncached)


def test_each_model_has_a_cache_of_its_own(scene: SimulatorHarness) -> None:
    assert scene.lab.cache("gpt-6.1-sol") is not scene.lab.cache("gpt-5.6-luna")
    assert scene.lab.cache("gpt-5.5") is scene.lab.cache("gpt-5.5")
