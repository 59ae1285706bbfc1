"""What is answered: plain values that depend on nothing else."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Iterator, Mapping, Optional

import numpy as np
from numpy.typing import NDArray

from tracecast import _core

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A value with its 90 % interval."""

    value: float
    low: float
    high: float

    def __float__(self) -> float:
        return self.value


@dataclass(frozen=True)
class Forecast:
    """How a job runs at a place. Of the whole job, of all its GPUs, unless said otherwise."""

    network: str
    gpu: Optional[str]
    machine: Optional[str]
    host_cpu: Optional[str]
    framework: Optional[str]
    precision: Optional[str]
    optimizer: Optional[str]
    phase: Optional[str]
    parallel_layout: Optional[str]  #: how several GPUs share it; None: one GPU
    gpus: int
    nodes: int
    batch_per_gpu: int
    samples_per_step: float
    parameters: int
    forward_macs_per_sample: Optional[float]
    throughput_samples_per_s: Interval
    throughput_tokens_per_s: Optional[Interval]  #: of language networks
    step_time_s: Interval
    efficiency: float  #: throughput over that of the GPUs each alone
    gpu_utilization_min: Optional[float]  #: as nvidia-smi shows it
    gpu_utilization_avg: Optional[float]
    gpu_utilization_max: Optional[float]
    sm_efficiency: Optional[float]  #: arithmetic done over possible
    cpu_utilization: Optional[float]
    bottleneck: Optional[str]
    fits: bool  #: in the memory of the device
    memory_needed_bytes: float  #: of the fullest rank
    device_used_bytes: float  #: what nvidia-smi would show
    peak_live_bytes: float
    memory_capacity_bytes: float
    fit_probability: float  #: that it fits; `fits` is 0.5 and more
    memory_needed_low_bytes: float  #: 90 % interval of memory_needed_bytes
    memory_needed_high_bytes: float
    power_idle_w: Optional[float]  #: of one board
    power_min_w: Optional[float]
    power_avg_w: Optional[float]
    power_max_w: Optional[float]
    board_power_total_w: Optional[float]  #: of all boards
    energy_j_per_sample: Optional[float]
    basis: Mapping[str, float]  #: shares of the step's time: measured, transferred, spec, unknown
    by_class_s: Mapping[str, float]  #: where a step goes, by kernel class
    by_cause_s: Mapping[str, float]  #: along its critical path
    memory_by_class_bytes: Mapping[str, float]
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]
    inputs: tuple[Mapping[str, str], ...]  #: kind, name and sha256 of what was read
    _core: _core.Forecast = field(repr=False, compare=False)

    def roofline(self) -> Roofline:
        """Every kernel against the roofs of the GPU. Of one GPU: else raises InputError."""
        fields = self._core.roofline()
        fields["classes"] = np.array(fields["classes"])
        fields["roofs"] = tuple(Roof(*roof) for roof in fields["roofs"])
        return Roofline(**fields)

    @staticmethod
    def _of(core: _core.Forecast) -> Forecast:
        row = core.fields()

        def interval(name: str, unit: str) -> Optional[Interval]:
            value = row[name + unit]
            return None if value is None else Interval(value, row[name + "_low" + unit], row[name + "_high" + unit])

        taken = {name: row[name] for name in Forecast.__dataclass_fields__ if name in row}
        taken |= {name[len("used_"):]: value for name, value in row.items() if name.startswith("used_")}
        taken["fits"] = bool(row["fits"])
        taken["throughput_samples_per_s"] = interval("throughput", "_samples_per_s")
        taken["throughput_tokens_per_s"] = interval("throughput", "_tokens_per_s")
        taken["step_time_s"] = interval("step_time", "_s")
        taken["basis"] = {basis: row["basis_" + basis] for basis in ("measured", "transferred", "spec", "unknown")}
        for name in ("by_class_s", "by_cause_s", "memory_by_class_bytes"):
            taken[name] = json.loads(row[name + "_json"])
        for name in ("assumptions", "warnings", "inputs"):
            taken[name] = tuple(json.loads(row[name + "_json"] or "[]"))
        return Forecast(**taken, _core=core)


@dataclass(frozen=True)
class Roof:
    """What a format and unit could do at the boost clock."""

    precision: str
    unit: str
    flops_per_s: float


