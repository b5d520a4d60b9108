"""Starting: the command answers at once and drags nothing heavy in. How long it takes: benchmarks/start.py."""

import subprocess
import sys
from pathlib import Path

import pytest

from offleash.cli.verbs import VERBS

HEAVY = ("torch", "sympy", "matplotlib", "altair", "polars", "scipy", "numpy", "pydantic", "rich", "httpx2", "tenacity")


def loaded(code: str, names: tuple[str, ...]) -> list[str]:
    """Which of some modules a fresh process has after running the code."""
    whole = f"import sys\n{code}\nprint('LOADED', *[name for name in {names} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1].split()[1:]


def shown(words: list[str]) -> str:
    """Code that runs a command."""
    return (
        f"sys.argv = {['offleash', *words]!r}\nfrom offleash.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass"
    )


def test_the_overview_needs_not_even_typer() -> None:
    assert loaded(shown(["--help"]), (*HEAVY, "typer")) == []


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_a_verb_imports_nothing_heavy(verb: str) -> None:
    assert loaded(shown([*verb.split(), "--help"]), HEAVY) == []


def test_importing_the_package_imports_nothing_heavy() -> None:
    assert loaded("import offleash as ol\nol.compare, ol.draw, ol.Decoding, ol.demo", (*HEAVY, "typer")) == []


def test_comparing_counts_needs_no_torch_sympy_altair_or_pydantic() -> None:
    code = (
        "import offleash as ol\n"
        "ol.compare('examples/counts/base.csv', 'examples/counts/rl.csv', replicates=100).to_dict()"
    )
    assert loaded(code, ("torch", "sympy", "matplotlib", "altair", "pydantic", "typer", "httpx2", "tenacity")) == []


@pytest.fixture(scope="module")
def modules_of_a_comparison() -> list[str]:
    """Everything that is loaded when `offleash compare` has printed the comparison of two CSV files of counts."""
    code = shown(["compare", "examples/counts/base.csv", "examples/counts/rl.csv"])
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nprint('LOADED', *sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()[-1].split()[1:]


def test_comparing_counts_loads_at_most_80_modules_of_ours(modules_of_a_comparison: list[str]) -> None:
    ours = [name for name in modules_of_a_comparison if name.split(".")[0] == "offleash"]
    assert len(ours) <= 80, ours


@pytest.mark.parametrize("part", ["samplers", "problems", "verifiers", "verifying", "drawing", "training"])
def test_comparing_counts_loads_nothing_that_draws_or_judges(part: str, modules_of_a_comparison: list[str]) -> None:
    assert [name for name in modules_of_a_comparison if name.startswith(f"offleash.{part}.")] == []


def test_comparing_counts_imports_no_scipy(modules_of_a_comparison: list[str]) -> None:
    assert [name for name in modules_of_a_comparison if name.split(".")[0] == "scipy"] == []


def test_scipy_stats_is_never_imported() -> None:
    code = "import offleash as ol\nol.compare('examples/counts/base.csv', 'examples/counts/rl.csv').to_dict()"
    assert loaded(code, ("scipy.stats",)) == []
    named = [path for path in Path("offleash").rglob("*.py") if "scipy.stats import" in path.read_text("utf-8")]
    assert named == []


def test_the_version_is_printed() -> None:
    import offleash
    from tests.cli.command import offleash as command

    assert command("--version").out.strip() == f"offleash {offleash.__version__}"
