"""The acceptance that n-gram speculation would have, by replaying a prompt and its answer; pure.

At each step the last tokens of the text so far are looked up earlier in it, the longest match and
then the latest one first; the tokens that followed are the draft, as in vLLM's n-gram proposer.
"""

from collections.abc import Sequence

import msgspec

#: Tokens of one text that are replayed; longer ones are cut.
MAX_TOKENS = 200_000


class NgramReplay(msgspec.Struct, kw_only=True):
    """Drafts that n-grams would have made, and what of them would have been accepted.

    Attributes:
        steps: Steps of the model, each with a draft or without.
        tokens: Output tokens.
        full_drafts: Drafts accepted in full.
    """

    steps: int = 0
    tokens: int = 0
    drafts: int = 0
    draft_tokens: int = 0
    accepted: int = 0
    full_drafts: int = 0

    @property
    def tokens_per_step(self) -> float:
        """Output tokens for each step of the model; 1 without speculation."""
        return self.tokens / self.steps if self.steps else 1.0


def replay_ngrams(
    prompt: Sequence[int],
    answer: Sequence[int],
    depth: int,
    shortest: int,
    longest: int,
    into: NgramReplay,
) -> None:
    """Replay an answer and add what n-gram drafts would have done to the sums.

    Args:
        prompt: Token ids of the prompt.
        answer: Token ids of the answer.
        depth: Draft tokens per step.
        shortest: Tokens that have to match, at least.
        longest: The same, at most.
        into: Sums over all answers.
    """
    text = [*prompt, *answer][:MAX_TOKENS]
    #: Where each n-gram was last followed by something, by its length and tokens.
    seen: dict[tuple[int, ...], int] = {}
    at, noted = len(prompt), shortest
    while at < len(text):
        noted = _note(text, noted, at, (shortest, longest), seen)
        draft = _draft_position(
            text[:at] if at < longest else text[at - longest : at], seen, shortest
        )
        proposed = text[draft : min(draft + depth, at)] if draft else []
        accepted = 0
        while (
            accepted < len(proposed)
            and at + accepted < len(text)
            and text[at + accepted] == proposed[accepted]
        ):
            accepted += 1
        if proposed:
            into.drafts += 1
            into.draft_tokens += len(proposed)
            into.accepted += accepted
            into.full_drafts += accepted == len(proposed)
        step = min(accepted + 1, len(text) - at)
        into.steps += 1
        into.tokens += step
        at += step


def _note(
    text: Sequence[int],
    start: int,
    end: int,
    lengths: tuple[int, int],
    seen: dict[tuple[int, ...], int],
) -> int:
    """Remember the n-grams that are followed by a token before ``end``; the new start."""
    for follows in range(start, end):
        for length in range(lengths[0], min(lengths[1], follows) + 1):
            seen[tuple(text[follows - length : follows])] = follows
    return max(start, end)


def _draft_position(tail: Sequence[int], seen: dict[tuple[int, ...], int], shortest: int) -> int:
    """Position of the tokens that followed the longest n-gram at the end; 0 where none is known."""
    for length in range(len(tail), shortest - 1, -1):
        if found := seen.get(tuple(tail[-length:])):
            return found
    return 0
