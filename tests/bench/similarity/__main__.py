# ruff: noqa: T201 - a script prints its result
"""Hits and wrong hits of the semantic cache beside bare cosines of the same vectors.

Learns on one half of a set's questions and shows the other half; a hit is right when the served
answer's intent is the question's. ``learning on`` checks a tenth of its hits in the second half
and goes on learning there, as a gateway does; ``proved`` learns nothing there. ``perfect labels``
serves wherever a neighbour passes the gates and is right. Then: hard negatives, of which none may
pass the gates; paraphrases, of which many should; runs that prove what is not so; drifts, and the
hits until they stop serving.

Usage: python -m tests.bench.similarity FOLDER [--seeds 10] [--only NAME] [--max-wrong 0.005]
[--negatives 100000]
FOLDER has ``clinc/data_full.json``, ``banking/train.csv``, ``banking/test.csv`` and
``mock_data.json``; what is absent is left out. NAME.npy beside them holds embeddings by row.
"""

import argparse
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from proxy.fast_path.similarity.gates import refusing_gate
from proxy.fast_path.similarity.operating_point import DriftTest, OperatingPoint
from proxy.fast_path.similarity.questions import read_question
from proxy.fast_path.similarity.vectors import ngram_vector
from tests.bench.similarity.hard_negatives import hard_negatives
from tests.bench.similarity.question_sets import (
    AskedQuestion,
    banking77,
    clinc150,
    paraphrases,
)
from tests.bench.similarity.trials import Trial, TrialResult

_SETS: Final[dict[str, Callable[[Path], list[AskedQuestion]]]] = {
    "banking": banking77,
    "clinc": clinc150,
}
_COSINES: Final = (0.8, 0.9, 0.95)
_PROMISE: Final = 0.005
#: Hard negatives made of paraphrases.
_PARAPHRASED: Final = 8_000


