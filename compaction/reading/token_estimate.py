"""An estimate of a text's tokens without a vocabulary.

Bytes fall into classes; how often one stands right after another says where words and numbers begin
and break. The weights are a least-squares fit, none below 0, to the o200k vocabulary over 4,500
recorded texts: conversations, tool results, code, logs, random ids. Those of other scripts are set
by hand.
"""

from itertools import product
from operator import or_
from typing import Final

#: The class of each byte: lower and upper case, digits, spaces, line ends, tabs, other ASCII, and
#: what begins a character of 2, 3 (South Asian, symbols, East Asian) or 4 bytes.
_CLASSES: Final = bytes.maketrans(
    bytes(range(256)),
    b"".join(
        [
            b"p" * 9 + b"tn" + b"ppnpp" + b"p" * 16 + b"s" + b"p" * 15 + b"0" * 10 + b"p" * 7,
            b"A" * 26 + b"p" * 6 + b"a" * 26 + b"p" * 5,
            b"c" * 64 + b"x" * 32 + b"wwv" + b"y" * 13 + b"z" * 16,
        ]
    ),
)
#: Thousandths of a token for each byte, and for each occurrence of these sequences of classes.
_BYTE_MILLITOKENS: Final = 48
_PATTERN_MILLITOKENS: Final = (
    (b"A", 508),
    (b"0", 288),
    (b"sa", 733),
    (b"s0", 1_009),
    (b"sp", 1_199),
    (b"0a", 1_494),
    (b"0A", 2_409),
    (b"aA", 482),
    (b"na", 1_181),
    (b"ns", 1_087),
    (b"ap", 1_102),
    (b"0p", 1_959),
    (b"nt", 1_509),
    (b"np", 2_367),
    (b"aaaaaaaaaaaaaaaa", 7_897),
)
#: Classes that many texts lack, and the sequences left to be counted, by the classes present.
_RARE: Final = (b"0", b"A", b"n")
_COUNTED: Final = {
    flags: tuple(
        [
            pattern
            for pattern in _PATTERN_MILLITOKENS
            if all(map(or_, flags, [rare not in pattern[0] for rare in _RARE]))
        ]
    )
    for flags in product((False, True), repeat=len(_RARE))
}
_OTHER_SCRIPTS: Final = ((b"x", 230), (b"w", 240), (b"v", 450), (b"y", 470), (b"z", 2_200))
#: Maximum length of a text, such as a name, that is estimated from its length alone.
_SHORT_TEXT_BYTES: Final = 8
#: Maximum bytes of a text that is read whole; of a longer one, one slice is read in each step.
_MAX_WHOLE_BYTES: Final = 2_048
_SLICE_BYTES: Final = 256
_SLICE_STEP_BYTES: Final = 1_024


def estimate_tokens(text: str) -> int:
    """Estimates the tokens of a text: some 5 % off for most kinds of text; 0 for none."""
    if len(text) <= _SHORT_TEXT_BYTES:
        return (len(text) + 3) // 4
    kinds = text.encode(errors="replace").translate(_CLASSES)
    sample = kinds if len(kinds) <= _MAX_WHOLE_BYTES else _sample(kinds)
    weights = _COUNTED[b"0" in sample, b"A" in sample, b"n" in sample]
    weights = weights if text.isascii() else weights + _OTHER_SCRIPTS
    times = sample.count
    thousandths = _BYTE_MILLITOKENS * len(sample) + sum(
        [weight * times(kind) for kind, weight in weights]
    )
    return 1 + thousandths * len(kinds) // (len(sample) * 1_000)


def _sample(kinds: bytes) -> bytes:
    return b"".join(
        [kinds[start : start + _SLICE_BYTES] for start in range(0, len(kinds), _SLICE_STEP_BYTES)]
    )
