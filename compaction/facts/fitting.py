"""Fills the room for a segment with the candidates that are worth most per token.

A candidate stands in one of its variants or goes; a richer variant is one more step, with its own
worth and price. What stands already makes a word elsewhere worth less. Failed actions and those
with unknown outcomes come before all others.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import reduce
from heapq import heapify, heappop, heappush
from operator import sub
from typing import Final, NamedTuple

from compaction.facts.candidates import MARK_KINDS, Candidate
from compaction.facts.fact import Fact, FactKind
from compaction.reading.message import Count
from compaction.word_worth import RegionWords, text_size

#: Tokens of a fact's label and line end, and of a sentence that may join a line.
_FRAME_TOKENS, _SENTENCE_FRAME_TOKENS = 4.0, 1.0
#: Maximum share of the room for lines of files, which edits have to match to the letter.
_SLICES_SHARE: Final = 0.4
#: Maximum share of the room for failures and unknown outcomes.
_FAILURES_SHARE: Final = 0.5

#: Maximum tokens of a room, and number of candidates, for which a few are tried before all others;
#: how many of those that are gone, and of richer variants; the factor by which the result has to be
#: worth more, and the share of the room by which one may pass it: prices are estimates, mostly
#: high. With a factor of 1.02 desks lose values of later calls at a quarter of the tokens.
_MAX_SEEDED_TOKENS, _MAX_SEEDED_CANDIDATES, _MAX_SEEDS = 1_500, 200, 4
_BETTER, _SEED_SLACK = 1.1, 0.1
#: Maximum tokens of a room that one may pass: more would miss the target.
_SMALL_ROOM_TOKENS: Final = 120


class _Offer:
    """A candidate with the price and the telling words of each variant.

    Attributes:
        place: Its place among the candidates.
        first_cell: The place of its first variant among all that may be taken.
        has_failed: True if it is an action that failed, or whose outcome is unknown.
        kind: Kind of the fact that it is about.
        taken: The variant that stands; their number for none.
        price: Tokens of the variant that stands.
        repeated: The worth that each richer variant shares with the one that stands.
    """

    __slots__ = (
        *("candidate", "factor", "first_cell", "has_failed", "kind", "place", "price", "prices"),
        *("repeated", "taken", "words"),
    )

    def __init__(
        self,
        candidate: Candidate,
        place: int,
        factor: float,
        prices: list[float],
        words: list[AbstractSet[str]],
    ) -> None:
        self.candidate = candidate
        self.has_failed = not candidate.fact.has_succeeded
        self.kind = candidate.fact.kind
        self.place = place
        self.factor = factor
        self.prices = prices
        self.words = words
        self.first_cell = 0
        self.taken = len(prices)
        self.price = 0.0
        self.repeated = [0.0] * self.taken

    def take(self, variant: int, again: Callable[[str], float]) -> None:
        """This variant stands from now on.

        Args:
            again: Returns the worth of a word that stands already.
        """
        self.taken = variant
        self.price, words = self.prices[variant], self.words[variant]
        self.repeated = [sum(map(again, words & richer)) for richer in self.words[:variant]]

    @property
    def is_taken(self) -> bool:
        """True if one of its variants stands."""
        return self.taken < len(self.prices)


class _Filled(NamedTuple):
    """A room that was filled: its worth, what is left of it, and the variant of each candidate."""

    worth: float
    room: float
    variants: Sequence[int]


class Fitting:
    """The candidates of a region, sized once however little room there is.

    Args:
        candidates: All it could say.
        words: Worth of its words.
        factors: Factors of its messages.
        count: Counts tokens.
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        words: RegionWords,
        factors: Mapping[int, float],
        count: Count,
    ) -> None:
        per_char = _tokens_per_char(candidates, count)
        self.candidates = candidates
        self._words = words
        self._pinned: dict[int, _Pinned] = {}
        self._offers = [
            _Offer(
                candidate,
                place,
                candidate.factor
                * max(
                    [factors[index] for fact in candidate.variants[0] for index in fact.messages]
                ),
                [_price(variant, per_char) for variant in candidate.variants],
                [_telling_words(variant, words) for variant in candidate.variants],
            )
            for place, candidate in enumerate(candidates)
        ]

    def least_facts(self) -> list[Fact]:
        """Rules, failures, unknown outcomes and successes behind them, as short as they can be."""
        return [
            fact
            for candidate in self.candidates
            if candidate.is_mark or candidate.is_outcome
            for fact in candidate.variants[-1]
        ]

    def fill(self, room: float, least_pin: int) -> tuple[list[Fact], list[Candidate]]:
        """The facts that stand in so many tokens, and the candidates that go.

        Args:
            room: Tokens.
            least_pin: Pin from which on a candidate stands whatever room there is.
        """
        best = self._fill_room(room, least_pin)
        if room <= _MAX_SEEDED_TOKENS and len(self._offers) <= _MAX_SEEDED_CANDIDATES:
            for seed, variant in self._seeds():
                other = self._fill_room(room, least_pin, seed, variant)
                best = other if other.worth > _BETTER * best.worth else best
        facts = [
            fact
            for offer, variant in zip(self._offers, best.variants, strict=True)
            if variant < len(offer.prices)
            for fact in offer.candidate.variants[variant]
        ]
        gone = [
            offer.candidate
            for offer, variant in zip(self._offers, best.variants, strict=True)
            if variant == len(offer.prices)
        ]
        return facts, gone

    def _seeds(self) -> Sequence[tuple[_Offer, int]]:
        """Candidates with a variant: those gone, and richer ones, that are worth most alone."""
        gone = [(offer, len(offer.prices) - 1) for offer in self._offers if not offer.is_taken]
        richer = [
            (offer, variant)
            for offer in self._offers
            for variant in range(min(offer.taken, len(offer.prices) - 1))
        ]
        return [
            *sorted(gone, key=self._worth_alone)[:_MAX_SEEDS],
            *sorted(richer, key=self._worth_alone)[:_MAX_SEEDS],
        ]

    def _worth_alone(self, seed: tuple[_Offer, int]) -> float:
        """The worth of a candidate's variant by itself, negated."""
        offer, variant = seed
        return -offer.factor * sum(map(self._words.first.__getitem__, offer.words[variant]))

    def _fill_room(
        self, room: float, least_pin: int, seed: _Offer | None = None, variant: int = 0
    ) -> _Filled:
        """Fills the room, with one candidate before all that do not have to stand."""
        if least_pin not in self._pinned:
            self._pinned[least_pin] = _Pinned(self._words, self._offers, least_pin)
        filling = _Filling(self._words, self._pinned[least_pin], room)
        offers = self._offers
        if not filling.take_failures(offers):
            offers = [offer for offer in offers if offer.kind is not FactKind.ACTION]
        filling.take_slices(offers)
        slack = _SEED_SLACK * room if room <= _SMALL_ROOM_TOKENS else 0.0
        if seed in offers and seed.prices[variant] <= filling.room + slack:
            filling.take(seed, variant)
        filling.take_worthiest(offers)
        return _Filled(filling.worth, filling.room, [offer.taken for offer in self._offers])


