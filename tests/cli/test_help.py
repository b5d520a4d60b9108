"""Help: six groups of verbs, options under headings, and shell completion that follows the declarations."""

import shutil
import subprocess
import sys

import pytest

from offleash.cli.completion import SCRIPTS, candidates
from offleash.cli.main import overview
from offleash.cli.verbs import SECTIONS, VERBS
from offleash.signatures import describe
from tests.cli.command import offleash, refused


def test_the_overview_has_six_groups_and_fits_80_columns() -> None:
    assert list(SECTIONS) == ["Start", "Measure", "Explain", "Exact", "Train", "Data"]
    shown = overview()
    assert all(f"\n{section}:\n" in shown for section in SECTIONS)
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("verb", ["compare", "draw", "study", "verify"])
def test_a_verb_with_many_options_shows_them_under_headings(verb: str) -> None:
    shown = offleash(verb, "--help").out
    assert "How samples are judged:" in shown
    headings = {option.heading for option in describe(VERBS[verb].load()).options.values() if option.heading}
    assert all(f"\n{heading}:\n" in shown for heading in headings)


def test_every_verb_option_and_choice_is_completed() -> None:
    assert set(candidates([""])) >= {name.partition(" ")[0] for name in VERBS}
    assert candidates(["plan", ""]) == ["samples", "training"]
    assert candidates(["completion", "z"]) == ["zsh"]
    assert candidates(["figure", "pl"]) == ["plane"]
    assert candidates(["draw", "aime24", "hf:x", "--decoding", "p"]) == ["plain", "paper"]
    assert candidates(["draw", "aime24", "--no-v"]) == ["--no-verify"]
    assert candidates(["compare", "runs/ba"]) == [], "files are the shell's own"
    assert candidates(["nowhere", "--"]) == []
    for name, verb in VERBS.items():
        typed = candidates([*name.split(), "--"])
        known = {option.name for option in describe(verb.load()).options.values() if option.name.startswith("--")}
        assert known | {"--json", "--help"} <= set(typed), name


@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_script_is_printed_and_its_shell_reads_it(shell: str) -> None:
    script = offleash("completion", shell).out
    assert "offleash __complete" in script
    if shutil.which(shell):
        checked = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True)
        assert checked.returncode == 0, checked.stderr


def test_bash_completes_through_the_command(tmp_path: object) -> None:
    if shutil.which("bash") is None:
        pytest.skip("there is no bash here")
    command = f"{sys.executable} -m offleash"
    words = "COMP_WORDS=(offleash stu); COMP_CWORD=1; _offleash; echo ${COMPREPLY[@]}"
    script = f'offleash() {{ {command} "$@"; }}\n{SCRIPTS["bash"]}\n{words}'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "study", done.stderr


def test_a_shell_that_is_not_known_is_refused() -> None:
    refused(offleash("completion"), "bash, zsh or fish")
    refused(offleash("completion", "bsh"), "Did you mean 'bash'")