@dataclass(frozen=True)
class Roofline:
    """Kernels that do arithmetic and move data, in order; arrays of shape (kernels,)."""

    flops: Floats
    bytes: Floats  #: that must move; caches may save some
    time_s: Floats
    log_sd: Floats  #: standard deviation of ln(measured / predicted) of a time
    classes: NDArray[np.str_]
    roofs: tuple[Roof, ...]  #: of the formats that are used, highest first
    bandwidth_bytes_per_s: float
    without_arithmetic: int  #: kernels left out

    @property
    def intensity_flop_per_byte(self) -> Floats:
        return self.flops / self.bytes

    @property
    def flops_per_s(self) -> Floats:
        return self.flops / self.time_s


@dataclass(frozen=True)
class Matrix:
    """Throughput of every job at every place; arrays of shape (jobs, places). NaN where there is no answer."""

    samples_per_s: Floats
    samples_per_s_low: Floats
    samples_per_s_high: Floats
    step_time_s: Floats
    memory_needed_bytes: Floats  #: of the fullest rank
    memory_capacity_bytes: Floats
    power_w: Floats  #: of all boards
    fits: NDArray[np.bool_]
    refused: NDArray[np.object_]  #: why there is no answer; empty: there is one


@dataclass(frozen=True)
class ParallelLayout:
    """One way to divide a transformer's training step."""

    tp: int
    pp: int
    dp: int
    ep: int
    zero: int
    micro_batch: int
    recompute: str
    schedule: str
    samples_per_s: Interval
    step_time_s: Interval
    memory_bytes: float
    capacity_bytes: float
    fits: bool
    bottleneck: str


@dataclass(frozen=True)
class Figure:
    """A latency in ms with its 90 % interval; half_width: of the simulated figure's own 90 % confidence."""

    value: float
    low: float
    high: float
    half_width: float = 0.0

    def __float__(self) -> float:
        return self.value


@dataclass(frozen=True)
class Latency:
    """Of all requests, ms."""

    mean: Figure
    p50: Figure
    p90: Figure
    p99: Figure


class _Document:
    """A JSON document of the command; keys are attributes, and all of it is in `document`."""

    def __init__(self, document: Mapping[str, Any], exit_code: int = 0) -> None:
        self.document = document
        self.exit_code = exit_code  #: 1: answered, and the answer is no

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["document"][name]
        except KeyError:
            raise AttributeError(name) from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.document]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self.document)})"


class Serving(_Document):
    """What requests meet. Beside what is named here all keys of ``tracecast serve --format json``. Latencies are None where the
    network does not fit."""

    @staticmethod
    def _latency(of: Optional[Mapping[str, Mapping[str, float]]]) -> Optional[Latency]:
        if of is None:
            return None
        known = Figure.__dataclass_fields__
        return Latency(**{name: Figure(**{k: v for k, v in of[name].items() if k in known})
                          for name in Latency.__dataclass_fields__})

    @property
    def fits(self) -> bool:
        return "ttft_ms" in self.document

    @property
    def ttft_ms(self) -> Optional[Latency]:
        """To the first token."""
        return self._latency(self.document.get("ttft_ms"))

    @property
    def tpot_ms(self) -> Optional[Latency]:
        """Per output token."""
        return self._latency(self.document.get("tpot_ms"))

    @property
    def e2e_ms(self) -> Optional[Latency]:
        """End to end."""
        return self._latency(self.document.get("e2e_ms"))


class Plan(_Document):
    """What to buy or rent, and which job runs where: keys of ``tracecast plan --format json``: plan, runners_up, matrix, binding_limits."""


class TraceSummary(_Document):
    """Where the time of a recorded profile goes: keys of ``tracecast trace summary --format json``."""


class TraceReplay(_Document):
    """A recorded profile elsewhere: keys of ``tracecast trace replay --format json``."""


@dataclass(frozen=True)
class SweepSummary:
    """What a sweep came to."""

    points: int
    known: int  #: that the file had already
    predicted: int  #: by this run
    succeeded: int
    too_large: int  #: for memory: answered as if they fitted
    refused: int
    bugs: int  #: of ours
    reasons: Mapping[str, int]  #: of refusals
    seconds: float


@dataclass(frozen=True)
class Table:
    """Columns of a query, in order. ``dict(table)`` is what pandas.DataFrame takes."""

    columns: Mapping[str, NDArray[Any]]

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def keys(self) -> Any:
        return self.columns.keys()

    def __len__(self) -> int:
        """Rows."""
        return len(next(iter(self.columns.values()), ()))
