"""Starting: the command answers at once and drags nothing heavy in."""

import subprocess
import sys

HEAVY = ("torch", "sympy", "matplotlib", "polars", "scipy", "numpy")


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv = ['offleash', '--help']\n"
        "from offleash.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"print('LOADED', [name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "compare" in done.stdout
    assert done.stdout.rstrip().endswith("LOADED []")


def test_comparing_needs_no_torch_sympy_or_matplotlib() -> None:
    code = (
        "import sys\nimport offleash\n"
        "offleash.compare, offleash.load, offleash.document, offleash.pass_curve\n"
        "print('LOADED', [name for name in ('torch', 'sympy', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "LOADED []"


def test_the_version_is_printed() -> None:
    import offleash
    from tests.cli.command import offleash as command

    assert command("--version").out.strip() == f"offleash {offleash.__version__}"