def main() -> None:
    """Prints all tables for which there is data."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", default="")
    parser.add_argument("--max-wrong", type=float, default=0.005)
    parser.add_argument("--negatives", type=int, default=100_000)
    options = parser.parse_args()
    found: dict[str, list[AskedQuestion]] = {}
    for name, read in _SETS.items():
        if (options.folder / name).is_dir():
            found[name] = read(options.folder / name)
        else:
            print(f"{name}: skipped, {options.folder / name} is absent")
    for name, questions in found.items():
        if options.only in {"", name}:
            _print_trial(options, name, questions)
    pairs = _pairs(options.folder)
    if options.only in {"", "negatives"}:
        sentences = [(q.text, q.text) for rows in found.values() for q in rows]
        _print_negatives(sentences + [(one, one) for one, _ in pairs], options.negatives)
        _print_negatives(pairs, _PARAPHRASED)
        _print_paraphrases(pairs)
    if options.only in {"", "proofs"}:
        _print_false_proofs()
    if options.only in {"", "drift"}:
        _print_drifts()


def _pairs(folder: Path) -> list[tuple[str, str]]:
    """The paraphrases, if they are there."""
    if (folder / "mock_data.json").exists():
        return paraphrases(folder)
    print(f"paraphrases: skipped, {folder / 'mock_data.json'} is absent")
    return []


def _print_trial(
    options: argparse.Namespace, name: str, questions: Sequence[AskedQuestion]
) -> None:
    """One table a kind of vectors: hits and wrong ones of each rule, over all seeds."""
    kinds: dict[str, Any] = {"hashed n-grams": None}
    folder, seeds = options.folder, options.seeds
    if (folder / f"{name}.npy").exists():
        import numpy as np  # noqa: PLC0415 # only with embeddings

        kinds["embeddings"] = list(np.load(folder / f"{name}.npy"))
    for kind, vectors in kinds.items():
        trial = Trial(questions, vectors, options.max_wrong)
        rows: dict[str, list[TrialResult]] = defaultdict(list)
        for seed in range(seeds):
            for served in trial.run(seed):
                rows[served.rule].append(served)
                print(f"    {name} {seed} {served}", flush=True)
        print(f"\n{name}, {kind}, {len(questions)} questions, {seeds} orders")
        for rule, all_served in rows.items():
            print(f"  {rule:22} {_summary(all_served)}", flush=True)


def _summary(rows: Sequence[TrialResult]) -> str:
    """Share of hits and of wrong ones over all runs, and the extremes."""
    hits, wrong = sum(row.hits for row in rows), sum(row.wrong for row in rows)
    shares = [row.wrong / row.hits for row in rows if row.hits]
    return (
        f"hits {hits / sum(row.asked for row in rows):6.1%}"
        f" (least {min(row.hits / row.asked for row in rows):.1%})"
        f"  wrong of hits {wrong / max(hits, 1):.2%}"
        f" (most {max(shares, default=0.0):.2%}),"
        f" over 0.5 % in {sum(share > 0.005 for share in shares)} of {len(rows)},"
        f" none served in {sum(not row.hits for row in rows)}"
    )


def _print_negatives(sentences: Sequence[tuple[str, str]], count: int) -> None:
    """Print the number of hard negatives that pass the gates, and bare cosines, by kind."""
    made: Counter[str] = Counter()
    passed: dict[str, Counter[str]] = defaultdict(Counter)
    for pair in hard_negatives(sentences, count, seed=1) if sentences else ():
        asked, kept = read_question(pair.asked), read_question(pair.kept)
        if asked is None or kept is None:
            continue
        made[pair.kind] += 1
        if refusing_gate(asked, kept) is None:
            passed["gates"][pair.kind] += 1
            print("  passed:", pair)
        one, other = ngram_vector(asked), ngram_vector(kept)
        cosine = sum(weight * other.get(bucket, 0.0) for bucket, weight in one.items())
        for threshold in _COSINES:
            passed[f"cosine {threshold}"][pair.kind] += cosine >= threshold
    print(f"\nhard negatives: {made.total()} {dict(made)}")
    for rule in ("gates", *(f"cosine {threshold}" for threshold in _COSINES)):
        print(f"  served by {rule:12} {passed[rule].total():7} {dict(passed[rule])}")


def _print_paraphrases(pairs: Sequence[tuple[str, str]]) -> None:
    """The share of paraphrases that pass the gates, and whose cosine is high."""
    gates: Counter[str] = Counter()
    cosines: Counter[float] = Counter()
    for one, other in pairs:
        asked, kept = read_question(other), read_question(one)
        if asked is None or kept is None:
            continue
        gates[str(refusing_gate(asked, kept))] += 1
        weights = ngram_vector(kept)
        cosine = sum(w * weights.get(bucket, 0.0) for bucket, w in ngram_vector(asked).items())
        cosines.update({threshold: cosine >= threshold for threshold in _COSINES})
    total = max(1, gates.total())
    print(f"\nparaphrases: {gates['None'] / total:.1%} of {total} pass the gates")
    print("  refused by", {gate: count for gate, count in gates.most_common() if gate != "None"})
    print("  cosine", {limit: f"{count / total:.1%}" for limit, count in cosines.items()})


def _print_false_proofs(runs: int = 500, pairs: int = 5_000) -> None:
    """The share of runs that prove the promise though more are wrong, looked at after each pair."""
    print("\nruns that prove at most 0.5 % wrong, by the share that is wrong")
    for wrong in (0.001, 0.002, 0.003, 0.0051, 0.006):
        dice = random.Random(1)  # noqa: S311 # no secret
        proofs = [_pairs_until_proof(dice, wrong, pairs) for _ in range(runs)]
        proved = sorted(count for count in proofs if count)
        median = proved[len(proved) // 2] if proved else "none"
        print(f"  {wrong:.2%}: {len(proved) / runs:.1%} of {runs}, median pairs {median}")


def _pairs_until_proof(dice: random.Random, wrong: float, pairs: int) -> int:
    """The number of pairs after which the promise is proved; 0 where it is not."""
    point = OperatingPoint(0.0)
    for count in range(1, pairs + 1):
        point.observe(was_right=dice.random() >= wrong)
        if point.bound <= _PROMISE:
            return count
    return 0


def _print_drifts(runs: int = 500) -> None:
    """Hits until serving stops, by share of wrong hits after a drift; and the hits checked."""
    print("\nhits until serving stops (median, 90th percentile); stops within 200 hits; checked")
    for checks, when in ((0, "as serving begins"), (1_000, "later")):
        for wrong in (0.002, 0.05, 0.1, 0.2, 0.5):
            dice = random.Random(1)  # noqa: S311 # no secret
            results = [_hits_until_stop(dice, checks, wrong) for _ in range(runs)]
            hits = sorted(count for count, _ in results)
            within = sum(count <= 200 for count in hits) / runs
            checked = sum(count for _, count in results) / sum(hits)
            print(
                f"  {when}, wrong {wrong:.1%}: {hits[runs // 2]}, {hits[runs * 9 // 10]};"
                f" {within:.0%}; {checked:.1%}"
            )


def _hits_until_stop(dice: random.Random, checks: int, wrong: float) -> tuple[int, int]:
    """The number of hits until the drift test stops serving, 2,000 at most, and those checked."""
    test, checked = DriftTest(checks=checks), 0
    for hit in range(1, 2_000):
        if dice.random() < test.checked_share(0.1):
            checked += 1
            if test.observe(_PROMISE, was_right=dice.random() >= wrong):
                return hit, checked
    return 2_000, checked


if __name__ == "__main__":
    main()
