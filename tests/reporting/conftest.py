"""A server of `offleash view` over hostile texts, for all that is asked of it."""

from collections.abc import Iterator

import pytest

from offleash.reporting.samples import Shelf
from offleash.reporting.view import ViewServer
from tests.reporting.view_world import serving, shelf_in


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    return shelf_in(tmp_path_factory.mktemp("view"))


@pytest.fixture(scope="module")
def server(shelf: Shelf) -> Iterator[ViewServer]:
    with serving(shelf) as found:
        yield found
