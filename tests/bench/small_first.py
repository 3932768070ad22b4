# ruff: noqa: T201 - a script prints its result
"""Small model first on recorded outcomes: calls sent small, the loss proved, money after judging.

Each run draws calls at random from questions whose answers by a small and a large model are known
to be right or wrong; a subject is a feature. A judgement is wrong in a tenth, and 20 calls late.
Beside the rule stand a plain test per feature and the same proof with predictions that know more.
Usage: python -m tests.bench.small_first OUTCOMES [--dialogues FOLDER] [--runs 200] [--calls 5000]

OUTCOMES is a folder of CSV files: prompt, right by small, right by large. FOLDER holds dialogues of
the SGD corpus; there the small model is scripted: it errs in one of 50 turns of eight values.
"""

import argparse
import csv
import json
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Final

import msgspec

from proxy.fast_path.small_first.call_traits import CallTraits, read_traits
from proxy.fast_path.small_first.judge_channel import JudgeError, Verdict, combine_orders
from proxy.fast_path.small_first.loss_control import LossPromise, new_control
from proxy.fast_path.small_first.loss_model import LossModel

_DELAY: Final = 20
_MAX_LOSS: Final = 0.01
#: Prices beside a call of the large model: a small one, and a judgement in both orders.
_SMALL_PRICE: Final = 0.05
_JUDGE_PRICE: Final = 2.0


class GradedQuestion(msgspec.Struct, frozen=True):
    """A call with its loss: 1 where the large model alone is right, -1 where the small one is."""

    feature: str
    traits: CallTraits
    loss: int


class Result(msgspec.Struct, frozen=True):
    """The result of a run, as shares of its calls."""

    small: float
    late: float
    loss: float
    proved: float
    judged: float
    saved: float
    is_broken: bool
    model: LossModel | None = None


def outcomes(folder: Path) -> list[GradedQuestion]:
    """The questions of a folder of CSV files."""
    questions = []
    for path in sorted(folder.rglob("*.csv")):
        with path.open(encoding="utf8") as file:
            for prompt, small, large in list(csv.reader(file))[1:]:
                traits = read_traits(prompt, has_schema=False, tools=0, turns=1)
                loss = (large == "True") - (small == "True")
                questions.append(GradedQuestion(path.stem, traits, loss))
    return questions


def dialogue_turns(folder: Path) -> list[GradedQuestion]:
    """The users' turns of dialogues with a schema, with the scripted losses."""
    rng = Random(7)  # noqa: S311 - seeded
    questions = []
    for path in sorted(folder.glob("dialogues_*.json")):
        for dialogue in json.loads(path.read_text(encoding="utf8")):
            for number, turn in enumerate(dialogue["turns"]):
                if turn["speaker"] == "USER":
                    frames = turn["frames"]
                    values = sum(len(frame["state"]["slot_values"]) for frame in frames)
                    traits = read_traits(
                        turn["utterance"], has_schema=True, tools=len(frames), turns=number
                    )
                    loss = int(values >= 8 and rng.random() < 0.02)
                    questions.append(GradedQuestion(frames[0]["service"], traits, loss))
    return questions


def judge(rng: Random, loss: int, error: JudgeError) -> Verdict:
    """A verdict that is wrong as often as the error says."""
    orders = [Verdict(loss) for _ in range(1 + error.both_orders)]
    for index in range(len(orders)):
        if rng.random() < error.high:
            orders[index] = rng.choice([verdict for verdict in Verdict if verdict != loss])
    return combine_orders(orders[0], orders[-1])


