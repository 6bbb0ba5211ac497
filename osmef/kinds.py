"""Registry of kinds: workloads, layers and providers, of the project and of plug-ins.

The project's own are found by their modules' names, and imported when one is used. Other packages
declare theirs by entry points (PyPA's entry points specification), a name and a class each::

    [project.entry-points."osmef.workloads"]
    tachyon = "osmef_tachyon:Tachyon"
"""

from __future__ import annotations

import inspect
import pkgutil
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from osmef.errors import OsmefError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class KindError(OsmefError):
    """An unknown kind, or one whose package is broken."""

    exit_code = 2
    kind = "kind"


@dataclass(frozen=True)
class Broken:
    """A kind that can't be used: its package, and the reason."""

    name: str
    package: str
    why: str


@dataclass(frozen=True)
class Own:
    """The project's own kinds: a package with a module for each, and their base class.

    ``module`` is a pattern of the module's name; ``base`` a module and a class in it, with a colon.
    ``shared`` has the modules with several kinds, and these.
    """

    package: str
    module: str
    base: str
    shared: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def names(self) -> tuple[str, ...]:
        """Return the kinds with a module."""
        spec = find_spec(self.package)
        directories = list(spec.submodule_search_locations or ()) if spec else []
        found = pkgutil.iter_modules(directories)
        if "." not in self.module:
            modules = [one.name for one in found if not one.ispkg]
            kinds = (self.shared.get(one, (one.replace("_", "-"),)) for one in modules)
            return tuple(sorted(chain.from_iterable(kinds)))
        module = Path(*self.module.partition(".")[2].split(".")).with_suffix(".py")  # of a package
        packages = (one.name for one in found if one.ispkg)
        there = (
            one for one in packages if any(Path(at, one, module).exists() for at in directories)
        )
        return tuple(one.replace("_", "-") for one in there)

    def get(self, name: str) -> type[Any]:
        """Return the subclass of the base in a kind's module whose settings are of this kind."""
        homes = {kind: module for module, kinds in self.shared.items() for kind in kinds}
        module_name = self.module.format(homes.get(name, name.replace("-", "_")))
        module = import_module(f"{self.package}.{module_name}")
        found = [
            one
            for one in vars(module).values()
            if isinstance(one, type)
            and issubclass(one, self.base_class)
            and one.__module__ == module.__name__
            and _kind_of(getattr(one, "Settings", one)) == name
        ]
        (only,) = found
        return only

    @property
    def base_class(self) -> type[Any]:
        """The base class of all kinds."""
        module, name = self.base.split(":")
        found: type[Any] = getattr(import_module(module), name)
        return found