class _Pinned:
    """The offers with all that stands whatever room there is: the start of each filling.

    Attributes:
        worth: The worth of what stands.
        standing: The words that stand.
        gains: The worth that each variant that may be taken adds to them.
        cells: The places of the gains that each new word is part of.

    Args:
        words: Worth of the words.
        offers: All candidates, of which none stands.
        least_pin: Pin from which on a candidate stands whatever room there is.
    """

    def __init__(self, words: RegionWords, offers: Sequence[_Offer], least_pin: int) -> None:
        self.worth = 0.0
        self.standing: set[str] = set()
        self.gains: list[float] = []
        self.cells: defaultdict[str, list[int]] = defaultdict(list)
        self._first, self._again = words.first.__getitem__, words.again.__getitem__
        self._prices: list[float] = []
        self._states: list[tuple[_Offer, int, float, list[float]]] = []
        for offer in offers:
            none = len(offer.prices)
            offer.taken, offer.price, offer.repeated = none, 0.0, [0.0] * none
            if offer.candidate.pin >= least_pin:
                self._take(offer, 0)
            elif offer.candidate.is_mark:
                self._take(offer, none - 1)
            self._states.append((offer, offer.taken, offer.price, offer.repeated))
        for offer in offers:
            self._add_up_gains(offer)

    def reset_offers(self, room: float) -> float:
        """The tokens of a room beside what is pinned, which stands alone again."""
        for offer, taken, price, repeated in self._states:
            offer.taken, offer.price, offer.repeated = taken, price, repeated
        return reduce(sub, self._prices, room)

    def _take(self, offer: _Offer, variant: int) -> None:
        offer.take(variant, self._again)
        self.worth += offer.factor * self._gain(offer.words[variant])
        self.standing |= offer.words[variant]
        self._prices.append(offer.price)

    def _gain(self, words: AbstractSet[str]) -> float:
        """The worth of words beside those that stand."""
        new, again = words - self.standing, words & self.standing
        return sum(map(self._first, new)) + sum(map(self._again, again))

    def _add_up_gains(self, offer: _Offer) -> None:
        """Adds up the worth of each variant that may be taken, beside the words that stand."""
        cells, gains = self.cells, self.gains
        offer.first_cell = len(gains)
        for words in offer.words[: offer.taken]:
            cell = len(gains)
            for word in words - self.standing:
                cells[word].append(cell)
            gains.append(self._gain(words))


