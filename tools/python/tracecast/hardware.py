"""What predictions know about the world."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Sequence, Union

from tracecast import _core

File = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Peak:
    """Arithmetic rate of a GPU at its boost clock, dense; a multiply-add counts as two operations."""

    precision: str
    unit: str
    flops_per_s: float


@dataclass(frozen=True)
class Gpu:
    """Public facts about a GPU."""

    id: str
    name: str
    architecture: str
    sm_count: int
    memory_bytes: float
    bandwidth_bytes_per_s: float  #: of device memory, in theory
    tdp_w: float
    peaks: tuple[Peak, ...]


@dataclass(frozen=True)
class Hardware:
    """All specs and profiles: those in the module, and those of files. Never changes; cheap to copy; for any number of threads.

    profile: cost profile file (``--profile``); hwspecs: folder with further specs (``--hwspecs``); settings: ``"PATH=VALUE"`` as of
    ``--set``, such as ``"gpu.memory_bandwidth=2x"``. Raises InputError.
    """

    profile: str = ""
    hwspecs: str = ""
    settings: tuple[str, ...] = ()
    _core: _core.Hardware = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "profile", os.fspath(self.profile) if self.profile else "")
        object.__setattr__(self, "hwspecs", os.fspath(self.hwspecs) if self.hwspecs else "")
        object.__setattr__(self, "settings", tuple(self.settings))
        object.__setattr__(self, "_core", _core.Hardware(self.profile, self.hwspecs, self.settings))

    def with_profile(self, file: File) -> Hardware:
        """With the cost profile of a file instead."""
        return Hardware(os.fspath(file), self.hwspecs, self.settings)

    def with_folder(self, folder: File) -> Hardware:
        """With the specs of a folder, which replace those of the same id."""
        return Hardware(self.profile, os.fspath(folder), self.settings)

    def with_setting(self, *settings: str) -> Hardware:
        """With things set: ``"gpu.compute=2x"``, ``"link.bandwidth=0.5x"``, ``"framework.dispatch_us=4"``."""
        return Hardware(self.profile, self.hwspecs, self.settings + settings)

    @property
    def gpus(self) -> list[str]:
        """Ids, sorted."""
        return self._core.gpu_ids()

    @property
    def cpus(self) -> list[str]:
        """Ids, sorted."""
        return self._core.cpu_ids()

    @property
    def machines(self) -> list[str]:
        """Ids, sorted."""
        return self._core.machine_ids()

    def gpu(self, word: str) -> Gpu:
        """The GPU that a word means: an id, or a short form such as ``v100``. Raises InputError with the nearest word."""
        fields = self._core.gpu(word)
        fields["peaks"] = tuple(Peak(*peak) for peak in fields["peaks"])
        return Gpu(**fields)

    def _words(self) -> list[str]:
        """The flags that ask a subcommand for this hardware."""
        words: Sequence[str] = [f"--profile={self.profile}"] * bool(self.profile)
        return [*words, *[f"--hwspecs={self.hwspecs}"] * bool(self.hwspecs), *(f"--set={s}" for s in self.settings)]
