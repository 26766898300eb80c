"""Values of an ``env`` mapping: where each comes from, and how it stays out of sight."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NoReturn

from pydantic import BeforeValidator, GetCoreSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, core_schema

from airflow_gym_provider.config.fields import A_VARIABLE, VARIABLE_NAME, as_text, kind_of, refuse
from airflow_gym_provider.config.hiding import NOT_SHOWN, name_to_show

Kind = Literal["lit", "host", "runtime"]
_MOST_BYTES = 131_071  # with its name; MAX_ARG_STRLEN less the closing NUL
_KINDS: tuple[Kind, ...] = ("lit", "host", "runtime")
_PREFIXES = (
    "start it with host: (a variable of the submitting shell, for every secret), lit: (a literal) "
    "or runtime: (one of the job's)"
)


class EnvValue:
    """One entry of an ``env`` mapping.

    ``kind`` is ``lit``, ``host`` or ``runtime``; ``reference`` is the text of the config (``host:HF_TOKEN``), which may
    be stored and shown; ``value`` is the literal text for ``lit`` and ``host`` and the variable's name for ``runtime``.
    Neither ``repr`` nor ``str`` nor an error shows ``value``, and an instance refuses to be pickled.
    """

    __slots__ = ("kind", "reference", "value")
    kind: Kind
    reference: str
    value: str

    def __init__(self, kind: Kind, reference: str, value: str) -> None:
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "reference", reference)
        object.__setattr__(self, "value", value)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"EnvValue is read-only: {name}")

    def __repr__(self) -> str:
        # A literal may hold what an interpolation read from the environment, so it is not shown either.
        return f"EnvValue({'lit:…' if self.kind == 'lit' else self.reference})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EnvValue):
            return NotImplemented
        return (self.kind, self.reference, self.value) == (other.kind, other.reference, other.value)

    def __hash__(self) -> int:
        return hash((self.kind, self.reference))

    def __copy__(self) -> EnvValue:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> EnvValue:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("EnvValue may hold a secret and is not pickled; store SubmitConfig.resolved() instead")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Pass instances through as they are; dump them as their reference."""
        shown = core_schema.plain_serializer_function_ser_schema(lambda value: value.reference)
        return core_schema.is_instance_schema(cls, serialization=shown)


def read_env(value: Any, info: ValidationInfo) -> EnvValue:
    """Parse one entry; ``info.context["environ"]`` is the submitting shell's environment.

    A value without a prefix is refused without being repeated: it may be a secret. A variable that is set but empty
    counts as set.
    """
    if isinstance(value, EnvValue):
        return value
    if not isinstance(value, str):
        raise refuse(f"must be text with a prefix, not {kind_of(value)}; {_PREFIXES}")
    text = as_text(value)
    kind = next((kind for kind in _KINDS if text.startswith(f"{kind}:")), None)
    if kind is None:
        raise refuse(f"the value lacks a prefix (it is not shown, as it may be a secret); {_PREFIXES}")
    rest = text[len(kind) + 1 :]
    if kind == "lit":
        return EnvValue(kind, text, rest)
    if not VARIABLE_NAME.match(rest):
        shown = name_to_show(rest)
        there = f"what is there is {NOT_SHOWN}" if shown is None else f"{shown!r} is none"
        raise refuse(f"after {kind}: comes the name of {A_VARIABLE}; {there}")
    return EnvValue(kind, text, rest if kind == "runtime" else _host_value(rest, info.context or {}))


def _host_value(name: str, context: Mapping[str, Any]) -> str:
    environ: Mapping[str, str] = context.get("environ", {})
    if name not in environ:
        if name_to_show(name) is None:
            there = f"what is there ({NOT_SHOWN}) is not set in the submitting environment"
            raise refuse(f"after host: comes the name of a variable, and {there}; set it, or use runtime:", unset=name)
        cure = f"set {name}, or use runtime:{name}"
        raise refuse(f"host:{name} is not set in the submitting environment; {cure}", unset=name)
    value = environ[name]
    if fault := value_fault(name, value):
        raise refuse(f"the value of {name} {fault}")
    return value


def value_fault(name: str, value: str) -> str | None:
    """Return why no process can have this variable, without its value; None when one can."""
    if "\x00" in value:
        return "holds a NUL character, which no program can be given"
    try:
        size = len(name) + 1 + len(value.encode())
    except UnicodeEncodeError:
        return "is not valid UTF-8, in which it would be sent; encode it, as in base64"
    if size > _MOST_BYTES:
        return f"has {size} bytes with its name, and Linux passes at most {_MOST_BYTES} in one variable; use a file"
    return None


def read_env_name(value: Any) -> str:
    """Check one key of an ``env`` mapping, which has to be a variable's name. The value is not part of the message."""
    if not isinstance(value, str) or not VARIABLE_NAME.match(value):
        cure = "; in YAML a blank comes after the colon" if isinstance(value, str) and ":" in value else ""
        raise refuse(f"is not the name of {A_VARIABLE}{cure}")
    return value


Env = dict[
    Annotated[str, BeforeValidator(read_env_name)],
    Annotated[EnvValue, BeforeValidator(read_env)],
]
