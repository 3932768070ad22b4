"""Sets up the cache of answers to similar questions: its proofs outlive a restart.

Questions and answers are in memory, so a gateway that starts has the proof but must keep questions
anew. A third of its first hits is checked, as after each start of serving.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec

from proxy.app_context import AppContext
from proxy.fast_path.similarity.candidates import MEASURES
from proxy.fast_path.similarity.evidence import SimilarityEvidence
from proxy.fast_path.similarity.operating_point import SCORES
from proxy.services.fast_path.answer_setup import StoredPurges
from proxy.services.fast_path.similar_answer_cache import SimilarAnswerCache
from proxy.services.fast_path.state_files import StateFiles, StateForm, save_repeatedly

#: Changes with what the numbers in the evidence mean.
_FORM: Final = blake2b(repr((MEASURES, SCORES)).encode(), digest_size=8).hexdigest()


def evidence_files(folder: Path) -> StateFiles[SimilarityEvidence]:
    """The files of a gateway's proofs, by team and feature."""
    form = StateForm(
        title="semantic cache",
        tag=_FORM,
        read=msgspec.json.Decoder(SimilarityEvidence).decode,
        version=lambda evidence: (evidence.learned, evidence.stops),
        copy=lambda evidence: evidence,
        pieces=_pieces,
    )
    return StateFiles(folder, form)


def _pieces(evidence: SimilarityEvidence) -> Iterator[bytes]:
    """The JSON of what a feature has learnt, some 60 KB at most."""
    yield msgspec.json.encode(evidence)


@asynccontextmanager
async def running_similar_answers(
    context: AppContext, answers: StoredPurges | None
) -> AsyncIterator[SimilarAnswerCache | None]:
    """Runs the cache of similar answers in front of one of equal calls; None without that."""
    if answers is None:
        yield None
        return
    files = evidence_files(context.settings.folder / "similar_answers")
    cache = SimilarAnswerCache(answers.cache, evidence=files.load())
    saving = context.tasks.keep(partial(save_repeatedly, files, cache.copy_evidence))
    try:
        yield cache
    finally:
        context.tasks.end(saving)
        await files.save(await cache.copy_evidence())
