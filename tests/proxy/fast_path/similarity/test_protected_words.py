from proxy.fast_path.similarity.protected_words import (
    CONTRACTIONS,
    COUNTED_CLASSES,
    FREE_WORDS,
    LANGUAGE_WORDS,
    NUMBER_WORDS,
    OPPOSITES,
    SAME_SET,
    SYNONYMS,
)


def test_words_that_must_be_equal_are_never_free():
    assert not FREE_WORDS & {"not", "unless", "only", "all", "today", "km"}
    assert COUNTED_CLASSES["not"] == "negation"
    assert COUNTED_CLASSES["unless"] == "condition"


def test_each_language_has_its_negation():
    assert {"not", "nicht", "pas", "sin", "non", "não", "niet"} <= set(COUNTED_CLASSES)
    assert set(LANGUAGE_WORDS) == {"en", "de", "fr", "es", "it", "pt", "nl"}


def test_no_synonyms_are_opposites():
    pairs = {
        frozenset((one, other)) for group in OPPOSITES for one in group for other in group - {one}
    }
    same = {
        frozenset((one, other)) for group in SYNONYMS for one in group for other in group - {one}
    }

    assert not pairs & same


def test_tables_hold_words_in_small_letters():
    tables = (CONTRACTIONS, COUNTED_CLASSES, FREE_WORDS, NUMBER_WORDS, SAME_SET)

    assert all(word == word.casefold() for table in tables for word in table)
