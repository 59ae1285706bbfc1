"""Questions: what a job is, where it runs, and who answers."""

from __future__ import annotations

import json
import os
from typing import Any, Callable, Mapping, Optional, Sequence, Union

import numpy as np

from tracecast import _core
from tracecast.hardware import File, Hardware
from tracecast.results import (ParallelLayout, Forecast, Interval, Matrix, Plan, Serving, SweepSummary, Table, TraceReplay,
                               TraceSummary)

Flag = Union[str, int, float, bool, None, "os.PathLike[str]"]
#: Flags that say yes or no, and what says no where that is not the same as nothing.
_NO = {"cudnn_benchmark": "--no-cudnn-benchmark", "channels_last": "--no-channels-last"}


def _words(flags: Mapping[str, Flag], *positional: Flag) -> list[str]:
    """The command line that says the same. None and False: not given."""
    words = []
    for name, value in flags.items():
        flag = "--" + name.replace("_", "-")
        if value is None:
            continue
        if value is True:
            words.append(flag)
        elif value is False:
            words += [_NO[name]] if name in _NO else []
        elif isinstance(value, (list, tuple)):
            words += [f"{flag}={part}" for part in value]
        else:
            words.append(f"{flag}={os.fspath(value) if isinstance(value, os.PathLike) else value}")
    return [*words, "--", *(str(word) for word in positional)]


class Job:
    """What is computed: a network and flags of ``predict`` that name no hardware, such as batch, precision, framework."""

    def __init__(self, network: str, **flags: Flag) -> None:
        self.network, self.flags = network, flags

    def __repr__(self) -> str:
        return f"Job({self.network!r}, {self.flags})"


class Place:
    """Where it runs: a GPU and flags of ``predict`` such as gpus, nodes, machine, cpu_threads."""

    def __init__(self, gpu: str, **flags: Flag) -> None:
        self.gpu, self.flags = gpu, flags

    def __repr__(self) -> str:
        return f"Place({self.gpu!r}, {self.flags})"


def run(*words: str) -> tuple[int, str, str]:
    """What ``tracecast WORDS...`` does: exit code, standard output, standard error. Raises InputError where that would be 2."""
    return _core.run(list(words))


class Predictor:
    """Answers questions about some hardware. Remembers networks and what became of them; for any number of threads."""

    def __init__(self, hardware: Optional[Hardware] = None) -> None:
        self.hardware = hardware or Hardware()
        self._core = _core.Predictor(self.hardware._core)

    def predict(self, network: str, gpu: str, **flags: Flag) -> Forecast:
        """How a network trains or infers. Flags are those of ``tracecast predict``: batch (samples per step and GPU), phase
        ("train", "infer", "forward", "forward_backward"), precision, framework, gpus (in total), nodes, strategy, tp, pp ..."""
        return Forecast._of(self._core.predict(_words({"gpu": gpu, **flags}, network)))

    def work(self, network: str, gpu: str, **flags: Flag) -> Mapping[str, Any]:
        """What an amount of work takes: time_s, energy_kwh, cost_usd ... as the key "work" of ``tracecast predict --format json``. Flags:
        tokens, samples or epochs, within ("60d"), price ("h100=2.50"), kwh_price, and those of predict."""
        return self._ask("predict", {"gpu": gpu, **flags}, network)[0]["work"]

    def throughput(self, jobs: Sequence[Job], places: Sequence[Place]) -> Matrix:
        """Every job at every place, as users of its framework share GPUs. What cannot be predicted is a cell with its reason."""
        if not jobs or not places:
            raise _core.InputError("throughput: no job or no place; expected one of each")
        fields = self._core.throughput(
            [_words({"gpu": places[0].gpu, **job.flags}, job.network) for job in jobs],
            [_words({"gpu": place.gpu, **place.flags}, jobs[0].network) for place in places])
        fields["fits"] = fields["fits"] != 0
        fields["refused"] = np.array(fields["refused"], dtype=object).reshape(fields["fits"].shape)
        return Matrix(**fields)

    def search(self, network: str, gpu: str, exhaustive: bool = False, **flags: Flag) -> list[ParallelLayout]:
        """Parallel layouts of a transformer's training step over the GPUs, the fastest that fits first: ``tracecast predict --search``. Flags: gpus,
        global_batch (sequences a step), and what of the parallel layout is given."""
        parallel_layouts = self._core.search(_words({"gpu": gpu, **flags}, network), exhaustive)
        for parallel_layout in parallel_layouts:
            for name in ("samples_per_s", "step_time_s"):
                parallel_layout[name] = Interval(*parallel_layout[name])
        return [ParallelLayout(**parallel_layout) for parallel_layout in parallel_layouts]

    def sweep(self, grid: Union[File, Mapping[str, Any]], output: File, threads: int = 0,
              on_progress: Optional[Callable[[int, int, int, float], None]] = None) -> SweepSummary:
        """Every point of a grid into an SQLite file; what it has already is not asked again (``tracecast sweep``).

        grid: a file, or ``{"predict": {"network": [...], "gpu": [...]}}`` with blocks or lists of blocks. threads: 0 is all cores.
        on_progress(points, known, predicted, seconds) is called some times a second. An interrupt ends it; the same call goes on.
        """
        if isinstance(grid, Mapping):
            text, where = _grid_text(grid), "grid"
        else:
            text, where = None, os.fspath(grid)
        return SweepSummary(**self._core.sweep(text, where, os.fspath(output), threads, on_progress))

    def serve(self, network: str, gpu: Optional[str] = None, **flags: Flag) -> Serving:
        """What requests to a language model meet. Flags are those of ``tracecast serve``: gpus, tp, engine, precision, input and output
        (tokens), and the load: batch, concurrency, rate ("4/s"), trace (file), or find="rate" with ttft and tpot ("500ms")."""
        return Serving(*self._ask("serve", {"gpu": gpu, **flags}, network))

    def plan(self, jobs: File, **flags: Flag) -> Plan:
        """What to buy or rent for the jobs of a file. Flags are those of ``tracecast plan``: catalogue, fleet, budget (USD), power_kw,
        deadline ("30d"), measured, store, goal, worlds, seed, threads."""
        return Plan(*self._ask("plan", flags, os.fspath(jobs)))

    def trace_summary(self, file: File, **flags: Flag) -> TraceSummary:
        """Where the time of a recorded profile goes: ``tracecast trace summary``, which needs no hardware."""
        return TraceSummary(*_ask(["trace", "summary"], flags, os.fspath(file)))

    def trace_replay(self, file: File, **flags: Flag) -> TraceReplay:
        """A recorded profile on another GPU, or as recorded: ``tracecast trace replay``. Flags: gpu, as_recorded, ..."""
        return TraceReplay(*self._ask("trace replay", flags, os.fspath(file)))

    def _ask(self, subcommand: str, flags: Mapping[str, Flag], *positional: Flag) -> tuple[Any, int]:
        return _ask([*subcommand.split(), *self.hardware._words()], flags, *positional)


