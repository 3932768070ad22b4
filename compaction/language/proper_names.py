"""Names of people, places and products in a text, by how they are written.

A name is a run of two to five words within a sentence, each with a capital and then a small
letter, one blank between them; the word that begins a sentence belongs to none. A single word is
one where less than a sixth of the sentence's words have a capital: German writes all nouns so. And
a text of two to five such words, as a field of a record, is a name. Scripts without capitals have
none.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from compaction.language.sentences import sentences

_MAX_NAME_WORDS: Final = 5
#: Words with a capital for each of which a sentence needs this many words, for one to be a name.
_WORDS_PER_CAPITAL: Final = 6
#: Characters around a word, of which those behind it end a run.
_AROUND: Final = "\"'“”„«»‘’()[]{}<>*_,;:.!?…¶|"
#: Words with a capital that name nothing.
_ORDINARY: Final = frozenset(
    {
        *("I", "OK", "Okay", "Yes", "No", "Hi", "Hello", "Thanks", "Please", "Sir", "Madam"),
        *("Sie", "Ihnen", "Ihr", "Ihre", "Ihren", "Ihrem", "Ihrer"),
        *("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
        *("January", "February", "March", "April", "May", "June", "July", "August"),
        *("September", "October", "November", "December"),
    }
)


def proper_names(text: str) -> Iterator[str]:
    """The names in a text, by appearance."""
    words = text.split()
    if 1 < len(words) <= _MAX_NAME_WORDS and all(map(_is_capitalized, words)):
        yield " ".join([word.strip(_AROUND) for word in words])
        return
    for sentence in sentences(text):
        yield from _names_within(sentence.split(" "))


def _names_within(words: Sequence[str]) -> Iterator[str]:
    """The names in the words of a sentence."""
    capitals = sum(map(_is_capitalized, words[1:]))
    least = 1 if capitals * _WORDS_PER_CAPITAL < len(words) else 2
    run: list[str] = []
    for word in [*words[1:], ""]:
        is_named = _is_capitalized(word)
        if is_named and word[0] not in _AROUND:
            run.append(word)
        if not is_named or word[0] in _AROUND or word[-1] in _AROUND:
            if least <= len(run) <= _MAX_NAME_WORDS:
                yield " ".join([piece.strip(_AROUND) for piece in run])
            run = [word] if is_named and word[0] in _AROUND and word[-1] not in _AROUND else []


def _is_capitalized(word: str) -> bool:
    """True if a word begins with a capital, goes on small, and may name something."""
    bare = word.strip(_AROUND)
    return bare[:1].isupper() and bare[1:2].islower() and bare.partition("'")[0] not in _ORDINARY
