"""Fixtures of the migration tests."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from consumer.store import migrate
from consumer.store.schema import HEAD

from .helpers import MIGRATIONS

NEXT = '''"""One migration more, for a test."""

import sys

from alembic import op

revision = "9000"
down_revision = "{head}"
branch_labels = None
depends_on = None


def upgrade() -> None:
{body}


def downgrade() -> None:
    pass
'''


@pytest.fixture
def add_migration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Put a copy of the migrations with one more behind `consumer.store.migrate`; gives the copy's folder."""

    def add(*statements: str) -> Path:
        folder = tmp_path / "migrations"
        shutil.copytree(MIGRATIONS, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        body = "\n".join(f"    {statement}" for statement in statements)
        (folder / "versions" / "9000_next.py").write_text(NEXT.format(body=body, head=HEAD))
        shutil.rmtree(folder / "versions" / "__pycache__", ignore_errors=True)  # the seconds of a file tell too little
        monkeypatch.setattr(migrate, "_folder", lambda: folder)
        return folder

    return add
