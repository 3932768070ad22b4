import pytest

from proxy.fast_path.answer_cache.cache_control import (
    ANYTHING,
    CacheControl,
    parse_cache_control,
    parse_tags,
)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", ANYTHING),
        ("no-store", CacheControl(no_store=True)),
        ("No-Cache", CacheControl(no_cache=True)),
        ("max-age=0", CacheControl(max_age=0)),
        ('no-transform, max-age="60" , no-cache', CacheControl(no_cache=True, max_age=60)),
        ("max-age=-1, max-age=x, max-age=², max-age=", ANYTHING),
        ("public" + "," * 1000 + "no-store", ANYTHING),
    ],
)
def test_a_cache_control_header_is_read_and_what_it_says_besides_is_passed_over(header, expected):
    assert parse_cache_control(header) == expected


def test_tags_are_eight_names_at_most_each_once():
    header = ", ".join(["a", "a", "kb/1", "b c", "", "-x", *map(str, range(9))])

    assert parse_tags(header) == ("a", "kb/1", "0", "1", "2", "3", "4", "5")


def test_a_long_header_of_tags_is_cut():
    assert parse_tags("x" * 10_000) == ()
