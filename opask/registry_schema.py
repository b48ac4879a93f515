"""The registry file's schema, as models that read it; docs/registry.md is its twin in prose.

A claim that a row does not make is unknown, never false. Loaded only where a registry is read, since pydantic
takes its time.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from opask.errors import RegistryError
from opask.versions import is_version

__all__ = [
    "SCHEMA_VERSION",
    "Document",
    "Exemption",
    "Exposure",
    "NativeAsk",
    "Observation",
    "Package",
    "Permission",
    "RouteRow",
    "RuntimeRow",
    "Spellings",
    "Startup",
    "Wait",
    "read_document",
]

SCHEMA_VERSION = 1
"""The newest schema that this module reads."""

# What may stand after a program's name in a version command: a bare program may start the runtime, or worse.
_VERSION_ARGUMENTS = frozenset({"--version", "-V", "-v", "version"})


def _fault(code: str, message: str) -> PydanticCustomError:
    return PydanticCustomError(f"registry_{code}", message.replace("{", "{{").replace("}", "}}"))


def _one_or_more(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def _version(value: str) -> str:
    if not is_version(value):
        raise _fault(
            "version", f"{value!r} is no version; write it as the program prints it, such as 2.1.332"
        )
    return value


def _evidence_path(value: str) -> str:
    parts = value.split("/")
    if (
        value.startswith("/")
        or "\\" in value
        or ":" in parts[0]
        or any(part in ("", ".", "..") for part in parts)
    ):
        raise _fault(
            "path", f"{value!r} has to be a plain path below the registry's own folder, with / between names"
        )
    return value


def _version_command(value: tuple[str, ...]) -> tuple[str, ...]:
    if (
        len(value) != 2
        or value[1] not in _VERSION_ARGUMENTS
        or not re.fullmatch(r"[A-Za-z0-9][\w.-]*", value[0])
    ):
        raise _fault(
            "version_command",
            "has to be a program's plain name and one of --version, -V, -v, version: nothing else is safe to run unasked",
        )
    return value


def _pattern(value: str) -> str:
    try:
        groups = re.compile(value).groups
    except re.error as error:
        raise _fault("pattern", f"is no regular expression: {error}") from None
    if groups != 1:
        raise _fault("pattern", "needs exactly one group, around the version")
    return value


def _id(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise _fault("id", f"{value!r} has to be an id: lower-case words with hyphens between them")
    return value


def _lever(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise _fault(
            "lever",
            f"{value!r} has to be a lever's name, lower-case words with hyphens between them: what it sets is the "
            "adapter's business, never a variable or a flag here",
        )
    return value


def _bound(value: Any) -> float | Literal["unbounded"]:
    if value == "unbounded":
        return "unbounded"
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise _fault("bound", f'has to be a number of seconds, or "unbounded", not {value!r:.80}')
    return float(value)


_NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")

Id = Annotated[str, AfterValidator(_id)]
LeverName = Annotated[str, AfterValidator(_lever)]
Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
Version = Annotated[str, AfterValidator(_version)]
EvidencePath = Annotated[str, AfterValidator(_evidence_path)]
Levers = Annotated[tuple[LeverName, ...], BeforeValidator(_one_or_more), Field(strict=False)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Bound = Annotated[float | Literal["unbounded"], PlainValidator(_bound)]
Status: TypeAlias = Literal["verified", "refuted", "untested"]


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Package(_Row):
    """Where the runtime comes from."""

    ecosystem: Literal["npm", "pypi"]
    name: Text
    version: Version
    needs: Annotated[tuple[Text, ...], Field(strict=False)] = ()

    @property
    def install(self) -> str:
        """The command that installs the pinned version."""
        if self.ecosystem == "npm":
            return f"npm install --global {self.name}@{self.version}"
        return f"pip install {self.name}=={self.version}"


class Spellings(_Row):
    """How the ask tool's name is written, and by whom."""

    model: Text | None = None
    events: Text | None = None
    permission: Text | None = None


class Exposure(_Row):
    """Whether the model sees the tool at once."""

    default: Literal["listed", "deferred"] | None = None
    lever: Levers = ()


class NativeAsk(_Row):
    """The runtime's own ask tool."""

    names: Annotated[tuple[Text, ...], Field(strict=False)] = ()
    offered: bool | None = None
    denied_by: Levers = ()
    stays_offered: bool | None = None


class Permission(_Row):
    """What stands between the model's call and the tool."""

    asked: bool | None = None
    reject_ends_turn: bool | None = None
    reason_reaches_model: bool | None = None
    lever: Levers = ()


class Wait(_Row):
    """How long a call may wait for its answer."""

    default_s: Bound | None = None
    ceiling_s: Bound | None = None
    progress_extends: bool | None = None
    lever: Levers = ()
    collateral: Text | None = None


class Startup(_Row):
    """How long the ask server may take until the first turn goes on without it."""

    window_s: Seconds | None = None
    lever: Levers = ()


class Observation(_Row):
    """What was seen of a route on one version, and the evidence for it."""

    version: Version
    date: dt.date
    platform: Text
    probe: EvidencePath
    recording: EvidencePath
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    status: Status