class Kinds:
    """Registry of one sort of kinds.

    ``group`` is that of the entry points, ``classes`` where the project's own classes are, and
    ``settings`` where their models are, if not in them; ``what`` is a word for one of a kind.
    """

    def __init__(self, what: str, group: str, classes: Own, settings: Own | None = None) -> None:
        self.what = what
        self.group = group
        self._own = classes
        self._own_settings = settings
        self.classes: dict[str, type[Any]] = {}
        """Known kinds; a program may add one that no package declares."""
        self._models: dict[str, type[Any]] = {}
        self._unusable: list[Broken] = []
        self._failed: dict[str, Broken] = {}

    @cached_property
    def own(self) -> tuple[str, ...]:
        """The project's own kinds."""
        return self._own.names()

    @cached_property
    def _brought(self) -> Mapping[str, EntryPoint]:
        """The entry points of other packages, without duplicates and names of ours."""
        from importlib.metadata import entry_points  # noqa: PLC0415 - slow, with email and zipfile

        found: dict[str, EntryPoint] = {}
        for point in sorted(entry_points(group=self.group), key=_package_of):
            if point.name in self.own or point.name in found:
                taken = found.get(point.name)
                whose = f"the package {_package_of(taken)}" if taken else "osmef itself"
                why = f"{whose} has a {self.what} of this name"
                self._unusable.append(Broken(point.name, _package_of(point), why))
            else:
                found[point.name] = point
        return found

    def leave_packages_out(self) -> None:
        """Know only the project's own kinds from now on, whichever packages are installed."""
        self._brought = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Return every known kind, working or not."""
        return tuple(dict.fromkeys((*self.own, *sorted(self._brought), *self.classes)))

    def __contains__(self, name: str) -> bool:
        """Return whether a kind is known, working or not; packages are only asked about others."""
        return name in self.own or name in self.classes or name in self._brought

    def package(self, name: str) -> str:
        """Return the package of a kind, with its version; ours is osmef."""
        if name in self.own:
            return "osmef"
        point = self._brought.get(name)
        if point is None:
            return self.classes[name].__module__
        return f"{_package_of(point)} {point.dist.version}" if point.dist else _package_of(point)

    def broken(self) -> tuple[Broken, ...]:
        """Return the broken kinds of other packages; this imports all of them."""
        for name in self._brought:
            self.working(name)
        return (*self._unusable, *self._failed.values())

    def working(self, name: str) -> type[Any] | None:
        """Return the class of a kind; None where its package is broken."""
        try:
            return self.get(name)
        except KindError:
            return None

    def get(self, name: str) -> type[Any]:
        """Return the class of a kind. Raises KindError, or ImportError of our own modules."""
        if name not in self.classes:
            self.classes[name] = self._own.get(name) if name in self.own else self._load(name)
        return self.classes[name]

    def settings(self, name: str) -> type[Any]:
        """Return the settings model of a kind. Raises KindError.

        That of a cloud of ours is found without what reaches it, which takes long to load.
        """
        if name not in self._models:
            quick = self._own_settings if name in self.own else None
            self._models[name] = quick.get(name) if quick else self.get(name).Settings
        return self._models[name]

    def line(self, name: str) -> str:
        """Return the first line of the docstring of a kind's settings or class.

        Docstrings of base classes don't count. Raises KindError.
        """
        for said in (self.settings(name), self.get(name)):
            own = vars(said).get("__doc__")
            if own:
                return inspect.cleandoc(own).partition("\n")[0]
        return ""

    def all_settings(self) -> list[type[Any]]:
        """Return the settings models of all usable kinds."""
        self.broken()
        usable = (self.settings(name) for name in self.names if name not in self._failed)
        return list(dict.fromkeys(usable))

    def _load(self, name: str) -> type[Any]:
        """Load the class of an entry point."""
        point = self._brought.get(name)
        if point is None:
            raise KindError(
                f"there is no {self.what} {name[:80]!r}",
                cure=f"name one of: {', '.join(self.names)}",
            )
        if name not in self._failed:
            try:
                return self._checked(point)
            except (Exception, SystemExit) as error:
                why = f"{type(error).__name__}: {error}"
                self._failed[name] = Broken(name, _package_of(point), why)
        broken = self._failed[name]
        raise KindError(
            f"the {self.what} {name} can't be used: {broken.why}",
            where=broken.package,
            cure=_cure(broken.package),
        )

    def cure(self, made: type[Any]) -> str | None:
        """Return the cure of a failing kind that another package brings; None of one of ours."""
        name = str(_kind_of(made.Settings))
        return _cure(_package_of(self._brought[name])) if self._is_brought(name) else None

    def loaded(self) -> Iterator[tuple[str, str, str]]:
        """Yield the loaded kinds of other packages in words, with their modules and packages."""
        for name, made in self.classes.items():
            if self._is_brought(name):
                package = _package_of(self._brought[name])
                yield f"the {self.what} {name}", _top(made.__module__), package

    def _is_brought(self, name: str) -> bool:
        return name not in self.own and name in self._brought

    def _checked(self, point: EntryPoint) -> type[Any]:
        found: object = point.load()
        base = self._own.base_class
        if not (isinstance(found, type) and issubclass(found, base)):
            raise TypeError(f"{point.value} is no class derived from {self._own.base}")
        if missing := sorted({*getattr(found, "__abstractmethods__", ()), *_undefined(found)}):
            raise TypeError(f"{point.value} has no {', '.join(missing)}")
        settings = getattr(found, "Settings", None)
        if _kind_of(settings) != point.name:
            raise TypeError(f"{point.value}.Settings has no kind whose default is {point.name!r}")
        if missing := sorted(getattr(settings, "__abstractmethods__", ())):
            raise TypeError(f"{point.value}.Settings has no {', '.join(missing)}")
        kind = getattr(found, "kind", point.name)  # a provider has one itself
        if kind != point.name:
            raise TypeError(f"{point.value} has the kind {kind!r}, and must have {point.name!r}")
        return found


def _kind_of(settings: object) -> object:
    """Return the kind that settings are of, None without one."""
    found = getattr(settings, "model_fields", {}).get("kind")
    return None if found is None else found.default


def _undefined(found: type[Any]) -> Iterator[str]:
    """Yield the class variables (``ClassVar``) that are declared, and have no value."""
    for one in found.__mro__:
        for name, declared in vars(one).get("__annotations__", {}).items():
            if "ClassVar" in str(declared) and not hasattr(found, name):
                yield name


def _top(module: str) -> str:
    return module.partition(".")[0]


def _cure(package: str) -> str:
    return f"fix or remove the package: pip uninstall {package}"


def _package_of(point: EntryPoint) -> str:
    return point.dist.name if point.dist else point.value.partition(":")[0]


WORKLOADS = Kinds(
    "workload",
    "osmef.workloads",
    Own("osmef.workloads.kinds", "{}", "osmef.workloads.base:Workload"),
)
LAYERS = Kinds(
    "layer",
    "osmef.layers",
    Own(
        "osmef.layers.kinds",
        "{}",
        "osmef.layers.base:Layer",
        {
            "tunnels": ("geneve", "gre", "ipip", "ipsec", "vxlan", "wireguard"),
            "virtual_ethernet": ("bridge", "macvlan", "veth-nat"),
        },
    ),
)
PROVIDERS = Kinds(
    "provider",
    "osmef.providers",
    Own("osmef.providers", "{}.provider", "osmef.providers.base:Provider"),
    Own("osmef.scenario.clouds", "{}", "osmef.scenario.clouds.base:CloudSettings"),
)


def broken_kind(error: BaseException) -> KindError | None:
    """Return the error of another package in whose code one was raised; None without it.

    It names the kind that the package brings, if that is only one.
    """
    known: dict[str, dict[str, str]] = {}
    for kinds in (WORKLOADS, LAYERS, PROVIDERS):
        for words, module, package in kinds.loaded():
            known.setdefault(module, {})[words] = package
    found = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        there = known.get(_top(str(frame.f_globals.get("__name__"))))
        if there is not None:
            found = there, f"{frame.f_code.co_filename}:{line}"  # the innermost
    if found is None:
        return None
    there, where = found
    (words, package), *others = there.items()
    why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    who = f"the package {package}" if others else words
    return KindError(f"{who} failed: {why}", where=where, cure=_cure(package))


@contextmanager
def naming_the_package() -> Iterator[None]:
    """Raise what another package's code raises as a KindError that names it.

    For what must not be left undone by its defect: the cure is to reap once it is mended.
    """
    try:
        yield
    except OsmefError:
        raise
    except Exception as error:
        broken = broken_kind(error)
        if broken is None:
            raise
        cure = "fix the package, then osmef reap destroys what is left"
        raise KindError(f"{broken.message} ({broken.where})", cure=cure) from error
