"""The proof of a feature outlives a restart."""

import asyncio
import json
from pathlib import Path

import pytest

from proxy.fast_path.similarity.evidence import SimilarityEvidence, no_evidence
from proxy.fast_path.similarity.operating_point import OperatingPoint
from proxy.services.fast_path.answer_setup import running_answers
from proxy.services.fast_path.similarity_setup import evidence_files, running_similar_answers
from proxy.settings import Settings
from proxy.store.store import Store
from tests.fakes.app_context import AppContextCalls, fake_app_context

KEY = ("team_1", "faq")


def proved_evidence() -> SimilarityEvidence:
    evidence = no_evidence()
    evidence.points[0] = OperatingPoint(evidence.points[0].score, 1_300, 0, 0.004)
    evidence.verifier.answers["digest"] = (0.5, 0.25)
    evidence.learned = 2_500
    return evidence


def run_gateway(folder: Path, policies: str | None, evidence: SimilarityEvidence | None = None):
    """Start and stop the similar answers of a gateway; return what they knew at the start."""
    path = folder / "policies.toml"
    path.write_text(policies or "", encoding="utf8")
    settings = Settings(folder=folder, policies=None if policies is None else path)
    store = Store.open(f"sqlite:///{folder / 'thriftgate.db'}", folder / "journal")
    context = fake_app_context(settings, store, AppContextCalls())

    async def run():
        async with (
            running_answers(context) as answers,
            running_similar_answers(context, answers) as cache,
        ):
            if cache is None:
                return None
            known = await cache.copy_evidence()
            if evidence is not None:
                cache._evidence[KEY] = evidence
            return known

    try:
        return asyncio.run(run())
    finally:
        store.close(1)


def test_proof_is_known_after_a_restart(tmp_path):
    assert run_gateway(tmp_path, "", proved_evidence()) == {}

    assert run_gateway(tmp_path, "") == {KEY: proved_evidence()}


def test_without_a_policies_file_there_are_no_similar_answers(tmp_path):
    assert run_gateway(tmp_path, None) is None


@pytest.mark.parametrize("change", [{"form": "old"}, {"state": {"promise": 0.005}}])
def test_evidence_of_another_version_is_learnt_anew(tmp_path, change):
    asyncio.run(evidence_files(tmp_path).save({KEY: proved_evidence()}))
    path = next(tmp_path.iterdir())
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **change}), encoding="utf8")

    assert evidence_files(tmp_path).load() == {}


def test_evidence_is_small_on_disk(tmp_path):
    evidence = proved_evidence()
    for number in range(1_100):
        evidence.verifier.learn((0.1,) * 21, f"{number:032}", was_right=True)
    asyncio.run(evidence_files(tmp_path).save({KEY: evidence}))

    assert next(tmp_path.iterdir()).stat().st_size < 100_000