def run_rule(
    questions: Sequence[GradedQuestion],
    seed: int,
    calls: int,
    error: JudgeError,
    *,
    knows: bool = False,
) -> Result:
    """A run of the rule; one that knows is given each call's own loss as its prediction."""
    rng = Random(seed)  # noqa: S311 - seeded
    control = new_control(LossPromise(max_loss=_MAX_LOSS, error=error))
    waiting: deque[tuple[int, str, Verdict]] = deque()
    lost = late = judged_small = 0
    is_broken = False
    for number in range(calls):
        question = rng.choice(questions)
        if knows:
            control.model = Known(losses={question.feature: question.loss})
        draws = rng.random(), rng.random()
        decision = control.decide(str(number), question.feature, question.traits, draws)
        lost += question.loss * decision.is_small
        late += decision.is_small and number >= calls // 2
        judged_small += decision.is_small and decision.is_judged
        if decision.is_judged:
            verdict = judge(rng, question.loss, error)
            waiting.append((number + _DELAY, str(number), verdict))
        while waiting and waiting[0][0] <= number:
            _, call, verdict = waiting.popleft()
            control.record_verdict(call, verdict)
        is_broken |= lost > control.lost() + 1e-9 or lost > control.allowance + 1
    spent = judged_small + _SMALL_PRICE * (control.judged - judged_small)
    saved = control.small * (1 - _SMALL_PRICE) - control.judged * _JUDGE_PRICE - spent
    return Result(
        small=control.small / calls,
        late=2 * late / calls,
        loss=lost / calls,
        proved=control.proved_loss(),
        judged=control.judged / calls,
        saved=saved / calls,
        is_broken=is_broken,
        model=None if knows else control.model,
    )


class Known(LossModel):
    """A model that knows the loss of the call at hand, and learns nothing."""

    losses: dict[str, int] = msgspec.field(default_factory=dict)

    @property
    def is_ready(self) -> bool:
        """True, always."""
        return True

    def predict(self, feature: str, traits: CallTraits) -> float:
        """The call's own loss."""
        return float(self.losses[feature])

    def learn(self, feature: str, traits: CallTraits, loss: float) -> None:
        """Learn nothing."""

    def fit(self) -> None:
        """Fit nothing."""


def run_plain(
    questions: Sequence[GradedQuestion], seed: int, calls: int, error: JudgeError
) -> Result:
    """A run of a plain test: a feature goes small once its bound after 100 graded is low enough."""
    rng = Random(seed)  # noqa: S311 - seeded
    graded: dict[str, list[int]] = defaultdict(list)
    small = lost = judged = 0
    for _ in range(calls):
        question = rng.choice(questions)
        verdicts = graded[question.feature]
        count = len(verdicts)
        mean = sum(verdicts) / count if count else 1.0
        spread = (sum((verdict - mean) ** 2 for verdict in verdicts) / max(count, 1)) ** 0.5
        is_small = count >= 100 and mean + 1.645 * spread / count**0.5 <= _MAX_LOSS
        small += is_small
        lost += question.loss * is_small
        if count < 100:
            judged += 1
            verdicts.append(judge(rng, question.loss, error))
    saved = small * (1 - _SMALL_PRICE) - judged * (_JUDGE_PRICE + _SMALL_PRICE)
    is_broken = lost > _MAX_LOSS * calls
    return Result(
        small=small / calls,
        late=small / calls,
        loss=lost / calls,
        proved=float("nan"),
        judged=judged / calls,
        saved=saved / calls,
        is_broken=is_broken,
    )


def show(name: str, results: Sequence[Result]) -> None:
    """Print a row."""

    def mean(value: Callable[[Result], float]) -> float:
        return 100 * fmean(map(value, results))

    small = f"{mean(lambda r: r.small):.1f} % · {mean(lambda r: r.late):.1f} %"
    print(
        f"| {name} | {len(results)} | {small}"
        f" | {mean(lambda r: r.loss):.2f} | {mean(lambda r: r.proved):.2f}"
        f" | {mean(lambda r: r.judged):.1f} % | {mean(lambda r: r.is_broken):.1f} %"
        f" | {mean(lambda r: r.saved):+.1f} % |",
        flush=True,
    )


