"""The examples of README.md and of the references: commands run, TOML files pass the check."""

import ast
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_group

from proxy.cli.gateway_process import _make_first_key
from proxy.cli.main import _commands
from proxy.settings import PREFIX, Settings
from proxy.store.store import Store
from tests.fakes.databases import migrated_sqlite

ROOT = Path(__file__).resolve().parents[1]
CATALOG = PREFIX + "CATALOG"
#: The setting that names the policies file, under its present name or its former one.
POLICIES = next(PREFIX + n.upper() for n in ("policies",) if n in Settings.model_fields)


#: A command that README.md shows, and that waits for what a test has not: a call's id, vLLM.
UNRUN = re.compile(r"…|engine serve")


def blocks(language: str, readme: str = "README.md") -> list[str]:
    """The code blocks of a language."""
    text = (ROOT / readme).read_text(encoding="utf8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def command_lines() -> list[str]:
    """Each `thriftgate …` of README.md's shell blocks and sentences, without its comment."""
    text = (ROOT / "README.md").read_text(encoding="utf8")
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    parts = [part for line in lines for part in line.partition("#")[0].split("&&")]
    inline = re.findall(r"`(thriftgate [^`\n]+)`", text)
    return [part.strip() for part in (*parts, *inline) if part.strip().startswith("thriftgate ")]


def parse_command(line: str) -> Any:
    """The context of a command line's last command; click refuses a wrong name, word or option."""
    name, *words = shlex.split(line)
    context = get_group(_commands).make_context(name, words)
    while hasattr(context.command, "resolve_command"):
        rest = [*context._protected_args, *context.args]
        if not rest:  # a group that is a command, too, such as `thriftgate objectives`
            break
        name, command, rest = context.command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)
    return context


@pytest.fixture
def installation(tmp_path: Path) -> dict[str, str]:
    """The environment of a gateway that was started once, with README.md's files beside it."""
    store = Store.open(migrated_sqlite(tmp_path / "thriftgate.db"), tmp_path / "journal")
    _make_first_key(store)
    store.close(10)
    for block in blocks("toml"):
        name = re.search(r"# in (\w+\.toml)", block)
        assert name, block
        with (tmp_path / name[1]).open("a", encoding="utf8") as file:
            file.write(block)
    chat = {"messages": [{"role": "user", "content": "Good morning."}] * 9}
    (tmp_path / "chat.json").write_text(json.dumps(chat), encoding="utf8")
    return {
        **os.environ,  # noqa: TID251 - a child needs ours
        "PYTHONPATH": f"{ROOT}",
        "OPENAI_API_KEY": "sk-test",
        PREFIX + "FOLDER": f"{tmp_path}",
        PREFIX + "POLICIES": "policies.toml",
    }


def run(line: str, folder: Path, environment: dict[str, str]) -> str:
    """Return what a command line prints; it has to exit with 0."""
    ran = subprocess.run(  # noqa: S603 - the words are README.md's
        [sys.executable, "-c", "from proxy.cli.main import main; main()", *shlex.split(line)[1:]],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert ran.returncode == 0, line + "\n" + ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


def examples(readme: str) -> str:
    """Every TOML block in one file; a block of keys of the top level comes first."""
    return "\n".join(sorted(blocks("toml", readme), key=lambda block: block.startswith("[")))


def run_check(folder: Path, setting: str, readme: str) -> str:
    """Return what `thriftgate check` prints with the examples in force; it has to exit with 0."""
    path = folder / "examples.toml"
    path.write_text(examples(readme), encoding="utf8")
    given = {
        setting: f"{path}",
        "THRIFTGATE_FOLDER": f"{folder}",
        "OPS_URL": "https://ops.example/alerts",
        "OPS_SECRET": "a secret that signs",
    }
    environment = {**os.environ, **given}  # noqa: TID251 - a child needs ours
    return run("thriftgate check", ROOT, environment)


def test_the_examples_of_the_catalog_reference_pass_the_check(tmp_path):
    assert "11 upstreams" in run_check(tmp_path, CATALOG, "proxy/catalog/README.md")


def test_the_examples_of_the_policies_reference_pass_the_check(tmp_path):
    output = run_check(tmp_path, POLICIES, "slo/README.md")

    assert "1 budget, 1 ceiling, 4 objectives, 1 sink" in output


def test_command_lines_of_the_readme_are_found():
    lines = command_lines()

    assert {"thriftgate check", "thriftgate savings", "thriftgate misses --days 7"} <= {*lines}
    assert len(lines) > 10


@pytest.mark.parametrize("line", command_lines())
def test_command_line_of_the_readme_names_a_command_and_its_options(line: str):
    assert parse_command(line).command.name in line.split()


@pytest.mark.parametrize(
    "line",
    ["thriftgate mises", "thriftgate misses --week 7", "thriftgate compaction mode chat facts"],
)
def test_wrong_command_line_is_refused(line: str):
    with pytest.raises(Exception, match=r"No such|Missing"):
        parse_command(line)


def test_tasks_of_the_readme_run_on_a_new_installation(
    tmp_path: Path, installation: dict[str, str]
):
    tasks = [line for line in command_lines() if line in "".join(blocks("sh"))]
    runnable = [task for task in tasks if not UNRUN.search(task)]
    printed = {task: run(task, tmp_path, installation) for task in runnable}

    assert "1 budget, 1 objective" in printed["thriftgate check"]
    assert "teams-month" in printed["thriftgate budgets"]
    assert "chat" in printed["thriftgate compaction list"]


def test_python_examples_of_the_readme_are_python():
    for block in blocks("python"):
        ast.parse(block)
