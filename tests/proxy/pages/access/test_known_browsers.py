"""A browser's cookie shows that one person signed in there, and nothing else does."""

from hypothesis import given
from hypothesis import strategies as st

from proxy.pages.access.known_browsers import KnownBrowsers

BROWSERS = KnownBrowsers(b"a secret of the installation")


def test_a_cookie_is_known_for_its_person_alone() -> None:
    cookie = BROWSERS.new_cookie("ann")

    assert BROWSERS.browser(cookie, "ann")
    assert BROWSERS.browser(cookie, "ann") != BROWSERS.browser(BROWSERS.new_cookie("ann"), "ann")
    assert not BROWSERS.browser(cookie, "bob")
    assert "ann" not in cookie


def test_a_cookie_of_another_installation_is_none() -> None:
    assert not KnownBrowsers(b"another").browser(BROWSERS.new_cookie("ann"), "ann")


@given(st.data(), st.text(max_size=90))
def test_a_changed_or_invented_cookie_is_none(data, text) -> None:
    cookie = BROWSERS.new_cookie("ann")
    place = data.draw(st.integers(0, len(cookie) - 1))
    letter = data.draw(st.characters().filter(lambda other: other != cookie[place]))

    assert not BROWSERS.browser(cookie[:place] + letter + cookie[place + 1 :], "ann")
    assert not BROWSERS.browser(text, "ann")
    assert not BROWSERS.browser(text, text)
