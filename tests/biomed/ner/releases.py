"""Made-up releases of vocabularies: the columns of the real ones, our own names and codes."""

from pathlib import Path

FSN = "900000000000003001"
SYNONYM = "900000000000013009"
PREFERRED = "900000000000548007"
ACCEPTABLE = "900000000000549004"
US = "900000000000509007"
GB = "900000000000508004"
CORE = "900000000000207008"


def write(path: Path, rows, separator: str, *, end: str = "\n") -> Path:
    """Write rows, each of which is a list of cells or one text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        row if isinstance(row, str) else separator.join(row) for row in rows
    ]
    text = "".join(f"{line}{end}" for line in lines)
    path.write_bytes(text.encode())
    return path


def atom(cui, name, *, sab, tty, code, more=""):
    """A row of MRCONSO or RXNCONSO."""
    values = {
        "LAT": "ENG",
        "TS": "S",
        "STT": "VO",
        "ISPREF": "N",
        "SUPPRESS": "N",
    }
    values |= dict(pair.split("=") for pair in more.split())
    return (
        f"{cui}|{values['LAT']}|{values['TS']}|L1|{values['STT']}|S1|{values['ISPREF']}|A1||||{sab}"
        f"|{tty}|{code}|{name}|0|{values['SUPPRESS']}|256|"
    )


PREF = "TS=P STT=PF ISPREF=Y"


def sab(name, version):
    """A row of MRSAB or RXNSAB."""
    cells = ["C1", "C2", f"{name}_{version}", name, name, "", version]
    return "|".join([*cells, *[""] * 14, "Y", "Y", "", "", ""])


def umls(folder: Path, *, end: str = "\n") -> Path:
    """UMLS: heart failure, gout, cold (two concepts), furosemide, and a gene that is neither."""
    atoms = [
        atom(
            "C9000001",
            "Heart failure",
            sab="MTH",
            tty="PN",
            code="NOCODE",
            more=PREF,
        ),
        atom(
            "C9000001",
            "Cardiac failure",
            sab="SNOMEDCT_US",
            tty="SY",
            code="900184",
        ),
        atom(
            "C9000001",
            "Heart failure (disorder)",
            sab="SNOMEDCT_US",
            tty="FN",
            code="900184",
        ),
        atom(
            "C9000001",
            "Heart failure",
            sab="SNOMEDCT_US",
            tty="PT",
            code="900184",
        ),
        atom(
            "C9000001",
            "Heart failure, unspecified",
            sab="ICD10CM",
            tty="PT",
            code="I99.1",
        ),
        atom(
            "C9000001",
            "Pump weakness",
            sab="SNOMEDCT_US",
            tty="OAS",
            code="900184",
            more="SUPPRESS=O",
        ),
        atom(
            "C9000001",
            "Herzinsuffizienz",
            sab="MSHGER",
            tty="MH",
            code="D900",
            more="LAT=GER TS=P",
        ),
        atom("C9000001", "HF", sab="SNOMEDCT_US", tty="SY", code="900184"),
        atom("C9000002", "Gout", sab="MSH", tty="MH", code="D9002", more=PREF),
        atom(
            "C9000003",
            "Common cold",
            sab="MTH",
            tty="PN",
            code="NOCODE",
            more=PREF,
        ),
        atom("C9000003", "Cold", sab="SNOMEDCT_US", tty="SY", code="900186"),
        atom(
            "C9000004", "Cold", sab="MTH", tty="PN", code="NOCODE", more=PREF
        ),
        atom(
            "C9000005",
            "Furosemide",
            sab="RXNORM",
            tty="IN",
            code="9005",
            more=PREF,
        ),
        atom(
            "C9000005",
            'Furosemide "plain"',
            sab="RXNORM",
            tty="SY",
            code="9005",
        ),
        atom(
            "C9000006",
            "Genus gene",
            sab="MSH",
            tty="MH",
            code="D9006",
            more=PREF,
        ),
    ]
    types = [
        "C9000001|T047|B2|Disease or Syndrome|AT1|256|",
        "C9000002|T047|B2|Disease or Syndrome|AT2|256|",
    ]
    types += [
        "C9000003|T047|B2|Disease or Syndrome|AT3|256|",
        "C9000004|T184|B2|Sign or Symptom|AT4|256|",
    ]
    types += [
        "C9000005|T109|A1|Organic Chemical|AT5|256|",
        "C9000005|T121|A1|Pharmacologic Substance|AT6|256|",
    ]
    types += ["C9000006|T028|A1|Gene or Genome|AT7|256|"]
    write(folder / "META" / "MRCONSO.RRF", atoms, "|", end=end)
    write(folder / "META" / "MRSTY.RRF", types, "|", end=end)
    sources = [
        sab("MTH", "2031AA"),
        sab("SNOMEDCT_US", "2031_03_01"),
        sab("ICD10CM", "2031"),
    ]
    write(folder / "META" / "MRSAB.RRF", sources, "|", end=end)
    return folder


def rxnorm(folder: Path) -> Path:
    """RxNorm: furosemide and a brand of it."""
    atoms = [
        atom("9005", "furosemide", sab="RXNORM", tty="IN", code="9005"),
        atom(
            "9005", "furosemide from elsewhere", sab="MMSL", tty="IN", code="x"
        ),
        atom("9007", "Glucoplain", sab="RXNORM", tty="BN", code="9007"),
        atom(
            "9008",
            "furosemide 500 MG Oral Tablet",
            sab="RXNORM",
            tty="SCD",
            code="9008",
        ),
        atom(
            "9008",
            "furosemide old tablet",
            sab="RXNORM",
            tty="SY",
            code="9008",
            more="SUPPRESS=Y",
        ),
    ]
    write(folder / "rrf" / "RXNCONSO.RRF", atoms, "|")
    write(folder / "rrf" / "RXNSAB.RRF", [sab("RXNORM", "31AA_310301F")], "|")
    return folder


def snomed(
    folder: Path, *, kind: str = "Snapshot", module: str = CORE
) -> Path:
    """SNOMED CT: heart failure, an inactive concept, a body structure, and furosemide."""
    terminology = folder / kind / "Terminology"
    head = "id effectiveTime active moduleId definitionStatusId".split()
    concepts = [
        ("900184", "20310301", "1"),
        ("900185", "20310301", "0"),
        ("900190", "20310301", "1"),
        ("900195", "20310301", "1"),
    ]
    if kind == "Full":
        concepts.append(("900185", "20200131", "1"))
    rows = [[*concept, module, "900000000000074008"] for concept in concepts]
    write(
        terminology / f"sct2_Concept_{kind}_INT_20310301.txt",
        [head, *rows],
        "\t",
        end="\r\n",
    )
    head = (
        "id effectiveTime active moduleId conceptId languageCode "
        "typeId term caseSignificanceId"
    ).split()
    descriptions = [
        ("11", "1", "900184", FSN, "Heart failure (disorder)"),
        ("12", "1", "900184", SYNONYM, "Heart failure"),
        ("13", "1", "900184", SYNONYM, "Cardiac failure"),
        ("14", "0", "900184", SYNONYM, "Pump weakness"),
        ("15", "1", "900184", SYNONYM, "British heart slowness"),
        ("21", "1", "900185", FSN, "Dropsy (disorder)"),
        ("22", "1", "900185", SYNONYM, "Dropsy"),
        ("31", "1", "900190", FSN, "Heart valve (body structure)"),
        ("32", "1", "900190", SYNONYM, "Heart valve"),
        ("41", "1", "900195", FSN, "Furosemide (substance)"),
        ("42", "1", "900195", SYNONYM, "Furosemide"),
    ]
    rows = [
        [
            id_,
            "20310301",
            active,
            module,
            concept,
            "en",
            type_,
            term,
            "900000000000448009",
        ]
        for id_, active, concept, type_, term in descriptions
    ]
    write(
        terminology / f"sct2_Description_{kind}-en_INT_20310301.txt",
        [head, *rows],
        "\t",
        end="\r\n",
    )
    head = (
        "id effectiveTime active moduleId refsetId "
        "referencedComponentId acceptabilityId"
    ).split()
    rows = []
    for id_, _, _, _, _ in descriptions:
        acceptability = ACCEPTABLE if id_ == "13" else PREFERRED
        refsets = [GB] if id_ == "15" else [US, GB]
        rows += [
            [
                f"{id_}-{refset}",
                "20310301",
                "1",
                module,
                refset,
                id_,
                acceptability,
            ]
            for refset in refsets
        ]
    language = folder / kind / "Refset" / "Language"
    write(
        language / f"der2_cRefset_Language{kind}-en_INT_20310301.txt",
        [head, *rows],
        "\t",
        end="\r\n",
    )
    return folder


CONCEPT = (
    "concept_id concept_name domain_id vocabulary_id "
    "concept_class_id standard_concept concept_code "
    "valid_start_date valid_end_date invalid_reason"
).split()


def athena(folder: Path) -> Path:
    """Athena: heart failure with its ICD-10-CM code, a drug with its brand, and a measurement."""
    concepts = [
        ("3160001", "Heart failure", "Condition", "SNOMED", "S", "900184"),
        (
            "4500001",
            "Heart failure, unspecified",
            "Condition",
            "ICD10CM",
            "",
            "I99.1",
        ),
        ("3160002", "Common cold", "Condition", "SNOMED", "S", "900186"),
        ("1500001", "furosemide", "Drug", "RxNorm", "S", "9005"),
        ("1500002", "Glucoplain", "Drug", "RxNorm", "", "9007"),
        ("3000001", "Serum gout level", "Measurement", "LOINC", "S", "99-1"),
    ]
    rows = [
        [
            id_,
            name,
            domain,
            vocabulary,
            "x",
            standard,
            code,
            "19700101",
            "20991231",
            "",
        ]
        for id_, name, domain, vocabulary, standard, code in concepts
    ]
    write(folder / "CONCEPT.csv", [CONCEPT, *rows], "\t")
    head = (
        "concept_id_1 concept_id_2 relationship_id valid_start_date "
        "valid_end_date invalid_reason"
    ).split()
    maps = [("4500001", "3160001"), ("1500002", "1500001")]
    rows = [[*pair, "Maps to", "19700101", "20991231", ""] for pair in maps]
    rows.append(["4500001", "3160002", "Maps to", "19700101", "20200101", "D"])
    write(folder / "CONCEPT_RELATIONSHIP.csv", [head, *rows], "\t")
    head = ["concept_id", "concept_synonym_name", "language_concept_id"]
    rows = [
        ["3160001", "Weak heart", "4180186"],
        ["3160001", "Herzinsuffizienz", "4182504"],
        ["3160001", "HF", "4180186"],
    ]
    write(folder / "CONCEPT_SYNONYM.csv", [head, *rows], "\t")
    head = (
        "vocabulary_id vocabulary_name vocabulary_reference "
        "vocabulary_version vocabulary_concept_id"
    ).split()
    versions = [
        ("SNOMED", "2031-03-01 SNOMED CT"),
        ("ICD10CM", "ICD10CM FY2031"),
        ("RxNorm", "RxNorm 20310301"),
    ]
    rows = [[id_, id_, "", version, "1"] for id_, version in versions]
    write(folder / "VOCABULARY.csv", [head, *rows], "\t")
    return folder


TABULAR = """<?xml version="1.0" encoding="utf-8"?>
<ICD10CM.tabular><version>2031</version>
<chapter><name>9</name><desc>Circulation</desc><section id="I95-I99">
<diag><name>I99</name><desc>Failing hearts</desc>
<diag><name>I99.1</name><desc>Heart failure, unspecified</desc>
<inclusionTerm><note>Cardiac failure NOS</note></inclusionTerm></diag></diag></section></chapter>
<chapter><name>20</name><desc>Causes</desc><section id="V00"><diag><name>V99</name>
<desc>Struck by a heart</desc></diag></section></chapter>
</ICD10CM.tabular>
"""


def icd10cm(folder: Path) -> Path:
    """The tabular list of ICD-10-CM."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "icd10cm_tabular_2031.xml").write_text(TABULAR)
    return folder


ALL = {
    "umls": umls,
    "rxnorm": rxnorm,
    "snomed": snomed,
    "athena": athena,
    "icd10cm": icd10cm,
}
