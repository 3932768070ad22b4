"""Answers to similar questions, behind the cache of equal calls."""

import asyncio
import json

import msgspec

from proxy.fast_path.answer_cache.answer_memory import AnswerMemory
from proxy.fast_path.answer_cache.cached_answer import CachedAnswer
from proxy.fast_path.similarity.operating_point import OperatingPoint
from proxy.services.fast_path.answer_cache import AnswerCache
from proxy.services.fast_path.answer_metrics import AnswerMetrics
from proxy.services.fast_path.similar_answer_cache import SimilarAnswerCache
from slo.policies.answer_cache import AnswerCachePolicy
from tests.fakes.call_dependencies import call, route
from tests.fakes.clock import ManualClock
from tests.proxy.fast_path.answer_cache.test_cached_answer import ANSWER

POLICY = AnswerCachePolicy(name="all", feature="chat", ttl=60.0, reusable=True, similar=True)


def body_of(question: str, system: str = "Name the intent.") -> bytes:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
    return json.dumps({"model": "m", "messages": messages}).encode()


def answer_body(text: str) -> bytes:
    message = {"role": "assistant", "content": text}
    return json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()


class SimilarHarness:
    """A cache whose checks are thrown by hand: 0.0 checks each hit, 1.0 none."""

    def __init__(self, policy: AnswerCachePolicy = POLICY, evidence=None) -> None:
        self.clock = ManualClock(1_000.0)
        memory = AnswerMemory(2**22)
        metrics = AnswerMetrics(memory, lambda team: team)
        exact = AnswerCache((policy,), memory, self.clock, metrics)
        self.dice = 1.0
        self.cache = SimilarAnswerCache(exact, lambda: self.dice, evidence)

    def ask(self, question: str, answer: str = "", system: str = "Name the intent.", **fields):
        """Return the cache's answer; where it has none, the call's own answer is kept."""
        return asyncio.run(self._ask(body_of(question, system), answer, fields))

    async def _ask(self, body: bytes, answer: str, fields) -> CachedAnswer | None:
        request = await self._request(body, **fields)
        found = self.cache.find(request) or await self.cache.fetch(request)
        if found is None and answer:
            changes = {
                "team": request.call.key.team,
                "key": request.key,
                "body": answer_body(answer),
                "started": self.clock.now,
                "closing_at": -1,
            }
            await self.cache.keep(request, msgspec.structs.replace(ANSWER, **changes))
        return found

    @property
    def evidence(self):
        return self.cache._evidence_of(asyncio.run(self._request(body_of("x"))))

    async def _request(self, body: bytes, **fields):
        request = await self.cache.read(call(body, **fields), (route(),))
        assert request is not None
        return request

    def prove(self):
        """The evidence of the feature, proved at every score."""
        evidence = self.evidence
        evidence.points = [OperatingPoint(score=-9.0, checked=1_300, wrong=0, bound=0.004)]
        return evidence


def test_nothing_is_served_before_a_proof():
    harness = SimilarHarness()
    harness.ask("how do i freeze my account", "freeze")

    assert harness.ask("how can i freeze my account") is None


def test_similar_question_is_answered_at_a_proved_point_and_says_so():
    harness = SimilarHarness()
    harness.prove()
    harness.ask("how do i freeze my account", "freeze")

    found = harness.ask("how can i freeze my account")

    assert found is not None
    assert found.body == answer_body("freeze")
    assert found.notes[-1] == "answered as a similar question was"


def test_gates_refuse_at_a_proved_point():
    harness = SimilarHarness()
    harness.prove()
    harness.ask("how do i freeze my account", "freeze")

    assert harness.ask("how do i not freeze my account") is None


def test_another_system_text_or_policy_shares_nothing():
    harness, plain = (
        SimilarHarness(),
        SimilarHarness(msgspec.structs.replace(POLICY, similar=False)),
    )
    for each in (harness, plain):
        each.prove()
        each.ask("how do i freeze my account", "freeze")

    assert harness.ask("how can i freeze my account", system="Other.") is None
    assert plain.ask("how can i freeze my account") is None