class _Filling:
    """The room that is left, the words that stand, and what each variant adds to them.

    Args:
        words: Worth of the words.
        pinned: All that stands first.
        room: Tokens.
    """

    def __init__(self, words: RegionWords, pinned: _Pinned, room: float) -> None:
        self._words = words
        self.room = pinned.reset_offers(room)
        self.worth = pinned.worth
        self._standing = pinned.standing.copy()
        self._gains = pinned.gains.copy()
        self._cells = pinned.cells

    def take(self, offer: _Offer, variant: int) -> None:
        """Takes a variant in place of the one that stands."""
        words = offer.words[variant]
        self.worth += offer.factor * self._gain(offer, variant)
        self._lower_gains(words - self._standing)
        self._standing |= words
        self.room -= offer.prices[variant] - offer.price
        offer.take(variant, self._words.again.__getitem__)

    def _gain(self, offer: _Offer, variant: int) -> float:
        """The worth of a variant beside the words that stand, its own shorter form left out."""
        return self._gains[offer.first_cell + variant] - offer.repeated[variant]

    def take_failures(self, offers: Sequence[_Offer]) -> bool:
        """Takes failures and unknown outcomes, the newest first, at least length; all or not.

        Successes behind them follow, as far as there is room.
        """
        room = self.room * _FAILURES_SHARE
        failures = [offer for offer in offers if offer.has_failed and not offer.is_taken]
        for offer in reversed(failures):
            room -= offer.prices[-1]
            if room < 0:
                return False
            self.take(offer, len(offer.prices) - 1)
        for offer in reversed(offers):
            is_open = offer.candidate.is_recovery and not offer.is_taken
            if is_open and offer.prices[-1] <= self.room:
                self.take(offer, len(offer.prices) - 1)
        return True

    def take_slices(self, offers: Iterable[_Offer]) -> None:
        """Takes lines of files, those that come first, up to a share of the room."""
        room = self.room * _SLICES_SHARE
        for offer in offers:
            if offer.kind is FactKind.SLICE:
                fitting = [variant for variant, price in enumerate(offer.prices) if price <= room]
                if fitting:
                    room -= offer.prices[fitting[0]]
                    self.take(offer, fitting[0])

    def take_worthiest(self, offers: Sequence[_Offer]) -> None:
        """Takes the steps that are worth most per token as long as there is room."""
        heap = [self._best_step(offer) for offer in offers if offer.taken]
        heap = [step for step in heap if step[0] < 0]
        heapify(heap)
        while heap:
            estimate, _, variant, offer = heappop(heap)
            step = self._best_step(offer)
            if step[0] >= 0:
                continue
            if step[2] == variant and (step[0] <= estimate or not heap or step[0] <= heap[0][0]):
                self.take(offer, variant)
                step = self._best_step(offer)
            if step[0] < 0:
                heappush(heap, step)

    def _lower_gains(self, words: Iterable[str]) -> None:
        """Lowers the gain of each variant with one of these words, which stand from now on."""
        first, again, gains = self._words.first, self._words.again, self._gains
        for word in words:
            less = first[word] - again[word]
            for cell in self._cells.get(word, ()):
                gains[cell] -= less

    def _best_step(self, offer: _Offer) -> tuple[float, int, int, _Offer]:
        """The variant of a candidate that is worth most per token in the room that is left.

        Its worth per token stands first, negated; 0 for none.
        """
        best, choice = 0.0, -1
        cell, repeated = offer.first_cell, offer.repeated
        for variant, whole_price in enumerate(offer.prices[: offer.taken]):
            price = whole_price - offer.price
            if price <= self.room:
                gain = self._gains[cell + variant] - repeated[variant]
                density = offer.factor * gain / max(price, 1.0)
                if density > best:
                    best, choice = density, variant
        return -best, offer.place, choice, offer


def _telling_words(facts: Sequence[Fact], words: RegionWords) -> AbstractSet[str]:
    """The words of facts that are worth anything."""
    if len(facts) == 1:
        return words.telling_words(facts[0].text)
    return {word for fact in facts for word in words.telling_words(fact.text)}


def _tokens_per_char(candidates: Iterable[Candidate], count: Count) -> Mapping[FactKind, float]:
    """Tokens of a character, or of a byte of another script, by kind of fact."""
    texts: dict[FactKind, list[str]] = {}
    for candidate in candidates:
        for fact in candidate.variants[0]:
            texts.setdefault(fact.kind, []).append(fact.text)
    return {
        kind: count("\n".join(lines)) / max(1, sum(map(text_size, lines)))
        for kind, lines in texts.items()
    }


def _price(facts: Sequence[Fact], per_char: Mapping[FactKind, float]) -> float:
    """Tokens of facts, about; a goal or rule within its user's line takes none."""
    words = "".join([fact.text for fact in facts if fact.kind is FactKind.USER and not fact.quotes])
    return sum(
        (_SENTENCE_FRAME_TOKENS if fact.kind is FactKind.REPLY else _FRAME_TOKENS)
        + text_size(fact.text) * per_char[fact.kind]
        for fact in facts
        if fact.kind not in MARK_KINDS or fact.text not in words
    )
