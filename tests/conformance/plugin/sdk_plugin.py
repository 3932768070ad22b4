"""A pytest plugin for an SDK's own tests: our keys, and no mocks inside the client."""

import os
from typing import Final

import pytest

KEY_VARIABLE = "CONFORMANCE_API_KEY"
#: Tests of what the client sends, which they ask of a mock inside it.
_CLIENT_TESTS: Final = "test_output_format_conversion.py"


class _Passing:
    """Takes every call of a mocked router and does nothing, so that requests leave the client."""

    def __getattr__(self, name):
        return lambda *args, **kwargs: self


class _Overrides:
    @pytest.fixture(name="respx2_mock")
    def respx2_mock(self):
        return _Passing()

    @pytest.fixture(name="respx_mock")
    def respx_mock(self):
        return _Passing()


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session):
    """Register the overriding fixture last: of two fixtures of plugins, the last one counts."""
    session.config.pluginmanager.register(_Overrides(), "thriftgate-overrides")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session, config, items):
    """Set the client's keys, and leave out the tests that send nothing."""
    key = os.environ[KEY_VARIABLE]  # noqa: TID251 - handed down by the runner
    for plugin in config.pluginmanager.get_plugins():
        if hasattr(plugin, "api_key") and hasattr(plugin, "base_url"):
            plugin.api_key = plugin.admin_api_key = key
    silent = [
        item
        for item in items
        if item.name.startswith("test_path_params_") or item.path.name == _CLIENT_TESTS
    ]
    config.hook.pytest_deselected(items=silent)
    items[:] = [item for item in items if item not in set(silent)]
