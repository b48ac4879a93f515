"""The registry of routes: which runtime lets its agent ask, by which route, seen at which version.

Cheap to import; the file is read, and pydantic loaded, by the first look-up. A claim that the registry does not
make is unknown, and what is unknown does not count as working.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs
from attrs import field, frozen

from opask.errors import RegistryError
from opask.versions import Drift, compare_versions, drift

if TYPE_CHECKING:
    from opask.registry_schema import Document, Observation, RouteRow, RuntimeRow

__all__ = ["Registry", "RouteStatus", "Support", "shipped_path", "support", "verified_observation"]

RouteStatus: TypeAlias = Literal["verified", "refuted", "untested"]


@frozen
class Support:
    """What the registry says of one runtime at one version.

    Args:
        runtime: the runtime's id.
        title: its name for people.
        version: the version that was asked about, None where it is not known.
        route: the route's id; None where the registry knows none.
        status: the route's, at this version.
        drift: how this version stands to the one that the route was seen at.
        questions: whether the agent can be counted on to ask: only by a verified route.
        seen_version: the version that `status` rests on; None where nothing was seen.
        seen_date: when that was seen.
        levers: names of what a launch has to set for this route; what each does is its adapter's business.
        wait: seconds that a call may wait with those levers; None for unbounded, or where it is not known.
    """

    runtime: str
    title: str
    version: str | None
    route: str | None
    status: RouteStatus
    drift: Drift
    questions: bool
    seen_version: str | None = None
    seen_date: date | None = None
    levers: tuple[str, ...] = ()
    wait: float | None = None

    @property
    def summary(self) -> str:
        """All of it in one line for a person."""
        name = f"{self.title} {self.version}" if self.version else self.title
        if self.route is None:
            return f"{name}: the registry knows no route"
        if self.seen_version is None:
            return f"{name}: route {self.route} is {self.status}"
        seen = f"route {self.route} {self.status} at {self.seen_version} ({self.seen_date})"
        relation = {
            "same": "",
            "newer": "; this version is newer",
            "older": "; this version is older",
            "unknown": "; how this version stands to that is not known",
        }
        return f"{name}: {seen}{relation[self.drift]}"


def shipped_path() -> Path:
    """Return the file of the registry that comes with opask."""
    return Path(__file__).with_name("registry.toml")


@frozen
class Registry:
    """A registry that was read and checked.

    Args:
        document: what it holds.
        path: the file that it came from.
    """

    document: Document = field(repr=False)
    path: Path

    @classmethod
    def load(cls, path: Path | str) -> Registry:
        """Read a registry file: the shipped one, or a host's own, of the same schema.

        Raises:
            RegistryError: it cannot be read, is no TOML, is of a newer schema or does not keep to this one.
        """
        import tomllib  # with pydantic below, most of what a look-up costs, and many imports never look up

        from opask.registry_schema import read_document

        path = Path(path)
        try:
            with path.open("rb") as file:
                raw = tomllib.load(file)
        except OSError as error:
            raise RegistryError(
                f"{path.name}: cannot be read ({error.strerror or error}); name an existing registry file",
                file=path.name,
            ) from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise RegistryError(
                f"{path.name}: is no TOML: {error}; correct it there", file=path.name
            ) from error
        return cls(read_document(raw, file=path.name), path)

    @classmethod
    def shipped(cls) -> Registry:
        """Return the registry that comes with opask; read once a process.

        Raises:
            RegistryError: see `load`.
        """
        return _shipped()

    @property
    def runtimes(self) -> Mapping[str, RuntimeRow]:
        """The rows by runtime id, in the file's order."""
        return self.document.runtimes

    def overlaid_by(self, other: Registry) -> Registry:
        """Return this registry with every runtime that the other one has taken from there."""
        merged = {**self.document.runtimes, **other.document.runtimes}
        document = other.document.model_copy(update={"runtimes": merged})
        return attrs.evolve(self, document=document, path=other.path)

    def support(self, runtime: str, version: str | None = None, *, route: str | None = None) -> Support:
        """Say whether an agent of this runtime can ask.

        An observation of this very version decides; else the nearest one on the way from it to the version that
        the route is verified at, so that a version beyond a refuted one counts as refuted too.

        Args:
            runtime: the runtime's id.
            version: the version in hand, where it is known.
            route: the route in use; without it, the first verified one, else the first that is not refuted.

        Returns:
            What is known; for a runtime or a route that the registry does not have, that nothing is.
        """
        row = self.runtimes.get(runtime)
        title = row.title if row else runtime
        chosen = None
        if row is not None:
            routes = row.routes if route is None else [one for one in row.routes if one.id == route]
            order = sorted(routes, key=lambda one: _RANK[_standing(one, version)[0]])
            chosen = order[0] if order else None
        if chosen is None:
            return Support(runtime, title, version, route, "untested", "unknown", questions=False)
        status, seen = _standing(chosen, version)
        ceiling = chosen.wait.ceiling_s
        return Support(
            runtime=runtime,
            title=title,
            version=version,
            route=chosen.id,
            status=status,
            drift=drift(version, seen.version) if seen else "unknown",
            questions=status == "verified",
            seen_version=seen.version if seen else None,
            seen_date=seen.date if seen else None,
            levers=chosen.levers,
            wait=ceiling if isinstance(ceiling, float) else None,
        )


_RANK: Mapping[RouteStatus, int] = {"verified": 0, "untested": 1, "refuted": 2}


@functools.cache
def _shipped() -> Registry:
    return Registry.load(shipped_path())


def support(
    runtime: str, version: str | None = None, *, route: str | None = None, registry: Registry | None = None
) -> Support:
    """Say whether an agent of this runtime can ask; see `Registry.support`.

    Args:
        runtime: the runtime's id.
        version: the version in hand, where it is known.
        route: the route in use.
        registry: a host's own; the shipped one by default.

    Raises:
        RegistryError: the shipped registry cannot be read.
    """
    return (registry or Registry.shipped()).support(runtime, version, route=route)


def verified_observation(route: RouteRow) -> Observation | None:
    """Return the observation that makes a route verified: the newest verified one of a route that is called so."""
    if route.status != "verified":
        return None
    return _newest([observation for observation in route.observations if observation.status == "verified"])


def _newest(observations: list[Observation]) -> Observation | None:
    newest: Observation | None = None
    for observation in observations:
        if newest is None or compare_versions(observation.version, newest.version) == 1:
            newest = observation
    return newest


def _standing(route: RouteRow, version: str | None) -> tuple[RouteStatus, Observation | None]:
    """Give a route's status at a version, and the observation that it rests on."""
    judged = [observation for observation in route.observations if observation.status != "untested"]
    verified = verified_observation(route)
    if route.status == "refuted":
        refuted = _newest([observation for observation in judged if observation.status == "refuted"])
        return "refuted", refuted
    if verified is None:
        return "untested", None
    here = compare_versions(version, verified.version) if version is not None else None
    if version is None or not here:
        return "verified", verified
    between = [
        observation
        for observation in judged
        if compare_versions(observation.version, version) in (0, -here)
        and compare_versions(observation.version, verified.version) in (0, here)
    ]
    # Where one version is verified on one platform and refuted on another, it works.
    between.sort(key=lambda observation: observation.status != "verified")
    between.sort(
        key=functools.cmp_to_key(
            lambda one, other: here * (compare_versions(other.version, one.version) or 0)
        )
    )
    nearest = between[0]
    return nearest.status, nearest
