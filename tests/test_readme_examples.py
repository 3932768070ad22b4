"""The TOML examples of the references pass `thriftgate check`."""

import os
import re
import subprocess
import sys
from pathlib import Path

from proxy.settings import PREFIX, Settings

ROOT = Path(__file__).resolve().parents[1]
CATALOG = PREFIX + "CATALOG"
#: The setting that names the policies file, under its present name or its former one.
POLICIES = next(PREFIX + n.upper() for n in ("policies",) if n in Settings.model_fields)


def examples(readme: str) -> str:
    """Every TOML block in one file; a block of keys of the top level comes first."""
    text = (ROOT / readme).read_text(encoding="utf8")
    blocks = re.findall(r"^```toml\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    return "\n".join(sorted(blocks, key=lambda block: block.startswith("[")))


def checked(folder: Path, setting: str, readme: str) -> str:
    """Return what `thriftgate check` prints with the examples in force; it has to exit with 0."""
    path = folder / "examples.toml"
    path.write_text(examples(readme), encoding="utf8")
    given = {
        setting: f"{path}",
        "THRIFTGATE_FOLDER": f"{folder}",
        "OPS_URL": "https://ops.example/alerts",
        "OPS_SECRET": "a secret that signs",
    }
    ran = subprocess.run(
        [sys.executable, "-c", "from proxy.cli.main import main; main()", "check"],
        cwd=ROOT,
        env={**os.environ, **given},  # noqa: TID251 - a child needs ours
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_the_examples_of_the_catalog_reference_pass_the_check(tmp_path):
    assert "10 upstreams" in checked(tmp_path, CATALOG, "proxy/catalog/README.md")


def test_the_examples_of_the_policies_reference_pass_the_check(tmp_path):
    told = checked(tmp_path, POLICIES, "slo/README.md")

    assert "1 budget, 1 ceiling, 4 objectives, 1 sink" in told
