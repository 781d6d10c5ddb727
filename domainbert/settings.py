"""Settings: pydantic models whose errors are one readable line, and checked choices."""

import difflib
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from domainbert.errors import UserError

# Error messages give the description as what was expected.
Count = Annotated[int, Field(ge=1, description="a whole number above 0")]
NotNegative = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0, description="a number above 0")]
Share = Annotated[
    float,
    Field(
        ge=0,
        lt=1,
        description="a number from 0 to below 1",
    ),
]
Seed = Annotated[
    int,
    Field(
        ge=0,
        lt=2**32,
        description=f"a whole number from 0 to {2**32 - 1}",
    ),
]
# TOML and JSON have lists, no tuples.
Names = Annotated[tuple[str, ...], Field(strict=False)]
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

    Subclasses declare typed fields and document them under ``Attributes``. Text is not converted
    to numbers, true and false are not numbers, and NumPy's scalars are taken as Python's.

    Raises:
        UserError: names the first wrong setting, its value and what is expected.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
    )

    def __init__(self, **values: object) -> None:
        try:
            super().__init__(
                **{name: _scalar(value) for name, value in values.items()}
            )
        except ValidationError as error:
            raise UserError(_one_line(error, type(self))) from None

    def replaced(self, **changes: object) -> Self:
        """A checked copy with some settings changed."""
        return type(self)(**self.model_dump() | changes)


def _scalar(value: Any) -> object:
    """NumPy's scalars as Python's."""
    if hasattr(value, "dtype") and getattr(value, "ndim", None) == 0:
        return value.item()
    return value


def _one_line(error: ValidationError, settings: type[BaseModel]) -> str:
    """The first error, as `[table] name: expected WHAT, got VALUE`."""
    details = error.errors(include_url=False)
    # A mistyped name is also reported as missing; its own spelling says more.
    details.sort(key=lambda detail: detail["type"] != "extra_forbidden")
    detail = details[0]
    error_type = detail["type"]
    tables, name = _location(detail["loc"])
    label = name
    if tables:
        label = f"[{'.'.join(tables)}] {name}"
    if error_type == "extra_forbidden":
        names = ", ".join(sorted(_fields_at(settings, tables)))
        return f"{label}: no such setting; expected one of {names}"
    if error_type == "missing":
        return f"{label}: this setting is required"
    if (
        error_type == "value_error"
    ):  # a check of our own, which names the setting
        reason = str(detail["ctx"]["error"])
        path = ".".join(map(str, detail["loc"]))
        return f"[{path}] {reason}".removeprefix("[] ")
    received = repr(detail["input"])
    if error_type.startswith(("model_type", "model_attributes")):
        return f"{label}: expected a table, written [{name}], got {received}"
    template = _EXPECTED.get(
        error_type, detail["msg"].removeprefix("Input should be ")
    )
    expected = template.format(**detail.get("ctx", {}))
    if not tables and name in settings.model_fields:
        expected = settings.model_fields[name].description or expected
    return f"{label}: expected {expected}, got {received}"


def _location(path: tuple[int | str, ...]) -> tuple[list[str], str]:
    """The tables around a setting and its name; "name.2" is the third entry of a list."""
    names: list[str] = []
    for key in path:
        if isinstance(key, int) and names:
            names[-1] += f".{key}"
        else:
            names.append(str(key))
    if not names:
        return [], "settings"
    return names[:-1], names[-1]


def _fields_at(settings: type[BaseModel], tables: list[str]) -> list[str]:
    """The names of the settings in a nested table."""
    for table in tables:
        field = settings.model_fields.get(table)
        annotation = field.annotation if field else None
        if not (
            isinstance(annotation, type) and issubclass(annotation, BaseModel)
        ):
            return []
        settings = annotation
    return list(settings.model_fields)


def check_choice(
    name: str,
    value: str,
    choices: tuple[str, ...],
) -> None:
    """Raise `UserError`, with the nearest choice, if a value is not one of the choices."""
    if value in choices:
        return
    guess = ""
    if near := difflib.get_close_matches(value.lower(), choices, n=1):
        guess = f"; did you mean {near[0]!r}?"
    raise UserError(
        f"unknown {name} {value!r}{guess}; expected one of {choices}"
    )
