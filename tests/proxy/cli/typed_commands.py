"""Commands as a person types them, and their output."""

import re

from typer.testing import CliRunner, Result

from proxy.cli.main import _commands

#: The command line, for an interpreter of its own.
SERVE = "from proxy.cli.main import main; main()"
KEY = re.compile(r"tg-[\w-]{40}")


def typed(*words: str, **settings: str) -> Result:
    env = {f"THRIFTGATE_{name.upper()}": value for name, value in settings.items()}
    return CliRunner().invoke(_commands, words, env=env)


def told(*words: str, **settings: str) -> str:
    """Return what a command that succeeds prints."""
    result = typed(*words, **settings)
    assert result.exit_code == 0, result.output
    assert re.fullmatch(r"(Ledger: \S+\n)?", result.stderr)
    return result.stdout


def refused(*words: str, **settings: str) -> str:
    """Return what a command that fails says; never a traceback."""
    result = typed(*words, **settings)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return result.stderr
