"""Settings that people type: pydantic models whose errors are one readable line."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from domainbert.errors import UserError

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, lt=1)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]


class Settings(BaseModel):
    """A frozen table of settings; unknown names and wrong types are refused.

    Subclasses declare typed fields and document them under ``Attributes``. Numbers are not read
    from text, and true or false is not a number.

    Raises:
        UserError: the first setting that is wrong, what came and what is expected.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise UserError(_one_line(error, type(self))) from None

    def replaced(self, **changes: Any) -> Self:
        """A checked copy with some settings changed."""
        return type(self)(**{**self.model_dump(), **changes})


def as_dict(settings: Any) -> dict[str, Any]:
    """The values of a settings table, a pydantic model or a dataclass."""
    return settings.model_dump() if isinstance(settings, BaseModel) else asdict(settings)


def _one_line(error: ValidationError, kind: type[BaseModel]) -> str:
    """The first problem, as `table.name: what is expected, got what came`."""
    problems = error.errors(include_url=False)
    # A mistyped name is missing too: its own spelling says more.
    problem = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
    *tables, name = map(str, problem["loc"]) if problem["loc"] else ("settings",)
    place = f"[{'.'.join(tables)}] {name}" if tables else name
    if problem["type"] == "extra_forbidden":
        fields = _fields_at(kind, tables)
        return f"{place}: no such setting; expected one of {', '.join(sorted(fields))}"
    if problem["type"] == "missing":
        return f"{place}: this setting is required"
    if problem["type"] == "value_error":  # from a nested table, or a check of the table's own
        where = f"[{'.'.join(map(str, problem['loc']))}] " if problem["loc"] else ""
        return f"{where}{problem['ctx']['error']}"
    message = problem["msg"].removeprefix("Input should be ")
    return f"{place}: expected {message}, got {problem['input']!r}"


def _fields_at(kind: type[BaseModel], tables: list[str]) -> list[str]:
    for table in tables:
        inner = kind.model_fields[table].annotation if table in kind.model_fields else None
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return []
        kind = inner
    return list(kind.model_fields)
