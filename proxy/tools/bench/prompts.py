"""Prompts of a wanted length whose beginning is cold or warm for a prefix cache.

A cold prompt differs from every other one from its first token on, so no prefix cache has any of
it. A warm prompt begins with text that all of its kind share, and ends with text of its own.
"""

import hashlib
import random
from enum import StrEnum
from typing import Final

import msgspec

#: Short words that most vocabularies hold as one token.
_WORDS: Final = """
about above after again all also any back bank base be been before best both boy but by call can
car city cold come day did do door down each early eat end every eye face far fast find fire first
fish five follow food form four free from full game girl give glass go gold good great green grow
half hand hard have head hear high hold home hour house if in into its just keep kind king land
large last late learn left life light line list little live long look love made make man many mark
may mean might mind moon more most move much must name near need never new next night no north not
now number of off old on once one only open or other out over own page paper part past plan plant
play point press put rain read real red rest right river road rock room round run sea second see
set ship short show side sing sit six size sleep slow small snow some soon south stand star start
stay stone stop story street strong such sun table take talk tell ten than that the then this time
to town tree true try turn two under until up use very voice wait walk wall want war warm was watch
water way week well west what wheel when which while white who will wind wish with wood word work
world write year yes you young
""".split()  # noqa: SIM905 - a list would take a line per word
#: Asks for a long answer, so that one seldom ends before the wanted number of tokens.
_REQUEST: Final = "\n\nWrite a very long story with these words."
#: Words in the two prompts that tokens per word are computed from.
FEW_WORDS: Final = 16
MANY_WORDS: Final = 272
#: Bytes of a hash that make a text's beginning unique.
_MARKER_BYTES: Final = 6
#: Words of its own that a warm prompt ends with, at least.
_MIN_OWN_WORDS: Final = 8


class PrefixState(StrEnum):
    """The state of a prompt's beginning in the server's prefix cache."""

    COLD = "cold"
    WARM = "warm"


class TokenRatio(msgspec.Struct, frozen=True):
    """Tokens of a prompt by its words, as the server counts them.

    Attributes:
        fixed: Tokens of a prompt without words: chat template, marker, request.
        is_estimate: True if the server told no usage.
    """

    per_word: float = 1.0
    fixed: float = 24.0
    is_estimate: bool = True

    @classmethod
    def from_usage(cls, few: int | None, many: int | None) -> "TokenRatio":
        """Tokens per word by the usage of prompts of few and many words; an estimate for None."""
        if few is None or many is None or many <= few:
            return cls()
        per_word = (many - few) / (MANY_WORDS - FEW_WORDS)
        return cls(per_word, max(0.0, few - FEW_WORDS * per_word), is_estimate=False)

    def words(self, tokens: int) -> int:
        """The number of words that make a prompt of so many tokens; 1 at least."""
        return max(1, round((tokens - self.fixed) / self.per_word))


class PromptWriter:
    """Writes prompts; none of them begins as another did, unless it is to be warm.

    Args:
        seed: Names the run: prompts of two runs differ, also against one server.
    """

    def __init__(self, seed: str, shared_share: float) -> None:
        self._seed = seed
        self._shared_share = shared_share
        self._written = 0

    def cold_prompt(self, words: int) -> str:
        """A prompt of so many words that is unique from its first token on."""
        self._written += 1
        return self._text(f"{self._written}", words) + _REQUEST

    def warm_prompt(self, words: int) -> str:
        """A prompt of so many words that begins as all warm prompts of this length do."""
        self._written += 1
        own = max(_MIN_OWN_WORDS, round(words * (1 - self._shared_share)))
        shared = self._text(f"shared {words}", max(1, words - own))
        return f"{shared} {self._text(f'{self._written}', own)}{_REQUEST}"

    def _text(self, name: str, words: int) -> str:
        """A marker that only this name has, and words that it chooses."""
        name = f"{self._seed} {name}"
        marker = hashlib.blake2b(name.encode(), digest_size=_MARKER_BYTES).hexdigest()
        chosen = random.Random(name).choices(_WORDS, k=words)  # noqa: S311 - no secret
        return f"{marker} {' '.join(chosen)}"
