"""A server of `offleash view` over hostile texts, for all that is asked of it."""

from collections.abc import Iterator

import pytest

from offleash.reporting.samples import SampleStore
from offleash.reporting.view import ViewServer
from tests.reporting.view_world import serving, shelf_in


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> SampleStore:
    return shelf_in(tmp_path_factory.mktemp("view"))


@pytest.fixture(scope="module")
def server(store: SampleStore) -> Iterator[ViewServer]:
    with serving(store) as found:
        yield found
