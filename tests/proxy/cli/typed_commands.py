"""Commands as a person types them, and their output."""

import re

from typer.testing import CliRunner, Result

from proxy.cli.main import _commands

#: The command line, for an interpreter of its own.
SERVE = "from proxy.cli.main import main; main()"
KEY = re.compile(r"tg-[\w-]{40}")


def run_command(*words: str, **settings: str) -> Result:
    env = {f"THRIFTGATE_{name.upper()}": value for name, value in settings.items()}
    return CliRunner().invoke(_commands, words, env=env)


def command_output(*words: str, **settings: str) -> str:
    """Return what a command that succeeds prints."""
    result = run_command(*words, **settings)
    assert result.exit_code == 0, result.output
    assert re.fullmatch(r"(Ledger: \S+\n)?", result.stderr)
    return result.stdout


def command_error(*words: str, **settings: str) -> str:
    """Return what a command that fails says; never a traceback."""
    result = run_command(*words, **settings)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return result.stderr
