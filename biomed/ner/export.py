"""Entities in the formats of other tools: BRAT standoff, PubTator, BioC, OMOP and FHIR."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from biomed.ner.dictionaries import ENDING, DictionaryFile
from biomed.ner.entities import NEEDED, Entity, Format
from biomed.ner.releases import SYSTEMS
from biomed.ner.task import OUTPUT
from biomed.notes.assertion import DRUGS
from biomed.notes.attributes import Attribute
from biomed.notes.dosages import dosages, route_concept
from domainbert.errors import UserError
from domainbert.files import atomic_path, folder_beside, replace_folder
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

    from domainbert.files import JsonObject

# The id that each row of these formats needs: its form in words, and as a pattern.
_ID_WORDS = {"omop": "a whole number as note_id", "fhir": "a patient_id"}
_ID_FORMS = {"omop": r"\d{1,18}", "fhir": r"(?s).+"}
_FORMS = Path(__file__).with_name("forms")
# Columns made of `drug_attributes`, as text; the first is JSON.
_MADE = ["dosage", "route_concept"]
# The id, text and entities of a document.
Tagged = tuple[str, str, "Sequence[Entity]"]
_NOT_IN_NAMES = re.compile(r"[^\w.-]")
_LONGEST_NAME = 60  # letters of a file name, of up to four bytes
_OMOP = re.compile(r"\bOMOP:(\d{1,18})(?=\||$)")
_PART = re.compile(r"\S(?:[^\r\n]*\S)?")  # of an entity, on one line


def to_brat(text: str, entities: Iterable[Entity]) -> str:
    """BRAT standoff (an .ann file): scores and assertions are attributes, ids references.

    An entity over a line break has a fragment for each line, as BRAT wants it. An id is written as
    it is if it has the form "source:id", and as "Dictionary:id" otherwise.
    """
    lines = []
    for number, entity in enumerate(entities, start=1):
        parts = list(_PART.finditer(text, entity.start, entity.end))
        offsets = ";".join(f"{part.start()} {part.end()}" for part in parts)
        shown = " ".join(part[0] for part in parts)
        lines += [
            f"T{number}\t{_plain(entity.label)} {offsets}\t{shown}",
            f"A{2 * number - 1}\tAssertion T{number} {entity.assertion}",
            f"A{2 * number}\tScore T{number} {entity.score:.2f}",
        ]
        if entity.id is not None:
            reference = entity.id
            if ":" not in reference:
                reference = f"Dictionary:{reference}"
            name = entity.name or ""
            lines.append(f"N{number}\tReference T{number} {reference}\t{name}")
    return "".join(f"{line}\n" for line in lines)


def _plain(name: str) -> str:
    """A name with letters, digits, points and hyphens only."""
    return _NOT_IN_NAMES.sub("_", name)


def to_pubtator(name: str, text: str, entities: Iterable[Entity]) -> str:
    """PubTator: the first line as title, the rest as abstract, and a line for each entity.

    Line breaks within the abstract become spaces, and tabs too, so offsets stay. The column after
    the type is the concept's id, or "-"; other tools read no more columns.
    """
    name = _pubtator_name(name)
    flat = re.sub(r"[\t\r\n]", " ", text)
    title_end = len(text.partition("\n")[0])
    lines = [
        f"{name}|t|{flat[:title_end]}",
        f"{name}|a|{flat[title_end + 1 :]}",
    ]
    for entity in entities:
        cells = (
            name,
            entity.start,
            entity.end,
            flat[entity.start : entity.end],
            entity.label,
            entity.id or "-",
        )
        lines.append("\t".join(map(str, cells)))
    return "\n".join(lines) + "\n\n"


def _pubtator_name(name: str) -> str:
    return re.sub(r"[|\t\r\n]", "_", name)


def _assertion_lines(name: str, entities: Iterable[Entity]) -> str:
    """Tab-separated: the document, start, end, score and assertion of each entity."""
    lines = [
        f"{_pubtator_name(name)}\t{entity.start}\t{entity.end}"
        f"\t{entity.score:.4f}\t{entity.assertion}\n"
        for entity in entities
    ]
    return "".join(lines)


_BIOC_START = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE collection SYSTEM "BioC.dtd">\n'
    "<collection><source>biomed</source><date></date><key></key>\n"
)
# Characters that no XML file may contain.
_NOT_IN_XML = re.compile(
    "[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)


def to_bioc(name: str, text: str, entities: Iterable[Entity]) -> JsonObject:
    """A BioC document in its JSON form: one passage with the text, and an annotation an entity.

    The infons of an annotation are `type`, `assertion`, `score`, and `identifier` with an id.
    Offsets count characters.
    """
    text = _NOT_IN_XML.sub("\ufffd", text)
    annotations = [
        {
            "id": str(number),
            "infons": _infons(entity),
            "text": text[entity.start : entity.end],
            "locations": [
                {
                    "offset": entity.start,
                    "length": entity.end - entity.start,
                }
            ],
        }
        for number, entity in enumerate(entities, start=1)
    ]
    passage = {
        "offset": 0,
        "infons": {},
        "text": text,
        "sentences": [],
        "annotations": annotations,
        "relations": [],
    }
    return {
        "id": _NOT_IN_XML.sub("\ufffd", name),
        "infons": {},
        "passages": [passage],
        "annotations": [],
        "relations": [],
    }


def _infons(entity: Entity) -> dict[str, str]:
    infons = {
        "type": entity.label,
        "assertion": entity.assertion,
        "score": f"{entity.score:.4f}",
    }
    if entity.id is not None:
        infons["identifier"] = entity.id
    return infons


def _bioc_xml(document: JsonObject) -> str:
    """A BioC document of one passage as XML."""
    (passage,) = document["passages"]
    node = ElementTree.Element("document")
    ElementTree.SubElement(node, "id").text = document["id"]
    inner = ElementTree.SubElement(node, "passage")
    ElementTree.SubElement(inner, "offset").text = "0"
    ElementTree.SubElement(inner, "text").text = passage["text"]
    for annotation in passage["annotations"]:
        mention = ElementTree.SubElement(
            inner, "annotation", id=annotation["id"]
        )
        for key, value in annotation["infons"].items():
            ElementTree.SubElement(mention, "infon", key=key).text = value
        (location,) = annotation["locations"]
        numbers = {key: str(value) for key, value in location.items()}
        ElementTree.SubElement(mention, "location", numbers)
        ElementTree.SubElement(mention, "text").text = annotation["text"]
    # A reader of XML makes "\r\n" one character unless it is escaped.
    return ElementTree.tostring(node, "unicode").replace("\r", "&#13;")


def _write_bioc(
    documents: Iterable[Tagged], out: Path, *, is_json: bool
) -> int:
    """Write a BioC collection, document by document."""
    names: set[str] = set()
    start = _BIOC_START
    end = "</collection>\n"
    between = "\n"
    if is_json:
        start = '{"source": "biomed", "date": "", "key": "", "infons": {}, "documents": ['
        end = "]}\n"
        between = ",\n"
    with (
        atomic_path(out) as path,
        path.open("w", encoding="utf-8", errors="replace", newline="") as file,
    ):
        file.write(start)
        for name, text, entities in documents:
            if names:
                file.write(between)
            document = to_bioc(_unused(name, names), text, entities)
            if is_json:
                file.write(json.dumps(document, ensure_ascii=False))
            else:
                file.write(_bioc_xml(document))
        file.write(end)
    return len(names)


def write_tagged(
    documents: Iterable[Tagged], out: Path, *, kind: Format
) -> int:
    """Write documents to a file, or for BRAT to a new folder; returns their number.

    Beside a PubTator file, FILE.assertions.tsv has the scores and assertions.

    Raises:
        UserError: the BRAT folder exists.
    """
    if kind == "brat":
        return _write_brat(documents, out)
    if kind in ("bioc", "bioc-json"):
        return _write_bioc(documents, out, is_json=kind == "bioc-json")
    names: set[str] = set()
    beside = out.with_name(f"{out.name}.assertions.tsv")
    with (
        atomic_path(out) as path,
        atomic_path(beside) as beside_path,
        path.open("w", encoding="utf-8", errors="replace") as file,
        beside_path.open("w", encoding="utf-8", errors="replace") as details,
    ):
        details.write("document\tstart\tend\tscore\tassertion\n")
        for name, text, entities in documents:
            unused_name = _unused(name, names)
            file.write(to_pubtator(unused_name, text, entities))
            details.write(_assertion_lines(unused_name, entities))
    return len(names)


def _unused(name: str, names: set[str]) -> str:
    """The name, or NAME_2 and so on if `names` has it; the result is added to `names`."""
    free = name
    numbers = itertools.count(2)
    while free in names:
        free = f"{name}_{next(numbers)}"
    names.add(free)
    return free


def _write_brat(documents: Iterable[Tagged], out: Path) -> int:
    """A pair of files for each document, named after its id; a second one of a name is NAME_2."""
    if out.exists():
        raise UserError(
            f"{out} exists already; name a new folder for the BRAT files"
        )
    names: set[str] = set()
    labels: set[str] = set()
    with folder_beside(out) as folder:
        for name, text, entities in documents:
            # No file system takes a name of more than 255 bytes.
            stem = _plain(name)[:_LONGEST_NAME].strip(".") or "text"
            free = _unused(stem, names)
            labels.update(_plain(entity.label) for entity in entities)
            contents = {"txt": text, "ann": to_brat(text, entities)}
            for ending, content in contents.items():
                path = folder / f"{free}.{ending}"
                path.write_text(content, "utf-8", "replace", newline="")
        types = (_FORMS / "annotation.conf").read_text("utf-8")
        types = types.replace("{labels}", "\n".join(sorted(labels)))
        (folder / "annotation.conf").write_text(types, "utf-8")
        replace_folder(folder, out)
    return len(names)


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
