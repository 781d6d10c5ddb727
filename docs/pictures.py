"""The README's picture of entities: a real output of `EntityTagger.show`, as a page to photograph.

    python docs/pictures.py entities.html
    chromium --headless --force-device-scale-factor=2 --window-size=900,240 \
        --screenshot=docs/entities.png entities.html

Run it again when the shipped model changes.
"""

import sys
from pathlib import Path

import biomed

NOTE = """\
CC: shortness of breath. 71M w/ PMH of HTN, DM2 and CHF (EF 30%), s/p CABG 2015.
Stopped his furosemide two weeks ago. No chest pain, no fever. Mother had breast cancer.
A/P: acute decompensated heart failure - start IV Lasix 40 mg BID, hold metformin,
continue lisinopril 10 mg daily and aspirin. Return if dizziness."""
STYLE = "font: 16px/1.9 sans-serif; margin: 16px 20px; width: 860px"

if __name__ == "__main__":
    page = biomed.EntityTagger.from_pretrained().show(NOTE)._repr_html_()
    Path(sys.argv[1]).write_text(
        f"<meta charset=utf-8><body style='{STYLE}'>{page}", "utf-8"
    )
