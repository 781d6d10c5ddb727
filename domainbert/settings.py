"""Settings: pydantic models whose errors are one readable line, and checked choices."""

from __future__ import annotations

import difflib
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from domainbert.errors import UserError

# The descriptions are what an error says was expected.
Count = Annotated[int, Field(ge=1, description="a whole number above 0")]
Positive = Annotated[float, Field(gt=0, description="a number above 0")]
Share = Annotated[float, Field(ge=0, lt=1, description="a number from 0 to below 1")]
Seed = Annotated[
    int, Field(ge=0, lt=2**32, description=f"a whole number from 0 to {2**32 - 1}")
]
Names = Annotated[tuple[str, ...], Field(strict=False)]  # a list in TOML
_EXPECTED = {
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "text",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a table",
    "greater_than": "a number above {gt:g}",
    "greater_than_equal": "a number of at least {ge:g}",
    "less_than": "a number below {lt:g}",
    "less_than_equal": "a number of at most {le:g}",
}


class Settings(BaseModel):
    """A frozen table of settings; unknown names and wrong types are refused.

    Subclasses declare typed fields and document them under ``Attributes``. Numbers are not read
    from text, and true or false is not a number. NumPy's scalars are taken as Python's.

    Raises:
        UserError: the first setting that is wrong, what came and what is expected.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False
    )

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**{name: _plain(value) for name, value in values.items()})
        except ValidationError as error:
            raise UserError(_one_line(error, type(self))) from None

    def replaced(self, **changes: Any) -> Self:
        """A checked copy with some settings changed."""
        return type(self)(**{**self.model_dump(), **changes})


def _plain(value: Any) -> Any:
    is_scalar = hasattr(value, "dtype") and getattr(value, "ndim", None) == 0
    return value.item() if is_scalar else value


def _one_line(error: ValidationError, kind: type[BaseModel]) -> str:
    """The first problem, as `table.name: what is expected, got what came`."""
    problems = error.errors(include_url=False)
    # A mistyped name is missing too: its own spelling says more.
    problem = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
    places: list[str] = []
    for part in problem["loc"]:
        if isinstance(part, int) and places:  # a place in a list
            places[-1] += f".{part}"
        else:
            places.append(str(part))
    *tables, name = places or ["settings"]
    place = f"[{'.'.join(tables)}] {name}" if tables else name
    if problem["type"] == "extra_forbidden":
        fields = _fields_at(kind, tables)
        return f"{place}: no such setting; expected one of {', '.join(sorted(fields))}"
    if problem["type"] == "missing":
        return f"{place}: this setting is required"
    if (
        problem["type"] == "value_error"
    ):  # from a nested table, or a check of the table's own
        where = f"[{'.'.join(map(str, problem['loc']))}] " if problem["loc"] else ""
        return f"{where}{problem['ctx']['error']}"
    if problem["type"].startswith(("model_type", "model_attributes")):
        return f"{place}: expected a table, written [{name}], got {problem['input']!r}"
    field = kind.model_fields.get(name) if not tables else None
    known = _EXPECTED.get(
        problem["type"], problem["msg"].removeprefix("Input should be ")
    )
    expected = (field and field.description) or known.format(**problem.get("ctx", {}))
    return f"{place}: expected {expected}, got {problem['input']!r}"


def _fields_at(kind: type[BaseModel], tables: list[str]) -> list[str]:
    for table in tables:
        inner = (
            kind.model_fields[table].annotation if table in kind.model_fields else None
        )
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return []
        kind = inner
    return list(kind.model_fields)


def check_choice(what: str, value: str, known: tuple[str, ...]) -> None:
    """Raise `UserError` with the nearest known value if a value is not one of them."""
    if value not in known:
        near = difflib.get_close_matches(value.lower(), known, n=1)
        guess = f"; did you mean {near[0]!r}?" if near else ""
        raise UserError(f"unknown {what} {value!r}{guess}; expected one of {known}")
