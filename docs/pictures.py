"""The README's two pictures: real outputs of the shipped models, photographed as web pages.

    python docs/pictures.py          # writes docs/risk.png, docs/entities.png and their dark twins

Run it again when a shipped model changes. It needs Chromium, and no network. `--pages FOLDER` also
keeps the pages, to look at them in a browser.
"""

from __future__ import annotations

import argparse
import html
import subprocess
import tempfile
from pathlib import Path

import biomed
import clinical

DOCS = Path(__file__).parent
WIDTH = 900
HEIGHTS = {"risk": 400, "entities": 580}  # pixels at that width
SUMMARY = """\
71M with heart failure, readmitted for the third time this year.
Hospital course: IV furosemide, weight down 6 kg. Uneventful stay.
Lives alone and missed several doses at home because he could not afford them.
Denies chest pain. Walks with a cane.
Discharged home. Clinic visit in 5 days, and a nurse will visit."""
NOTE = """\
CC: shortness of breath. 71M w/ PMH of HTN, DM2 and CHF (EF 30%), s/p CABG 2015.
Stopped his furosemide two weeks ago. No chest pain, no fever. Mother had breast cancer.
Allergies: penicillin.
A/P: acute decompensated heart failure - start IV Lasix 40 mg BID, hold metformin,
continue lisinopril 10 mg daily and aspirin. Return if dizziness."""
MESH = [  # names and ids that the note is linked to
    ("heart failure", "MESH:D006333"),
    ("congestive heart failure", "MESH:D006333"),
    ("hypertension", "MESH:D006973"),
    ("type 2 diabetes mellitus", "MESH:D003924"),
    ("furosemide", "MESH:D005665"),
    ("Lasix", "MESH:D005665"),
    ("metformin", "MESH:D008687"),
    ("lisinopril", "MESH:D017706"),
    ("aspirin", "MESH:D001241"),
]
ATTRIBUTES = ("dose", "unit", "route", "frequency")
PAGE = """<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>{name}</title>
<style>
:root {{ --ink: #1f2328; --paper: #ffffff; --line: #d0d7de; }}
.dark {{ --ink: #e6edf3; --paper: #0d1117; --line: #3d444d; }}
body {{ margin: 0; padding: 16px 20px; background: var(--paper); color: var(--ink);
  font: 15px/1.6 system-ui, "Liberation Sans", sans-serif; }}
.risk {{ display: flex; flex-wrap: wrap; gap: 8px 28px; align-items: flex-start; }}
.risk > div:first-child {{ flex: 0 0 auto; }}
.risk > div:last-child {{ flex: 1 1 420px; }}
.number {{ font-size: 58px; line-height: 1; font-weight: 600; }}
table {{ border-collapse: collapse; margin-top: 12px; font-size: 14px; }}
td, th {{ border-top: 1px solid var(--line); padding: 3px 14px 3px 0; text-align: left; }}
th {{ border: 0; font-weight: 600; }}
</style>
<body class="{theme}">{body}</body></html>
"""


def risk_page() -> str:
    """A discharge summary with its passages, and its risk beside it."""
    model = clinical.ReadmissionModel.from_pretrained("readmission-demo")
    explanation = model.explain(SUMMARY, top=2)
    number = f"{explanation.risk.probability:.0%}"
    caption = "readmitted<br>within 30 days"
    view = explanation.show()._repr_html_()
    return (
        f'<div class="risk"><div><div class="number">{number}</div>{caption}</div>'
        f"{view}</div>"
    )


def entities_page() -> str:
    """A note with its entities, and a table of those that are linked or are medications."""
    linker = biomed.EntityLinker(
        biomed.Dictionary(MESH), biomed.TermEmbedder.from_pretrained()
    )
    tagger = biomed.EntityTagger.from_pretrained(linker=linker)
    rows = [
        "<th>"
        + "<th>".join(["text", "position", "meaning", "code", "medication"])
    ]
    for entity in tagger.tag(NOTE):
        drug = entity.medication
        line = [drug[kind] for kind in ATTRIBUTES] if drug else []
        regimen = " ".join([*filter(None, line), (drug and drug.status) or ""])
        if entity.id or regimen.strip():
            cells = (
                entity.text,
                f"{entity.start}–{entity.end}",
                entity.assertion,
                entity.id or "",
                regimen,
            )
            rows.append("<td>" + "<td>".join(map(html.escape, cells)))
    view = tagger.show(NOTE)._repr_html_()
    return f"{view}<table><tr>{'<tr>'.join(rows)}</table>"


def photograph(page: Path, picture: Path, *, width: int, height: int) -> None:
    """Write a page as a PNG, at twice the pixels."""
    options = [
        "--headless",
        "--no-sandbox",
        "--hide-scrollbars",
        "--disable-gpu",
    ]
    options += [
        "--force-device-scale-factor=2",
        f"--window-size={width},{height}",
    ]
    command = ["chromium", *options, f"--screenshot={picture}", page.as_uri()]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603


def main() -> None:
    """Write both pictures, light and dark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--pages", type=Path, help="a folder to keep the pages in"
    )
    asked = parser.parse_args()
    bodies = {"risk": risk_page(), "entities": entities_page()}
    with tempfile.TemporaryDirectory() as work:
        folder = asked.pages or Path(work)
        for name, body in bodies.items():
            for theme in ("light", "dark"):
                suffix = "" if theme == "light" else "-dark"
                page = (folder / f"{name}{suffix}.html").resolve()
                text = PAGE.format(name=name, theme=theme, body=body)
                page.write_text(text, "utf-8")
                picture = DOCS / f"{name}{suffix}.png"
                photograph(page, picture, width=WIDTH, height=HEIGHTS[name])


if __name__ == "__main__":
    main()