def test_every_call_before_a_proof_teaches_without_costing_one():
    harness = SimilarHarness()
    harness.ask("how do i freeze my account", "freeze")
    harness.ask("how can i freeze my account", "Freeze.")

    evidence = harness.evidence
    assert evidence.learned == 1
    assert evidence.verifier.weights[0] > 0


def test_checked_hits_go_upstream_and_wrong_ones_end_serving():
    harness = SimilarHarness()
    evidence = harness.prove()
    harness.ask("how do i freeze my account", "freeze")
    harness.dice = 0.0

    assert harness.ask("how can i freeze my account", "block") is None
    assert harness.ask("please, how can i freeze my account", "close") is None

    assert evidence.served_point is None
    assert evidence.stops == 1


def test_expired_answer_is_not_given_to_a_similar_question():
    harness = SimilarHarness()
    harness.prove()
    harness.ask("how do i freeze my account", "freeze")
    harness.clock.now += 61.0

    assert harness.ask("how can i freeze my account") is None


def test_calls_under_way_are_remembered_in_bounded_number():
    harness = SimilarHarness()
    for number in range(2_100):
        asyncio.run(harness.cache.read(call(body_of(f"question {number}")), (route(),)))

    assert len(harness.cache._waiting) == 2_000


def test_gateway_that_starts_with_a_proof_serves_at_once_and_checks_a_third_of_its_first_hits():
    before = SimilarHarness()
    before.prove().drift.checks = 1_000
    harness = SimilarHarness(evidence=asyncio.run(before.cache.copy_evidence()))
    harness.ask("how do i freeze my account", "freeze")

    harness.dice = 0.34
    assert harness.ask("how can i freeze my account") is not None
    harness.dice = 0.33
    assert harness.ask("how can i freeze my account") is None


def test_copied_evidence_stays_as_it_is_while_calls_go_on():
    harness = SimilarHarness()
    harness.ask("how do i freeze my account", "freeze")
    harness.ask("how can i freeze my account", "freeze")
    copied = asyncio.run(harness.cache.copy_evidence())
    harness.ask("how could i freeze my account", "freeze")

    assert [evidence.learned for evidence in copied.values()] == [1]


def test_share_that_a_policy_allows_to_be_wrong_decides_what_is_proved():
    strict, lax = (
        SimilarHarness(msgspec.structs.replace(POLICY, max_wrong=share)) for share in (0.003, 0.01)
    )
    for each in (strict, lax):
        each.prove()
        each.ask("how do i freeze my account", "freeze")

    assert strict.ask("how can i freeze my account") is None
    assert lax.ask("how can i freeze my account") is not None


def wrong_hits_of(harness: SimilarHarness):
    """Those of a feature whose questions got 21 other answers; 0.0 checks each hit."""
    harness.dice = 0.0
    for number in range(21):
        evidence = harness.prove()
        evidence.drift.evidence = 0.0
        harness.ask("how do i freeze my account", "freeze")
        harness.ask(f"how can {'you ' * (number + 1)}freeze my account", f"block {number}")
    return harness.cache.last_wrong(("team_1", "chat"))


def test_last_wrong_hits_are_kept_side_by_side_where_the_policy_shows_them():
    wrong = wrong_hits_of(SimilarHarness(msgspec.structs.replace(POLICY, show_wrong=True)))

    assert len(wrong) == 20
    assert (wrong[0].asked[:11], wrong[0].answer) == ("how can you", "block 20")
    assert wrong[-1].similar_answer in {"freeze", "block 0"}
    assert "freeze my account" in wrong[0].similar


def test_text_of_wrong_hits_is_not_kept_where_the_policy_does_not_show_them():
    wrong = wrong_hits_of(SimilarHarness())

    assert {hit.asked + hit.answer + hit.similar + hit.similar_answer for hit in wrong} == {""}
    assert {hit.checked_at for hit in wrong} == {1_000.0}
