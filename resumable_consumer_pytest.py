"""The pytest plugin of resumable-consumer: the fixture `exactly_once`.

pytest loads this module in every run, wherever resumable-consumer is installed. Therefore it stands outside of the
package `consumer` and imports nothing of it before the fixture is used: a project may well have a `consumer.py` or a
package `consumer` of its own, and its tests must run as if this were not there.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from consumer.testing import ExactlyOnce


@pytest.fixture
def exactly_once(tmp_path: Path) -> ExactlyOnce:
    """Prove that a handler's effect is there exactly once: `exactly_once(handler, events)`.

    The arguments are those of `consumer.testing.assert_exactly_once`, except that `url` may be left out: then the
    database is a SQLite file in the test's temporary folder.
    """
    found = _find_consumer()
    if found != Path(__file__).resolve().with_name("consumer"):
        pytest.fail(
            f"the fixture exactly_once needs the package consumer of resumable-consumer, but `import consumer` finds "
            f"{found or 'nothing'} here: rename it, or keep its folder off sys.path for this test",
            pytrace=False,
        )
    from consumer.testing import ExactlyOnce  # noqa: PLC0415 - see the head of this file

    return ExactlyOnce(tmp_path)


def _find_consumer() -> Path | None:
    """Find what `import consumer` gives, without importing it: a package's folder or a module's file."""
    try:
        spec = importlib.util.find_spec("consumer")
    except ValueError:  # somebody has put an object without a spec into sys.modules
        return None
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).resolve()
    return path.parent if path.name == "__init__.py" else path
