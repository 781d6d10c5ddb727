"""Note cleaning that keeps every character's place.

Cleaning writes spaces over what carries no meaning and never moves a character, so the map from
the cleaned note back to the original is the identity: a span in one is the same span in the
other. BERT's tokenizer ignores spaces, so nothing is lost by leaving them.
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
    """The note with marks that carry no meaning written over with spaces.

    Args:
        note: the original text.

    Returns:
        A text of the same length, in which every character kept stands where it stood.
    """
    return _MARKS.sub(lambda mark: re.sub(r"[^\n]", " ", mark.group()), note)
