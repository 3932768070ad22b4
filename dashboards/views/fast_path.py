"""The fast path in a period: what ``/api/v1/fast-path`` answers and a page shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from dashboards.fast_path_savings import FastPathSaving


@dataclass(frozen=True, slots=True, kw_only=True)
class FastPathRule:
    """A rule in force about a feature.

    Attributes:
        part: The part that it turns on, by its table in the policies file.
        title: The part for people.
        text: The rule's name, or what it asks for.
        is_on: False if somebody turned the part off for this feature.
        proved_loss: Answers lost by it at most, as a share of calls; None where nothing is known.
        max_loss: The share that may be lost; None where the rule promises none.
    """

    part: str
    title: str
    text: str
    is_on: bool
    proved_loss: float | None = None
    max_loss: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FastPathFeature:
    """The fast path of one feature.

    Attributes:
        rules: The rules about it, one of each part that has any.
        calls: All its calls.
        cached_calls: Those that were answered by an answer given before.
        small_calls: Those that a small model answered.
        weighed_calls: Those that the model asked for answered after a small one was weighed or
            tried.
        drafted_calls: Drafts that a small model began, to their end or not.
        check_calls: The gateway's own calls that compare answers.
        saved_nanos: Its savings, comparisons and answers that failed a check taken off.
    """

    team: str
    team_name: str
    feature: str
    rules: Sequence[FastPathRule]
    calls: int
    cached_calls: int
    small_calls: int
    weighed_calls: int
    drafted_calls: int
    check_calls: int
    saved_nanos: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvedLoss:
    """The bound on answers lost by a small model, of one team under one rule, since it began.

    Attributes:
        calls: Calls that were weighed.
        small_calls: Those that were sent to the small model.
        judged_calls: Those whose two answers are compared.
        proved_loss: Lost answers at most, as a share of the calls, 95 % sure at every moment.
        max_loss: The share that may be lost.
    """

    team: str
    team_name: str
    rule: str
    calls: int
    small_calls: int
    judged_calls: int
    proved_loss: float
    max_loss: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongHit:
    """A check by which an answer to a similar question was found wrong; texts where allowed.

    Attributes:
        checked_at: Arrival of the call, in seconds since the epoch.
        asked: The question that was asked.
        answer: Its own answer, which the caller got.
        similar: The words of the similar question.
        similar_answer: Its answer, which would have been given.
    """

    checked_at: float
    asked: str = ""
    answer: str = ""
    similar: str = ""
    similar_answer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarProof:
    """The proof that answers to similar questions are seldom wrong, of a team's feature.

    Attributes:
        is_served: True if they are given.
        checked: Checked answers from the score on that is served, or would be first.
        wrong: Those of them that were wrong.
        bound: The share of wrong ones at most, 95 % sure at every moment.
        max_wrong: The share that may be wrong.
        checked_hits: Hits that were checked.
        wrong_hits: Those of them that were wrong.
        stops: Number of times that wrong hits ended serving.
        last_wrong: The last wrong hits, the latest first.
    """

    team: str
    team_name: str
    feature: str
    is_served: bool
    checked: int
    wrong: int
    bound: float
    max_wrong: float
    checked_hits: int
    wrong_hits: int
    stops: int
    last_wrong: Sequence[WrongHit]


@dataclass(frozen=True, slots=True, kw_only=True)
class FastPathView:
    """The fast path in a period.

    Attributes:
        last: The last day, included.
        saved_nanos: Savings of all features, signed.
        parts: The same by part, those that have any.
        features: Features with a rule or with calls of the fast path, those that saved most first.
        proved: Bounds of small models as this process knows them, whatever the period.
        similar: Proofs of answers to similar questions, as this process knows them.
    """

    first: date
    last: date
    tz: str
    saved_nanos: int
    parts: Sequence[FastPathSaving]
    features: Sequence[FastPathFeature]
    proved: Sequence[ProvedLoss]
    similar: Sequence[SimilarProof]
