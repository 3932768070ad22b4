import time

import pytest

from compaction.agents.shell_steps import shell_steps


@pytest.mark.parametrize(
    ("command", "programs"),
    [
        ("cd /repo && sed -n '10,20p' src/a.py | head -5", ["cd", "sed", "head"]),
        ("FOO=1 timeout 60 python -m pytest -q; echo done", ["python", "echo"]),
        ("(cd x; ls) || sudo rm -f y", ["cd", "ls", "rm"]),
        ("./run.sh\n/usr/bin/git status", ["run.sh", "git"]),
        ("uv run pytest tests", ["pytest"]),
        ("grep -n \"a && b; c\" 'f g.py'", ["grep"]),
        ("", []),
        ("&& ; |", []),
    ],
)
def test_a_command_is_read_as_the_programs_it_runs(command, programs):
    assert [step.program for step in shell_steps(command)] == programs


def test_quotes_are_taken_off_and_options_are_no_operands():
    (step,) = shell_steps("""sed -i '' "s/a;b/c/" 'my file.py' it\\'s""")

    assert step.words == ("sed", "-i", "", "s/a;b/c/", "my file.py", "it's")
    assert step.operands == ["s/a;b/c/", "my file.py", "it's"]


def test_a_text_given_to_a_command_is_no_command():
    first, second = shell_steps("cat > a/b.py <<'EOF'\nx = 1; rm -rf y\nEOF\npython a/b.py 2>&1")

    assert (first.program, first.writes, first.given) == ("cat", "a/b.py", "x = 1; rm -rf y\n")
    assert not first.appends
    assert second.words == ("python", "a/b.py")


def test_an_output_may_be_added_to_a_file():
    (step,) = shell_steps("echo x >> log.txt 2>/dev/null < in.txt")

    assert step.appends
    assert step.words == ("echo", "x", "in.txt")


def test_long_and_odd_commands_take_no_time():
    before = time.process_time()
    for text in ("'" * 40_000, "a<<b\n" * 8_000, "\\" * 40_000, "a " * 40_000, '"\\' * 20_000):
        shell_steps(text)

    assert time.process_time() - before < 1


def test_the_first_16000_characters_of_a_command_are_read():
    within, beyond = f"ls{' ' * 15_995};rm", f"ls{' ' * 15_996};rm"

    assert len(within) == 16_000
    assert [step.program for step in shell_steps(within)] == ["ls", "rm"]
    assert [step.program for step in shell_steps(beyond)] == ["ls", "r"]
