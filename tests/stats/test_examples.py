"""Every public statistic has an example in its docstring, and the example is true."""

import doctest
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest

import offleash as ol
from offleash import stats

MODULES = [
    importlib.import_module(f"offleash.stats.{iter_module.name}")
    for iter_module in pkgutil.iter_modules(stats.__path__)
]


def public(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Functions of a module and classes that have methods or properties of their own, by name."""
    for name, value in vars(module).items():
        if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isfunction(value) or (inspect.isclass(value) and has_methods(value)):
            yield name, value


def has_methods(value: type) -> bool:
    return any(
        not name.startswith("_") and (inspect.isfunction(member) or hasattr(member, "__get__"))
        for name, member in vars(value).items()
    )


DOCUMENTED = [(module, name) for module in MODULES for name, _ in public(module)]
NAMES = [f"{module.__name__.split('.')[-1]}.{name}" for module, name in DOCUMENTED]


@pytest.mark.parametrize(("module", "name"), DOCUMENTED, ids=NAMES)
def test_the_example_of_a_statistic_prints_what_it_says(module: ModuleType, name: str) -> None:
    text = inspect.getdoc(vars(module)[name]) or ""
    assert ">>>" in text, f"{name} has no example"
    scope = vars(module) | {"np": np, "ol": ol}
    example = doctest.DocTestParser().get_doctest(text, scope, name, None, None)
    printed: list[str] = []
    failed, _ = doctest.DocTestRunner(verbose=False).run(example, out=printed.append)
    assert failed == 0, "".join(printed)


@pytest.mark.parametrize(("module", "name"), DOCUMENTED, ids=NAMES)
def test_every_argument_of_a_statistic_is_described(module: ModuleType, name: str) -> None:
    value = vars(module)[name]
    if inspect.isfunction(value):
        text = inspect.getdoc(value) or ""
        assert "Returns:" in text
        assert [argument for argument in inspect.signature(value).parameters if f"    {argument}: " not in text] == []
