"""``thriftgate engine demo`` before it starts an engine: the extra and the price."""

import pytest
import typer
from typer.testing import CliRunner

from proxy.cli import session
from proxy.cli.engines.engine_demo import add_engine_demo


def run_demo(*arguments: str, has_extra: bool = False):
    commands = typer.Typer()
    commands.callback()(lambda: None)
    add_engine_demo(commands, session.terminal, lambda: has_extra)
    return CliRunner().invoke(commands, ["demo", *arguments])


def test_without_the_extra_the_engine_demo_names_the_command_that_installs_it():
    result = run_demo("--exit")

    assert result.exit_code == 1
    assert "pip install 'thriftgate[local]'" in result.output


@pytest.mark.parametrize("price", ["free", "-1", "nan", "0"])
def test_a_price_that_is_none_ends_the_engine_demo_before_an_engine_starts(price):
    result = run_demo("--price", price, has_extra=True)

    assert result.exit_code == 1
    assert f"--price is {price}: write US dollars an hour" in result.output