def frontier(name: str, questions: Sequence[GradedQuestion], scores: Sequence[float]) -> None:
    """Print what an order of the calls can reach where the truth of all is known."""
    count = len(questions)
    ordered = sorted(range(count), key=lambda index: scores[index])
    small_loss = sum(question.loss for question in questions)
    lost, share, at_forty, area = 0, 0.0, 0.0, 0.0
    for place, index in enumerate(ordered, 1):
        lost += questions[index].loss
        area += 1 - lost / small_loss
        if lost <= _MAX_LOSS * count:
            share = place / count
        if place == int(0.4 * count):
            at_forty = 100 * lost / count
    print(f"| {name} | {100 * share:.1f} % | {at_forty:.2f} | {area / count:.3f} |", flush=True)


def cross_fitted(questions: Sequence[GradedQuestion]) -> list[float]:
    """Scores by our model, each fitted to the right losses of the other half."""
    order = list(range(len(questions)))
    Random(1).shuffle(order)  # noqa: S311 - seeded
    half = len(order) // 2
    scores = [0.0] * len(questions)
    for learned, scored in ((order[:half], order[half:]), (order[half:], order[:half])):
        model = LossModel()
        for index in learned:
            question = questions[index]
            model.learn(question.feature, question.traits, question.loss)
        model.fit()
        for index in scored:
            scores[index] = model.predict(questions[index].feature, questions[index].traits)
    return scores


def subject_means(questions: Sequence[GradedQuestion]) -> list[float]:
    """The true mean loss of each question's subject."""
    losses: dict[str, list[int]] = defaultdict(list)
    for question in questions:
        losses[question.feature].append(question.loss)
    return [fmean(losses[question.feature]) for question in questions]


def show_frontiers(questions: Sequence[GradedQuestion], model: LossModel | None) -> None:
    """Print the orders of calls: at random, by us, by more knowledge, by an oracle."""
    rng = Random(1)  # noqa: S311 - seeded
    print("\n| order of the calls | small at 1 point | points lost at 40 % small | APGR |")
    print("|---|--:|--:|--:|")
    frontier("at random", questions, [rng.random() for _ in questions])
    if model is not None:
        learned = [model.predict(question.feature, question.traits) for question in questions]
        frontier("ours, as learned in one run", questions, learned)
    frontier("ours, all right losses of the other half", questions, cross_fitted(questions))
    frontier("true mean of each subject", questions, subject_means(questions))
    frontier("oracle", questions, [question.loss + rng.random() / 2 for question in questions])


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("outcomes", type=Path)
    parser.add_argument("--dialogues", type=Path)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--calls", type=int, default=5_000)
    options = parser.parse_args()
    questions, tenth = outcomes(options.outcomes), JudgeError(0.1, 0.1)
    runs, calls, few = range(options.runs), options.calls, range(max(options.runs // 10, 1))
    print(f"{len(questions):,} questions, small model loses {fmean(q.loss for q in questions):.3f}")
    print("| rule | runs | small: all, 2nd half | points lost | proved | judged | broken | saved |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    results = [run_rule(questions, seed, calls, tenth) for seed in runs]
    show(f"{calls:,} calls", results)
    both = JudgeError(0.1, 0.1, both_orders=True)
    show("each order wrong in a tenth", [run_rule(questions, s, calls, both) for s in few])
    show("four times the calls", [run_rule(questions, s, 4 * calls, tenth) for s in few])
    knowing = [run_rule(questions, seed, calls, tenth, knows=True) for seed in few]
    show("oracle's predictions, same proof", knowing)
    show("plain test per feature", [run_plain(questions, seed, calls, tenth) for seed in runs])
    show_frontiers(questions, results[0].model)
    if options.dialogues is not None:
        turns, exact = dialogue_turns(options.dialogues), JudgeError(0.0, 0.0)
        print(f"\n{len(turns):,} turns, small model loses {fmean(q.loss for q in turns):.4f}")
        for times in (1, 4):
            results = [run_rule(turns, s, times * calls, exact) for s in range(3)]
            show(f"dialogues, {times * calls:,} calls", results)


if __name__ == "__main__":
    main()
