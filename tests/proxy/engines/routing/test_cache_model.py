import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from proxy.engines.routing.cache_model import CacheModel
from proxy.engines.routing.prompt_chain import PromptChain
from tests.bench.replica_simulation import BlockCache

BLOCK = 1_000


def chain(path: str) -> PromptChain:
    """A prompt whose blocks are the letters; equal beginnings are shared."""
    links = tuple(xxh3_64_intdigest(path[: end + 1].encode()) for end in range(len(path)))
    return PromptChain(links, BLOCK, BLOCK * len(path))


def matched_links(model: CacheModel, path: str) -> int:
    return model.matched_links(chain(path))


def test_a_prompt_matches_up_to_where_it_differs_from_earlier_ones():
    model = CacheModel(100 * BLOCK)
    model.touch(chain("abcd"))
    model.touch(chain("abxyz"))

    assert [matched_links(model, path) for path in ("abcq", "abxy", "q", "")] == [3, 4, 0, 0]


def test_the_least_recently_used_prompt_is_dropped_first_and_from_its_end():
    model = CacheModel(5 * BLOCK)
    for path in ("abc", "xyz"):
        model.touch(chain(path))

    assert (matched_links(model, "abc"), matched_links(model, "xyz")) == (2, 3)


@given(st.lists(st.text("ab", min_size=1, max_size=8), max_size=30), st.integers(1, 12))
def test_a_match_found_by_halving_is_that_of_an_lru_of_blocks(paths, room):
    model, cache = CacheModel(room * BLOCK), BlockCache(room)
    for path in paths:
        prompt = chain(path)

        assert model.matched_links(prompt) == cache.read(prompt.links)
        model.touch(prompt)
        assert len(model) <= room


def learn(model: CacheModel, path: str, cached_tokens: int) -> None:
    """Send a prompt, and report what was cached of it."""
    prompt = chain(path)
    links = model.matched_links(prompt)
    used_at = model.used_at(prompt, links)
    model.touch(prompt)
    model.learn(prompt.tokens_at(links), used_at, cached_tokens)


@pytest.mark.parametrize(("lost", "held"), [("ijkl", [0, 0, 4]), ("efgh", [0, 4, 4])])
def test_report_of_a_lost_prompt_drops_those_used_before_it_and_none_after(lost, held):
    model = CacheModel(100 * BLOCK)
    for path in ("abcd", "efgh", "ijkl"):
        model.touch(chain(path))

    learn(model, lost, 0)

    assert [matched_links(model, path) for path in ("abcd", "efgh", "ijkl")] == held


def test_a_cache_model_does_not_learn_from_small_differences():
    model = CacheModel(100 * BLOCK)
    model.touch(chain("abcdefgh"))

    learn(model, "abcdefgh", 8 * BLOCK - 900)

    assert model.capacity_tokens == 100 * BLOCK


@pytest.mark.parametrize(
    ("assumed", "real", "least", "most"), [(64, 16, 0, 48), (16, 200, 32, 1_000)]
)
def test_room_of_a_cache_is_learned_from_what_it_kept(assumed, real, least, most):
    model, engine = CacheModel(assumed * BLOCK), BlockCache(real)
    prompts = "abcdefghijklmnopqrstuvwxyz"[: 10 if real < assumed else 26]
    for turn in range(200):
        path = prompts[turn * 7 % len(prompts)] + "0123"
        learn(model, path, BLOCK * engine.read(chain(path).links))

    assert least * BLOCK < model.capacity_tokens < most * BLOCK


@given(st.lists(st.tuples(st.text("ab", max_size=8), st.integers(0, 20_000)), max_size=60))
def test_room_and_memory_stay_bounded_whatever_an_engine_reports(calls):
    model = CacheModel(8 * BLOCK)
    for path, cached in calls:
        learn(model, path, cached)

        assert 0.5 * BLOCK <= model.capacity_tokens <= 32 * BLOCK
        assert len(model) <= 32


def test_a_cleared_model_matches_nothing_at_once_and_is_emptied_bit_by_bit():
    model = CacheModel(10_000 * BLOCK)
    long = PromptChain(tuple(range(2_000)), BLOCK, 2_000 * BLOCK)
    model.touch(long)

    model.clear()

    assert model.matched_links(long) == 0
    for _ in range(4):
        model.touch(chain("a"))
    assert len(model) == 1


def test_a_replica_with_another_cache_size_is_resized():
    model = CacheModel(100 * BLOCK)
    model.touch(chain("abcdefgh"))

    model.resize(4 * BLOCK)
    model.touch(chain("xy"))

    assert len(model) == 4


@given(
    st.lists(st.text("ab", min_size=1, max_size=8), max_size=20),
    st.integers(1, 12),
    st.text("ab", max_size=8),
    st.integers(0, 10),
)
def test_a_guess_of_the_match_does_not_change_it(paths, room, path, guess):
    model = CacheModel(room * BLOCK)
    for number, text in enumerate(paths):
        used_at = model.used_at(chain(text), matched_links(model, text))
        expected = matched_links(model, text) * BLOCK
        model.touch(chain(text))
        if number % 5 == 4:
            model.learn(expected, used_at, 0)

    assert model.matched_links(chain(path), guess) == matched_links(model, path)