class RouteRow(_Row):
    """One way that a question can get from a runtime to the host."""

    id: Id
    status: Status
    spellings: Spellings = Spellings()
    arguments: Text | None = None
    correlation: Literal["exact-id", "question-text", "announcement-order"] | None = None
    exposure: Exposure = Exposure()
    native_ask: NativeAsk = NativeAsk()
    permission: Permission = Permission()
    wait: Wait = Wait()
    startup: Startup = Startup()
    cancel_reaches_server: bool | None = None
    resend_after_crash: bool | None = None
    resume_needs_servers: bool | None = None
    parallel: Literal["concurrent", "serial"] | None = None
    subagents: Literal["inherit", "some", "none"] | None = None
    subagents_told: bool | None = None
    clause_by: Text | None = None
    notes: Text | None = None
    observations: Annotated[tuple[Observation, ...], Field(strict=False)] = ()

    @model_validator(mode="after")
    def _each_version_once(self) -> RouteRow:
        seen = [(observation.version, observation.platform) for observation in self.observations]
        for version, platform in seen:
            if seen.count((version, platform)) > 1:
                raise _fault(
                    "twice", f"version {version} on {platform} is observed twice; keep one observation"
                )
        return self

    @property
    def is_native(self) -> bool:
        """Whether it is the runtime's own ask tool, and not opask's."""
        return self.id.partition("-")[0] == "native"

    @property
    def levers(self) -> tuple[str, ...]:
        """Every lever that the row names, each once."""
        named = (
            *self.exposure.lever,
            *self.native_ask.denied_by,
            *self.permission.lever,
            *self.wait.lever,
            *self.startup.lever,
        )
        return tuple(dict.fromkeys(named))


class RuntimeRow(_Row):
    """One runtime, and the routes of it in order of preference."""

    title: Text
    adapter: Id | None = None
    package: Package | None = None
    version_command: (
        Annotated[tuple[str, ...], Field(strict=False), AfterValidator(_version_command)] | None
    ) = None
    version_pattern: Annotated[str, AfterValidator(_pattern)] | None = None
    notes: Text | None = None
    routes: Annotated[tuple[RouteRow, ...], Field(strict=False)]

    @model_validator(mode="after")
    def _each_route_once(self) -> RuntimeRow:
        ids = [route.id for route in self.routes]
        if not ids:
            raise _fault("no_route", "it has no route; add one, untested if nothing is known of it")
        for id_ in ids:
            if ids.count(id_) > 1:
                raise _fault("twice", f"route {id_!r} is there twice; give each its own id")
        return self


class Exemption(_Row):
    """A finding of the linter that is accepted, and why."""

    rule: Id
    where: Text
    reason: Text


class Document(_Row):
    """The whole file."""

    schema_version: Annotated[int, Field(ge=1)]
    data_version: Annotated[int, Field(ge=1)]
    runtimes: dict[Id, RuntimeRow]
    exceptions: Annotated[tuple[Exemption, ...], Field(strict=False)] = ()


def read_document(raw: dict[str, Any], *, file: str) -> Document:
    """Check what a registry's TOML holds, and give it as a document.

    Args:
        raw: the parsed TOML.
        file: the file's name, for messages.

    Raises:
        RegistryError: the file is of a newer schema, or does not keep to this one; it lists every fault.
    """
    version = raw.get("schema_version")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise RegistryError(
            f"{file}: schema_version: it is written for schema {version} and this opask reads up to {SCHEMA_VERSION}; "
            "install a newer opask, or use an older registry",
            file=file,
            field="schema_version",
        )
    try:
        return Document.model_validate(raw)
    except ValidationError as error:
        faults = tuple(_located(raw, file, fault) for fault in error.errors(include_url=False))
        row, field, message = faults[0]
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise RegistryError(message + more, file=file, row=row, field=field, faults=faults) from None


def _located(raw: dict[str, Any], file: str, fault: Any) -> tuple[str | None, str | None, str]:
    """Give the row and the field that a fault is in, and the whole message."""
    row, path = _row(raw, list(fault["loc"]))
    field = ".".join(str(part) for part in path if part != "[key]") or None
    place = ": ".join(part for part in (file, row, field) if part)
    return row, field, f"{place}: {_words(fault)}"


def _row(raw: Any, path: list[Any]) -> tuple[str | None, list[Any]]:
    """Split a fault's path into the row's name, as a person would look for it, and the field within it."""
    if path[:1] == ["exceptions"] and len(path) > 1:
        return f"exceptions #{path[1] + 1}", path[2:]
    if path[:1] != ["runtimes"] or len(path) < 2:
        return None, path
    name, value, path = str(path[1]), raw["runtimes"][path[1]], path[2:]
    if path[:1] == ["routes"] and len(path) > 1:
        value, name = value["routes"][path[1]], f"{name}/{_known(value['routes'][path[1]], 'id', path[1])}"
        path = path[2:]
        if path[:1] == ["observations"] and len(path) > 1:
            value = value["observations"][path[1]]
            return f"{name}@{_known(value, 'version', path[1])}", path[2:]
    return name, path


def _known(value: Any, key: str, position: int) -> str:
    found = value.get(key) if isinstance(value, dict) else None
    return str(found) if found else f"#{position + 1}"


_KINDS = {
    "bool_type": "true or false",
    "date_type": "a date, without quotes",
    "dict_type": "a table",
    "float_type": "a number",
    "int_type": "a whole number",
    "model_type": "a table",
    "string_type": "a string",
    "tuple_type": "an array",
}


def _words(fault: Any) -> str:
    kind, given = fault["type"], fault["input"]
    if kind == "missing":
        return "it is missing; add it"
    if kind == "extra_forbidden":
        return f"schema {SCHEMA_VERSION} has no such field; correct its name or take it out (docs/registry.md lists them)"
    if kind in _KINDS:
        return f"has to be {_KINDS[kind]}, not {type(given).__name__}"
    shown = repr(given) if isinstance(given, str | int | float | bool) else type(given).__name__
    message = str(fault["msg"])
    if kind.startswith("registry_"):
        return message
    return f"{message[:1].lower()}{message[1:]}, not {shown[:80]}"
