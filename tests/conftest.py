from __future__ import annotations

import pytest

from bench.replay import Cuts
from bench.sessions import load
from bench.tokens import counter


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--nightly", action="store_true", help="run the long tests too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--nightly"):
        for item in items:
            if "nightly" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="a long test: make nightly"))


@pytest.fixture(scope="session")
def bundled():
    """The bundled sessions."""
    return load().sessions


@pytest.fixture(scope="session")
def cuts(bundled):
    """All cuts of the bundled sessions."""
    return [cut for session in bundled for cut in Cuts().of(session, counter())[0]]
