"""The columns of each type of resource, and where FHIR R4 has their values.

A column is None if the resource has no value there, or one of another type.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence

from clinical.cohort.fhir.attachments import link_of, read_attachments
from clinical.cohort.fhir.charsets import Reading
from clinical.cohort.fhir.html import html_text
from clinical.cohort.fhir.schema import NOTES, Codes
from clinical.cohort.fhir.values import Resource, first, ids, texts, values
from domainbert.files import whole_text

Row = dict[str, str | None]

LOST = "letters that cannot be read are U+FFFD in the text"
_SPACES = b" \t\n\r\v\f"
_DIED_WORDS = re.compile("expired|deceased|died|dead", re.IGNORECASE)
_BIRTH = re.compile(
    r"\bborn (?:in|out)side\b|\b(?:newborn|liveborn|live birth)\b",
    re.IGNORECASE,
)
_GROUND_OF_DEATH = re.compile("(^| )07")
_STILL_BY_CLAIM = "30"  # in UB-04; code 30 of other systems is a discharge
_PRIORITIES = {"EL": "ELECTIVE", "EM": "EMERGENCY", "UR": "URGENT"}
_SEXES = {"male": "M", "female": "F"}
# Of a date with a year or a month alone, the middle.
_MIDDLES = {4: "-07-01", 7: "-15"}


def read_resource(
    resource: Resource,
    codes: Codes,
    binaries: Mapping[str, object] | None = None,
) -> Row:
    """The row of a resource of one of the types in `COLUMNS`.

    `binaries` has the Binary resources, by id, that attachments may link to.
    """
    match resource["resourceType"]:
        case "Encounter":
            row = _encounter(resource, codes)
        case "Patient":
            row = _patient(resource)
        case "Condition":
            row = _condition(resource)
        case "Binary":
            row = {"id": first(texts(resource, "id"))}
            row |= _text_columns(read_attachments([resource]))
        case _:
            row = _note(resource, codes, binaries or {})
    # JSON may hold halves of a character, which no table can store.
    for name, value in row.items():
        if value and not value.isascii():
            row[name] = whole_text(value)
    return row


def _encounter(encounter: Resource, codes: Codes) -> Row:
    return {
        "id": first(texts(encounter, "id")),
        "patient_id": _subject(encounter),
        "class": first(texts(encounter, "class", "code")),
        "status": first(texts(encounter, "status")),
        "part_of": first(ids(encounter, "partOf")),
        "version": _version(encounter),
        "admit_time": first(texts(encounter, "period", "start")),
        "discharge_time": first(texts(encounter, "period", "end")),
        "admission_type": _admission_type(encounter),
        "discharge_location": _discharge_location(encounter, codes),
    }


def _admission_type(encounter: Resource) -> str | None:
    if _is_birth(encounter):
        return "NEWBORN"
    code = first(texts(encounter, "priority", "coding", "code"))
    word = None
    if code:
        word = _PRIORITIES.get(code, code)
    return first(texts(encounter, "priority", "text")) or word


def _is_birth(encounter: Resource) -> bool:
    """Whether an encounter begins with a birth, by its source, its priority or its type."""
    source = ("hospitalization", "admitSource")
    if "born" in texts(encounter, *source, "coding", "code"):
        return True
    for coding in values(encounter, "priority", "coding"):
        is_nubc = "nubc" in " ".join(texts(coding, "system")).lower()
        if is_nubc and texts(coding, "code") == ["4"]:
            return True
    words = [
        word
        for path in (source, ("priority",), ("type",))
        for name in (("text",), ("coding", "display"))
        for word in texts(encounter, *path, *name)
    ]
    return any(map(_BIRTH.search, words))


def _discharge_location(encounter: Resource, codes: Codes) -> str | None:
    disposition = ("hospitalization", "dischargeDisposition")
    coded = texts(encounter, *disposition, "coding", "code")
    systems = texts(encounter, *disposition, "coding", "system")
    name = first(
        texts(encounter, *disposition, "text"),
        texts(encounter, *disposition, "coding", "display"),
    )
    # German hospitals: Entlassungsgrund of the data set of paragraph 301.
    grounds = " ".join(
        texts(
            encounter,
            *disposition,
            "extension",
            "extension",
            "valueCoding",
            "code",
        )
    )
    is_ground = "entlassungsgrund" in " ".join(systems).lower()
    # 07 of these is a death; elsewhere it is a discharge against advice.
    if _GROUND_OF_DEATH.search(grounds) or (
        is_ground and _GROUND_OF_DEATH.search(" ".join(coded))
    ):
        return "DIED"
    # Numbers of other systems may mean something else: those of the claim form need a word for
    # it, or no word.
    by_claim = not codes.died_by_claim.isdisjoint(coded)
    if not codes.died.isdisjoint(coded) or (
        by_claim and (name is None or _DIED_WORDS.search(name))
    ):
        return "DIED"
    if not codes.hospice.isdisjoint(coded):
        return "HOSPICE"
    is_claim = not systems or "nubc" in " ".join(systems).lower()
    if is_claim and name is None and coded == [_STILL_BY_CLAIM]:
        return "STILL PATIENT"
    ground_numbers: list[str] = re.findall(r"\d\d", grounds)
    return name or " ".join(coded) or first(ground_numbers)


def _patient(patient: Resource) -> Row:
    gender = first(texts(patient, "gender"))
    birth = first(texts(patient, "birthDate"))
    deceased = first(
        texts(patient, "deceasedBoolean"),
        texts(patient, "_deceasedDateTime", "extension", "valueCode"),
    )
    # A death without a date is listed as one that cannot be read.
    undated = None
    if deceased not in (None, "false"):
        undated = "no date"
    sex = None
    if gender:
        sex = _SEXES.get(gender, gender)
    birth_date = None
    if birth:
        birth_date = birth + _MIDDLES.get(len(birth), "")
    return {
        "id": first(texts(patient, "id")),
        "sex": sex,
        "birth_date": birth_date,
        "death_date": first(texts(patient, "deceasedDateTime")) or undated,
        "replaced_by": _linked_patients(patient, "replaced-by"),
        "replaces": _linked_patients(patient, "replaces"),
        "version": _version(patient),
    }


def _condition(condition: Resource) -> Row:
    """The codings of a diagnosis: codes and their systems, one a line."""
    codings = [
        coding
        for coding in values(condition, "code", "coding")
        if texts(coding, "code")
    ]
    codes = [first(texts(coding, "code")) or "" for coding in codings]
    systems = [first(texts(coding, "system")) or "" for coding in codings]
    return {
        "id": first(texts(condition, "id")),
        "encounter": first(ids(condition, "encounter")),
        "codes": "\n".join(codes),
        "systems": "\n".join(systems),
        "status": first(
            texts(condition, "verificationStatus", "coding", "code")
        ),
    }


def _linked_patients(patient: Resource, link_type: str) -> str | None:
    """The ids of other records of a patient, one a line."""
    patient_ids = [
        patient_id
        for link in values(patient, "link")
        if values(link, "type") == [link_type]
        for patient_id in ids(link, "other")
    ]
    return "\n".join(patient_ids) or None


def _note(
    note: Resource,
    codes: Codes,
    binaries: Mapping[str, object],
) -> Row:
    """The row of a DocumentReference, Composition or DiagnosticReport."""
    concept = "type"
    encounters = ids(note, "encounter")
    times = [texts(note, "date")]
    studies: list[str] = []
    if note["resourceType"] == "DocumentReference":
        encounters = ids(note, "context", "encounter")
    elif note["resourceType"] == "DiagnosticReport":
        concept = "code"
        effective = [
            texts(note, "effectiveDateTime"),
            texts(note, "effectivePeriod", "start"),
        ]
        times = [*effective, texts(note, "issued")]
        studies = [*ids(note, "basedOn"), *ids(note, "imagingStudy")]
        studies += [*effective[0], *effective[1]]
    coded = texts(note, concept, "coding", "code")
    category = first(
        texts(note, concept, "text"),
        texts(note, concept, "coding", "display"),
        coded,
    )
    if not codes.discharge_summary.isdisjoint(coded):
        category = "Discharge summary"
    row = {
        "id": first(texts(note, "id")),
        "patient_id": _subject(note),
        "encounters": " ".join(encounters),
        "codes": " ".join(coded),
        "category": category,
        "kind": first(texts(note, "relatesTo", "code")),
        "chart_time": first(*times),
        "state": first(texts(note, "status")),
        "doc_state": first(texts(note, "docStatus")),
        "version": _version(note),
        "studies": " ".join(studies),
    }
    return row | _contents(note, binaries)


def _subject(resource: Resource) -> str | None:
    return first(
        ids(resource, "subject"),
        texts(resource, "subject", "identifier", "value"),
    )


def _version(resource: Resource) -> str:
    parts = texts(resource, "meta", "lastUpdated")
    return " ".join([*parts, *texts(resource, "meta", "versionId")])


# -- notes --------------------------------------------------------------------------------------


def _contents(note: Resource, binaries: Mapping[str, object]) -> Row:
    """The text of a note, and its names, which decide whether it is read."""
    attachments = values(note, "content", "attachment")
    attachments += values(note, "presentedForm")
    contained = {
        f"#{inner.get('id')}": inner
        for inner in values(note, "contained")
        if isinstance(inner, dict)
    }
    reading = read_attachments(attachments, binaries, contained)
    is_document = note["resourceType"] == "DocumentReference"
    if not reading.text:
        # The narrative of a document is about it; that of other resources may be all there is.
        reading = _narrative(note, reading, reads_text=not is_document)
    row = _text_columns(reading)
    # Without a system, an identifier holds for one patient.
    patient = ids(note, "subject")[:1]
    row |= {
        "fault": None,
        "names": _names(note, patient),
        "replaces": _replaced_names(note, patient),
        "link": None,
    }
    if not reading.text:
        row["link"] = link_of(attachments)
        if attachments or is_document:
            row["fault"] = "1"
    return row


def _text_columns(reading: Reading) -> Row:
    """A text, remarks on it, and a hash of its words that shows copies."""
    text = reading.text
    remarks = [*reading.remarks]
    if not text:
        remark = "; ".join(remarks) or None
        return {"text": text, "remark": remark, "words": None}
    if not text.isascii():
        text = whole_text(text)
        if "\ufffd" in text:
            remarks.append(LOST)
    digest = hashlib.blake2b(_without_spaces(text), digest_size=16).hexdigest()
    return {
        "text": text,
        "remark": "; ".join(remarks) or None,
        "words": digest,
    }


def _without_spaces(text: str) -> bytes:
    """The characters of a text but for white space, in which copies may differ."""
    if text.isascii():
        # Much faster than splitting the text.
        return text.encode().translate(None, _SPACES)
    return "".join(text.split()).encode()


def _narrative(
    resource: Resource, unread: Reading, *, reads_text: bool
) -> Reading:
    """The sections, conclusion or narrative of a resource whose attachments are not read."""
    reading = section_text(resource)
    if reading.text:
        return reading
    for text in texts(resource, "conclusion"):
        return Reading(text)
    if reads_text:
        for div in texts(resource, "text", "div"):
            return html_text(div)
    return unread


def section_text(composition: object) -> Reading:
    """The narrative of the sections of a Composition, in order, with their titles."""
    parts = list(_section_parts(composition))
    written = [part.text for part in parts if part.text and part.text.strip()]
    remarks = dict.fromkeys(
        remark for part in parts for remark in part.remarks
    )
    return Reading("\n\n".join(written) or None, tuple(remarks))


def _section_parts(composition: object) -> Iterator[Reading]:
    sections = values(composition, "section")[::-1]
    while sections:  # no recursion: a file may nest a thousand of them
        section = sections.pop()
        yield from map(Reading, texts(section, "title"))
        yield from map(html_text, texts(section, "text", "div"))
        sections += values(section, "section")[::-1]


def _names(note: Resource, patient: Sequence[str]) -> str:
    """What other resources may call this one: its id, and its business identifiers."""
    identifiers = values(note, "masterIdentifier") + values(note, "identifier")
    return " ".join([str(note.get("id")), *_words(identifiers, patient)])


def _replaced_names(note: Resource, patient: Sequence[str]) -> str | None:
    """The names of the documents that this one replaces."""
    identifiers = []
    references = []
    for relation in values(note, "relatesTo"):
        if values(relation, "code") != ["replaces"]:
            continue
        # `target` of documents; Compositions have the other two.
        for name in ("target", "targetReference"):
            identifiers += values(relation, name, "identifier")
            references += ids(relation, name)
        identifiers += values(relation, "targetIdentifier")
    return " ".join([*_words(identifiers, patient), *references]) or None


def _words(identifiers: Sequence[object], patient: Sequence[str]) -> list[str]:
    """Business identifiers, each as one word that begins with its system or else the patient."""
    words = []
    for identifier in identifiers:
        systems = values(identifier, "system") or patient
        parts = [*systems, "|", *values(identifier, "value")]
        words.append("".join("".join(map(str, parts)).split()))
    return words


_NO_CODES = Codes(**dict.fromkeys(Codes.model_fields, frozenset[str]()))
COLUMNS = {
    resource_type: tuple(
        read_resource({"resourceType": resource_type}, _NO_CODES)
    )
    for resource_type in (
        "Encounter",
        "Patient",
        "Condition",
        *NOTES,
        "Binary",
    )
}
"""The columns of the rows of each type of resource."""
