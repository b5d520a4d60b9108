"""Every public name has an example in its docstring, and what the example prints is what it says."""

import doctest
from pathlib import Path

import numpy as np
import pytest

import offleash as ol

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("name", ol.__all__)
def test_the_example_of_a_public_name_prints_what_it_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(EXAMPLES)
    documented = getattr(ol, name)
    scope = {"ol": ol, "np": np, "Path": Path}
    example = doctest.DocTestParser().get_doctest(documented.__doc__ or "", scope, name, None, None)
    assert example.examples, f"ol.{name} has no example in its docstring"
    said: list[str] = []
    failed, _ = doctest.DocTestRunner(verbose=False).run(example, out=said.append)
    assert not failed, "".join(said)
