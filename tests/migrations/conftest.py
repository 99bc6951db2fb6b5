"""Fixtures of the migration tests."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from consumer.store import migrate

from .helpers import MIGRATIONS

SECOND = '''"""A second migration, for a test."""

import sys

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
{body}


def downgrade() -> None:
    pass
'''


@pytest.fixture
def add_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Put a copy of the migrations with a second one behind `consumer.store.migrate`; gives the copy's folder."""

    def add(*statements: str) -> Path:
        folder = tmp_path / "migrations"
        shutil.copytree(MIGRATIONS, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        body = "\n".join(f"    {statement}" for statement in statements)
        (folder / "versions" / "0002_second.py").write_text(SECOND.format(body=body))
        shutil.rmtree(folder / "versions" / "__pycache__", ignore_errors=True)  # the seconds of a file tell too little
        monkeypatch.setattr(migrate, "_folder", lambda: folder)
        return folder

    return add