def _ask(subcommand: Sequence[str], flags: Mapping[str, Flag], *positional: Flag) -> tuple[Any, int]:
    code, report, _ = run(*subcommand, *_words({**flags, "format": "json"}, *positional))
    return json.loads(report), code


def _grid_text(grid: Mapping[str, Any]) -> str:
    """A grid of Python values as the text that the command reads."""
    lines = []
    for subcommand, blocks in grid.items():
        for block in blocks if isinstance(blocks, (list, tuple)) else [blocks]:
            lines.append(f"{subcommand} {{")
            for name, values in block.items():
                values = values if isinstance(values, (list, tuple, np.ndarray, range)) else [values]
                words = [json.dumps(value.item() if isinstance(value, np.generic) else value) for value in values]
                lines.append(f"  {name}: [{', '.join(words)}]")
            lines.append("}")
    return "\n".join(lines)


def query(file: File, sql: str, limit: int = 1_000_000, time_limit: float = 8) -> Table:
    """Asks an SQLite file one statement that reads. Columns of numbers are arrays of them; None among numbers is NaN.
    More than ``limit`` rows or ``time_limit`` seconds raise InputError."""
    names, columns = _core.query(os.fspath(file), sql, limit, time_limit)

    def array(values: list[Any]) -> Any:
        if any(isinstance(value, (str, bytes)) for value in values):
            return np.array(values, dtype=object)
        if any(value is None or isinstance(value, float) for value in values):
            return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
        return np.array(values, dtype=np.int64)

    return Table({name: array(column) for name, column in zip(names, columns)})


def networks() -> list[str]:
    """Names of the networks that are known."""
    return [network["network"] for network in json.loads(run("networks", "--format", "json")[1])["networks"]]


_usual: Optional[Predictor] = None


def _predictor() -> Predictor:
    """The one with the hardware in the module."""
    global _usual
    if _usual is None:
        _usual = Predictor()
    return _usual


def predict(network: str, gpu: str, **flags: Flag) -> Forecast:
    """Predictor.predict with the hardware in the module."""
    return _predictor().predict(network, gpu, **flags)


def work(network: str, gpu: str, **flags: Flag) -> Mapping[str, Any]:
    """Predictor.work with the hardware in the module."""
    return _predictor().work(network, gpu, **flags)


def throughput(jobs: Sequence[Job], places: Sequence[Place]) -> Matrix:
    """Predictor.throughput with the hardware in the module."""
    return _predictor().throughput(jobs, places)


def search(network: str, gpu: str, exhaustive: bool = False, **flags: Flag) -> list[ParallelLayout]:
    """Predictor.search with the hardware in the module."""
    return _predictor().search(network, gpu, exhaustive, **flags)


def sweep(grid: Union[File, Mapping[str, Any]], output: File, threads: int = 0,
          on_progress: Optional[Callable[[int, int, int, float], None]] = None) -> SweepSummary:
    """Predictor.sweep with the hardware in the module."""
    return _predictor().sweep(grid, output, threads, on_progress)


def serve(network: str, gpu: Optional[str] = None, **flags: Flag) -> Serving:
    """Predictor.serve with the hardware in the module."""
    return _predictor().serve(network, gpu, **flags)


def plan(jobs: File, **flags: Flag) -> Plan:
    """Predictor.plan with the hardware in the module."""
    return _predictor().plan(jobs, **flags)


def trace_summary(file: File, **flags: Flag) -> TraceSummary:
    """Predictor.trace_summary."""
    return _predictor().trace_summary(file, **flags)


def trace_replay(file: File, **flags: Flag) -> TraceReplay:
    """Predictor.trace_replay with the hardware in the module."""
    return _predictor().trace_replay(file, **flags)
