"""Diagnosis codes of stays as groups: the column `diagnoses` of a cohort."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from clinical.cohort.definition import GROUPINGS
from clinical.cohort.source import step
from domainbert.errors import UserError
from domainbert.tables import read_table, require_columns

if TYPE_CHECKING:
    import duckdb
    import pandas as pd

    from clinical.cohort.definition import Diagnoses
    from domainbert.files import JsonObject


def group_codes(con: duckdb.DuckDBPyConnection, rules: Diagnoses) -> None:
    """Create `stay_groups` and `code_facts` from the codes that were read.

    Raises:
        UserError: a table of groups that names a code twice, no code at all, or no code that is
            said to be the first of its stay, with `primary_only`.
    """
    import pandas as pd

    table = pd.DataFrame({"code": [], "group_name": [], "name": []}, dtype=str)
    grouping = rules.groups
    if grouping not in GROUPINGS:
        grouping = "table"
        table = read_groups(Path(rules.groups))
    con.register("code_groups_given", table)
    con.execute("CREATE TABLE code_groups AS FROM code_groups_given")
    values = {"grouping": grouping, "primary_only": rules.primary_only}
    for statement in con.extract_statements(step("diagnoses")):
        used = {name: values[name] for name in statement.named_parameters}
        con.execute(statement, used)
    facts = _row(con, "FROM code_facts")
    if not facts["n_codes"]:
        raise UserError("the table of diagnosis codes has no row that is read")
    if rules.primary_only and not facts["n_primary"]:
        raise UserError(
            "primary_only: no code of the source says that it is the first of its stay (rank 1); "
            "leave primary_only out, or name the column of the rank"
        )


def read_groups(path: Path) -> pd.DataFrame:
    """A table of `code`, `group` and perhaps `name`; codes without dots, each once.

    Raises:
        TableError: no such file, or a column is missing.
        UserError: a code that is in two groups.
    """
    rows = read_table(path)
    require_columns(rows.columns, ("code", "group"), source=path.name)
    rows = rows.assign(
        code=[re.sub("[^A-Z0-9]", "", str(c).upper()) for c in rows["code"]],
        group_name=rows["group"].astype(str).str.strip(),
        name=rows.get("name", ""),
    )
    rows = rows[["code", "group_name", "name"]].drop_duplicates()
    pairs = rows.drop_duplicates(["code", "group_name"])
    twice = pairs.loc[pairs["code"].duplicated(), "code"]
    if len(twice):
        raise UserError(
            f"{path.name}: {len(twice)} codes are in two groups, such as {twice.iloc[0]}; expected "
            "each code once"
        )
    return rows.drop_duplicates("code")


def keep_groups(
    con: duckdb.DuckDBPyConnection, rules: Diagnoses
) -> JsonObject:
    """Add the column `diagnoses` to `cohort`, with the groups of enough stays; return the counts.

    Raises:
        UserError: no group has enough stays, or every stay of the train side has one of them.
    """
    values = {"minimum_stays": rules.minimum_stays}
    for statement in con.extract_statements(step("frequent_groups")):
        used = {name: values[name] for name in statement.named_parameters}
        con.execute(statement, used)
    counts = con.sql("FROM group_counts").to_arrow_table().to_pylist()
    sides = _row(
        con,
        "SELECT count(*) FILTER (diagnoses IS NULL) AS unknown, "
        "count(*) FILTER (diagnoses IS NOT NULL AND split = 'train') AS train "
        "FROM cohort WHERE exclusion IS NULL AND split IS NOT NULL",
    )
    if not counts:
        raise UserError(
            f"no group has {rules.minimum_stays} of the {sides['train']} stays with codes on the "
            "train side: lower minimum_stays, or use larger groups"
        )
    names = dict(
        con.execute(
            "SELECT DISTINCT group_name, name FROM code_groups WHERE name <> ''"
        ).fetchall()
    )
    return {
        "groups": {row.pop("group_name"): row for row in counts},
        "names": names,
        "unknown": sides["unknown"],
        "stays": sides["train"],
        **_row(con, "FROM code_facts"),
    }


def group_caveats(facts: JsonObject) -> list[str]:
    """What a reader of the groups should know, as sentences."""
    groups = facts["groups"]
    lines = [f"{len(groups):,} groups of codes have enough stays."]
    if facts["unknown"]:
        lines.append(
            f"{facts['unknown']:,} stays have no code: their groups are not known, and they are "
            "left out."
        )
    if facts["n_icd9"] and facts["n_icd10"]:
        lines.append(
            f"The codes are of two systems, ICD-9 ({facts['n_icd9']:,}) and ICD-10 "
            f"({facts['n_icd10']:,}): groups of ICD-9 have the prefix ICD9, because the same "
            "characters mean other things. A table of groups can join them."
        )
    for name, caveat in (
        ("n_other", "codes of other systems than ICD are not in categories"),
        ("n_no_stay", "codes belong to no stay of the source"),
        ("n_unmapped", "codes are in no group of the table"),
        ("n_empty", "rows have no code"),
    ):
        if facts[name]:
            lines.append(f"{facts[name]:,} {caveat}.")
    for side in ("val", "test"):
        missing = sum(not counts[side] for counts in groups.values())
        if missing:
            lines.append(
                f"{missing:,} groups have no stay on the side {side}, which cannot measure them."
            )
    everywhere = [
        group for group, n in groups.items() if n["train"] == facts["stays"]
    ]
    if everywhere:
        lines.append(
            f"Every stay of the train side has {everywhere[0]}: nothing can be learned of it."
        )
    return lines


def _row(con: duckdb.DuckDBPyConnection, query: str) -> JsonObject:
    """The one row of a query."""
    (row,) = con.sql(query).to_arrow_table().to_pylist()
    result: JsonObject = row
    return result
