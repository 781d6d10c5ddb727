"""The command that makes cohorts."""

from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from domainbert.cli import options
from domainbert.cli.console import one_line_errors, print_table, say

CohortFile = Annotated[
    Path, Argument(metavar="COHORT.parquet", help="The cohort.")
]
MappingFile = Annotated[
    Path | None,
    Option(help="TOML file that describes your own tables and columns."),
]
Zone = Annotated[
    str | None,
    Option(
        help="Time zone of times without an offset, such as Europe/Berlin."
    ),
]
DiedLocations = Annotated[
    list[str] | None,
    Option(help="A place of discharge that means death; may be repeated."),
]


@one_line_errors
def cohort(
    source: Annotated[
        str, Argument(help="Folder, DuckDB file, postgresql:// or sqlite://.")
    ],
    out: Annotated[Path, Option(help="The cohort to write, .parquet.")],
    schema: Annotated[
        str | None,
        Option(
            help="mimic3, mimic4, omop, meds, fhir or generic; by default recognised."
        ),
    ] = None,
    notes: Annotated[
        str,
        Option(
            help="discharge: predict from discharge summaries; early: from the first hours."
        ),
    ] = "discharge",
    hours: Annotated[
        int, Option(help="With --notes early: hours since admission.")
    ] = 48,
    definition: Annotated[
        str | None,
        Option(
            help="The outcome: death-30d, in-hospital-death, long-stay-7d, diagnoses, or a TOML "
            "file; by default readmission-30d."
        ),
    ] = None,
    mapping: MappingFile = None,
    data_end: Annotated[
        str | None,
        Option(help="The date until which admissions were recorded, or none."),
    ] = None,
    died_locations: DiedLocations = None,
    zone: Zone = None,
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = None,
    escape: options.Escape = None,
    seed: Annotated[int, Option(help="Seed of the split by patient.")] = 0,
    split_by: Annotated[
        str,
        Option(
            help="patient, or time: the latest discharges are the test side."
        ),
    ] = "patient",
    fractions: Annotated[
        tuple[float, float, float],
        Option(help="Shares of train, val and test; by default 0.8 0.1 0.1."),
    ] = (0.8, 0.1, 0.1),
    form: Annotated[
        Literal["table", "meds-labels"],
        Option(
            "--format",
            help="meds-labels: write the outcomes as MEDS labels too.",
        ),
    ] = "table",
) -> None:
    """Build a labelled cohort from admissions and notes, with every exclusion counted."""
    from clinical.cohort.build import build_cohort
    from clinical.cohort.result import meds_labels
    from domainbert.tables import write_table

    built = build_cohort(
        source,
        schema=schema,
        notes=notes,
        hours=hours,
        definition=definition,
        mapping=mapping,
        data_end=data_end,
        died_locations=died_locations or (),
        zone=zone,
        delimiter=delimiter,
        encoding=encoding,
        escape=escape,
        seed=seed,
        split_by=split_by,
        fractions=fractions,
        out=out,
    )
    head = ["reason", "removed", "left"]
    print_table(built.flow[head].to_numpy(), head, title="Flow")
    for caveat in filter(None, (built.summary["deaths"], *built.caveats)):
        say(f"note: {caveat}")
    for issue in built.issues.itertuples():
        line = f"issue: {issue.source}: {issue.problem}: {issue.count:,}"
        if len(issue.examples):
            line += f", such as {', '.join(issue.examples)}"
        say(line)
    if form != "table":
        labels = out.with_suffix(".meds-labels.parquet")
        write_table(meds_labels(built.labels()), labels)
        say(f"labels in {labels}")
    built.save_flow_json(out.with_suffix(".flow.json"))
    out.with_suffix(".flow.svg").write_text(built.flow_svg(), encoding="utf-8")
    say(f"cohort in {out}, its flow in .flow.json and .flow.svg next to it")
