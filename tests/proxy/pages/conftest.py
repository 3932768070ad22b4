"""A browser before the admin pages."""

import pytest

from tests.fakes.admin_browser import Browser


@pytest.fixture
def browser() -> Browser:
    return Browser()


@pytest.fixture
def signed_in(browser: Browser) -> Browser:
    assert browser.sign_in().status == 303
    return browser
