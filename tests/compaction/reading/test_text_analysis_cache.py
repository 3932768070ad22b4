import msgspec
import pytest

from compaction.reading.text_analysis_cache import TextAnalysisCache, analyze_uncached

TEXT = "an order that was looked through once already"


class CountingAnalyzer:
    """Looks that are counted."""

    def __init__(self):
        self.looked = []

    def words(self, text):
        self.looked.append(text)
        return tuple(text.split())

    def small(self, text):
        self.looked.append(text)
        return text.lower()


def test_a_text_is_looked_through_once_for_each_thing_that_is_sought():
    looks, find = CountingAnalyzer(), TextAnalysisCache().analyzer_for(b"a")
    words, small = looks.words, looks.small

    assert find(words, TEXT) == find(words, TEXT) == analyze_uncached(words, TEXT)
    assert find(small, TEXT) == find(small, TEXT) == analyze_uncached(small, TEXT)
    assert looks.looked == [TEXT] * 4


def test_an_empty_analysis_is_cached_too():
    looks, find = CountingAnalyzer(), TextAnalysisCache().analyzer_for(b"a")
    empty = looks.words

    assert find(empty, " " * 40) == find(empty, " " * 40) == ()
    assert len(looks.looked) == 1


def test_a_scopes_texts_are_not_cached_for_other_scopes():
    looks, findings = CountingAnalyzer(), TextAnalysisCache()
    assert (findings._known._most, findings._known._heaviest) == (100_000, 8_388_608)
    words = looks.words
    findings.analyzer_for(b"a")(words, TEXT)
    findings.analyzer_for(b"b")(words, TEXT)

    assert looks.looked == [TEXT, TEXT]


def test_an_analysis_of_several_texts_is_cached_by_all_of_them():
    looks, find = CountingAnalyzer(), TextAnalysisCache().analyzer_for(b"a")

    def join_texts(*texts):
        return looks.small(" ".join(texts))

    assert [find(join_texts, "A", "B"), find(join_texts, "A", "C"), find(join_texts, "A", "B")] == [
        *("a b", "a c", "a b")
    ]
    assert looks.looked == ["A B", "A C"]


def test_a_set_of_words_is_known_to_one_call_alone():
    looks, findings = CountingAnalyzer(), TextAnalysisCache()

    def distinct(text):
        return frozenset(looks.words(text))

    find, next_find = findings.analyzer_for(b"a"), findings.analyzer_for(b"a")
    assert find(distinct, TEXT) == find(distinct, TEXT) == next_find(distinct, TEXT)
    assert (len(looks.looked), len(findings)) == (2, 0)


def test_short_texts_take_no_room():
    findings = TextAnalysisCache()
    findings.analyzer_for(b"a")(str.upper, "short")

    assert len(findings) == 0


class Found(msgspec.Struct):
    """A thing that holds others."""

    words: tuple[str, ...]


def words_as_find(text):
    """All words of a text in one thing."""
    return (Found(tuple(text.split())),)


def words_as_pair(text):
    """All words of a text in one tuple."""
    return (("words", tuple(text.split())),)


@pytest.mark.parametrize("look", [words_as_find, words_as_pair])
def test_nested_items_count_towards_an_entrys_bytes(look):
    alone, nested = TextAnalysisCache(max_bytes=200_000), TextAnalysisCache(max_bytes=200_000)
    words = CountingAnalyzer().words
    for number in range(100):
        text = f"{'x ' * 60}{number}"
        alone.analyzer_for(b"a")(words, text)
        nested.analyzer_for(b"a")(look, text)

    assert 0 < len(nested) <= len(alone) < 50


def test_the_text_analysis_cache_is_bounded():
    few, light = TextAnalysisCache(max_entries=10), TextAnalysisCache(max_bytes=20_000)
    for number in range(100):
        few.analyzer_for(b"a")(str.upper, f"{TEXT} {number}")
        light.analyzer_for(b"a")(CountingAnalyzer().words, f"{'x ' * 30}{number}")

    assert len(few) <= 10
    assert 0 < len(light) < 5


def test_a_text_of_24_characters_is_cached_and_a_shorter_one_is_not():
    for chars, cached in ((23, 0), (24, 1)):
        analyses = TextAnalysisCache()
        analyses.analyzer_for(b"a")(str.upper, "x" * chars)
        assert len(analyses) == cached


def test_an_entry_takes_300_bytes_4_for_each_character_and_200_for_each_item():
    def is_cached(analyze, max_bytes: int) -> bool:
        """True if the analysis fits into half a cache."""
        analyses = TextAnalysisCache(max_bytes=2 * max_bytes)
        analyses.analyzer_for(b"a")(analyze, "x" * 30)
        return len(analyses) == 1

    words = CountingAnalyzer().words
    assert is_cached(str.upper, 300 + 4 * 60)
    assert not is_cached(str.upper, 299 + 4 * 60)
    assert is_cached(words, 300 + 8 * 30 + 200)
    assert not is_cached(words, 299 + 8 * 30 + 200)
