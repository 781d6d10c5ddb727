"""Results as JSON files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def write_json(document: dict[str, Any], path: Path) -> None:
    """Write a document under a temporary name, then rename it."""
    from domainbert.tables import atomic_path

    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
