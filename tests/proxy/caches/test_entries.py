from proxy.caches.entries import CacheEntries, EntryLife


def test_an_entry_is_live_once_begun_and_until_it_ends() -> None:
    entries = CacheEntries(10)
    entries.write(b"a", EntryLife(0, 10))
    before = entries.is_readable(b"a", 5)
    entries.begin(b"a")

    assert not before
    assert entries.is_readable(b"a", 10)
    assert not entries.is_readable(b"a", 10.1)
    assert not entries.is_readable(b"b", 0)


def test_using_an_entry_starts_its_lifetime_anew_up_to_its_limit() -> None:
    entries = CacheEntries(10)
    entries.write(b"a", EntryLife(0, 10, limit=15))
    entries.begin(b"a")
    entries.renew(b"a", 9)

    assert entries.is_readable(b"a", 15)
    assert not entries.is_readable(b"a", 16)


def test_a_clock_that_is_a_little_behind_shortens_no_lifetime() -> None:
    entries = CacheEntries(10)
    entries.write(b"a", EntryLife(10, 10))
    entries.begin(b"a")
    entries.renew(b"a", 5)

    assert entries.is_readable(b"a", 20)


def test_dead_or_unknown_entries_cannot_be_refreshed() -> None:
    entries = CacheEntries(10)
    entries.write(b"a", EntryLife(0, 10))
    entries.begin(b"a")
    entries.begin(b"b")
    entries.renew(b"a", 11)
    entries.renew(b"b", 11)

    assert not entries.is_readable(b"a", 12)
    assert len(entries) == 1


def test_the_least_recently_used_goes_first() -> None:
    entries = CacheEntries(2)
    for digest in (b"a", b"b"):
        entries.write(digest, EntryLife(0, 10))
        entries.begin(digest)
    entries.renew(b"a", 1)
    entries.write(b"c", EntryLife(0, 10))

    assert entries.is_readable(b"a", 1)
    assert not entries.is_readable(b"b", 1)
    assert len(entries) == 2


def test_writing_an_entry_again_counts_as_use() -> None:
    entries = CacheEntries(2)
    for digest in (b"a", b"b", b"a", b"c"):
        entries.write(digest, EntryLife(0, 10))
        entries.begin(digest)

    assert entries.is_readable(b"a", 1)
    assert not entries.is_readable(b"b", 1)


def test_an_entry_that_begins_later_is_live_from_then_on() -> None:
    life = EntryLife(0, 10, begins=2)

    assert [life.is_live(now) for now in (1, 2, 10, 11)] == [False, True, True, False]
    assert life.after_use(1) == life
    assert life.after_use(3).ends == 13
