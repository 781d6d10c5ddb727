"""Note cleaning that keeps every character in place.

Cleaning replaces marks without meaning by spaces and never moves a character, so a span of the
cleaned note is the same span of the original. BERT's tokenizer ignores the spaces.
"""

from __future__ import annotations

import re

# De-identification marks of MIMIC-III ([**2151-7-16**], [**Known lastname 1234**]) and of
# MIMIC-IV (___), rules drawn with dashes or equals signs, and the number of a section or list
# item at the start of a line ("3. Congestive heart failure").
_MARKS = re.compile(
    r"\[\*\*[^\[\]]{0,300}\*\*\]"
    r"|_{2,}"
    r"|[-=*~#]{3,}"
    r"|^[ \t]{0,40}\d{1,2}[.)](?=[ \t])",
    re.MULTILINE,
)


def clean(note: str) -> str:
    """The note with marks that carry no meaning replaced by spaces; of the same length."""
    return _MARKS.sub(lambda mark: re.sub(r"[^\n]", " ", mark.group()), note)
