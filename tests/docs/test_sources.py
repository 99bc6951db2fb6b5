"""The page about sources of one's own: its source, run as it stands there, passes the checks."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "sources" / "own.md"


async def test_the_source_of_the_page_passes_the_test_of_the_page(tmp_path: Path) -> None:
    source, test = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}
    exec(source + test, names)
    await names["test_the_outbox_is_a_source"](tmp_path)
