"""Tables of entities as OMOP and FHIR."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from biomed.ner.dictionaries import ENDING, DictionaryFile
from biomed.ner.entities import NEEDED
from biomed.ner.releases import SYSTEMS
from biomed.ner.task import OUTPUT
from biomed.notes.assertion import DRUGS
from biomed.notes.attributes import Attribute
from biomed.notes.dosages import dosages, route_concept
from domainbert.tables import (
    NOTE,
    PATIENT,
    STAY,
    TIME,
    TableError,
    match_columns,
    read_table,
)
from domainbert.tables.columns import NAMED

if TYPE_CHECKING:
    import pandas as pd


# The id that each row of these formats needs: its form in words, and as a pattern.
_ID_WORDS = {"omop": "a whole number as note_id", "fhir": "a patient_id"}
_ID_FORMS = {"omop": r"\d{1,18}", "fhir": r"(?s).+"}
_FORMS = Path(__file__).with_name("forms")
# Columns made of `drug_attributes`, as text; the first is JSON.
_MADE = ["dosage", "route_concept"]
_OMOP = re.compile(r"\bOMOP:(\d{1,18})(?=\||$)")


def export_entities(
    table: Path,
    form: str,
    *,
    named: Mapping[str, str],
    dictionary: Path | None = None,
) -> dict[Path, int]:
    """Write a table from `biomed ner tag` in another form, beside it.

    Args:
        table: with its summary beside it.
        form: "omop" or "fhir"; `forms/*.sql` have the columns, and what assertions become.
        named: our name of an id -> the table's, where it is not recognised.
        dictionary: what the entities were linked to; a file of names gives codes their versions
            and displays.

    Returns:
        The files with their numbers of rows or resources. Conditions, drug exposures and
        observations of OMOP need persons and dates; without any, their files are not written.

    Raises:
        TableError: an entity without the id that the form needs, or one that OMOP cannot hold.
    """
    import duckdb
    import pandas as pd

    summary_file = table.with_name(f"{table.name}.summary.json")
    summary = json.loads(summary_file.read_text("utf-8"))
    entities = _read_entities(table, named)
    _check_ids(entities, form, table)
    model = (
        f"{summary['model_name']} {summary['model'][:12]} {summary['version']}"
    )
    entities = entities.assign(
        system=f"biomed {model}",
        read_at=pd.Timestamp(int(summary["finished"]), unit="s"),
        is_drug=entities["label"].str.casefold().isin(DRUGS),
        codings=_codings(entities, dictionary),
        **_omop_concepts(entities),
    )
    paths = {}
    with duckdb.connect() as con:
        con.register("FOUND", _with_dosages(entities))
        for query in sorted(_FORMS.glob(f"{form}*.sql")):
            path = table.with_name(f"{table.stem}.{query.stem}")
            target = str(path).replace("'", "''")
            con.execute(query.read_text("utf-8").replace("{out}", target))
            count = con.fetchall()[0][0]
            if count or "NOTE_NLP" in path.name or form == "fhir":
                paths[path] = count
            else:
                path.unlink()
    return paths


def _read_entities(table: Path, named: Mapping[str, str]) -> pd.DataFrame:
    """The rows of a table that have an entity, with our names of the ids."""
    rows = read_table(table)
    ids = (PATIENT, STAY, NOTE, TIME)
    carried = list(rows.columns[: rows.columns.get_loc("row")])
    names = match_columns(
        carried, ids, named=named, argument=NAMED, source=table.name
    )
    entities = rows[rows["entity"].notna()]
    entities = entities.rename(
        columns={theirs: ours for ours, theirs in names.items()}
    )
    expected = [*(column.name for column in ids), *OUTPUT]
    columns = entities.columns.union(expected, sort=False)
    # A column without any value would be read as one of numbers.
    texts = {name: "string" for name in OUTPUT if name.startswith("drug_")}
    return entities.reindex(columns=columns).astype(texts)


def _check_ids(entities: pd.DataFrame, form: str, table: Path) -> None:
    ids = entities[NEEDED[form]].astype("string")
    fits = ids.str.fullmatch(_ID_FORMS[form]).fillna(value=False)
    if not fits.all():
        raise TableError(
            f"`form={form!r}` needs {_ID_WORDS[form]} in every row; {(~fits).sum()} of "
            f"{len(entities)} entities have none. The table of entities is written: {table}"
        )


def _with_dosages(entities: pd.DataFrame) -> pd.DataFrame:
    """The entities with columns for FHIR and OMOP, made from `drug_attributes`."""
    import pandas as pd

    rows = [_dosage_columns(cell) for cell in entities["drug_attributes"]]
    columns = pd.DataFrame(
        rows, columns=_MADE, index=entities.index, dtype="string"
    )
    return entities.join(columns)


def _dosage_columns(cell: object) -> dict[str, object]:
    """The columns that a cell of a drug's attributes becomes."""
    if not isinstance(cell, str):
        return {}
    parts = [Attribute(**part) for part in json.loads(cell)]
    doses = dosages(parts)
    columns: dict[str, object] = {}
    if doses:
        columns["dosage"] = json.dumps(doses)
    route = next((part.text for part in parts if part.kind == "route"), None)
    if route:
        columns["route_concept"] = route_concept(route)
    return columns


def _omop_concepts(entities: pd.DataFrame) -> dict[str, list[int]]:
    """OMOP's concepts: the one of each entity, and that of its name where it is another; or 0.

    An id that is a whole number is a concept too.
    """
    columns: dict[str, list[int]] = {"concept_id": [], "source_concept_id": []}
    cells = entities[["entity_id", "entity_codes"]].astype("string").fillna("")
    for id_, codes in cells.itertuples(index=False, name=None):
        numbers = _OMOP.findall(f"{id_}|{codes}")
        if id_.isdecimal():
            numbers = [id_, *numbers]
        concept, source = [*map(int, numbers), 0, 0][:2]
        columns["concept_id"].append(concept)
        columns["source_concept_id"].append(source)
    return columns


def _codings(entities: pd.DataFrame, dictionary: Path | None) -> list[str]:
    """The FHIR codings of each entity as JSON: of its id and its codes in known systems."""
    names = None
    if dictionary and dictionary.suffix.lower() == ENDING:
        names = DictionaryFile(dictionary)
    columns = ["entity_id", "entity_name", "entity_codes"]
    cells = entities[columns].astype("object")
    cells = cells.where(cells.notna(), "")
    written: dict[tuple[str, str, str], str] = {}
    for id_, name, codes in set(cells.itertuples(index=False, name=None)):
        all_codes = list(filter(None, [id_, *codes.split("|")]))
        versions: dict[str, tuple[str | None, str | None]] = {
            id_: (None, name)
        }
        if names:
            versions = names.codings(all_codes)
        codings = [
            _coding(code, *versions.get(code, (None, None)))
            for code in sorted(all_codes, key=_system)
            if _system(code) in SYSTEMS
        ]
        written[id_, name, codes] = json.dumps(codings)
    return [written[row] for row in cells.itertuples(index=False, name=None)]


def _system(code: str) -> str:
    return code.partition(":")[0].upper()


def _coding(
    code: str, version: str | None, display: str | None
) -> dict[str, str]:
    """A code as FHIR's Coding, without what is not known."""
    coding = {
        "system": SYSTEMS[_system(code)]["uri"],
        "version": version,
        "code": code.partition(":")[2],
        "display": display,
    }
    return {name: value for name, value in coding.items() if value}
