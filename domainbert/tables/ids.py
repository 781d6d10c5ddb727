"""Ids: how they are shown, and how they are compared."""

from __future__ import annotations

import re
import unicodedata


def id_text(value: object) -> str | None:
    """An id as shown: text, stripped; None where missing."""
    if value is None or value != value or type(value).__name__ in ("NAType", "NaTType"):
        return None
    return str(value).strip() or None


def id_key(value: object) -> str | None:
    """An id as compared: stripped, NFKC, case-folded, "1001.0" as "1001"; None where missing."""
    text = None if type(value).__name__ in ("NAType", "NaTType") else id_text(value)
    if text is None:
        return None
    return re.sub(r"(?<=\d)\.0+$", "", unicodedata.normalize("NFKC", text).casefold())
