"""Predict how fast deep-learning networks train and answer on GPUs, without the GPUs.

The same answers as the command ``tracecast``, to the last digit: keywords are its flags, with ``_`` for ``-``.

    import tracecast
    forecast = tracecast.predict("resnet50", gpu="v100", batch=64)
    forecast.throughput_samples_per_s.value, forecast.memory_needed_bytes, forecast.fits

Names end in units; shares and utilisations are 0 to 1. Whatever computes leaves the interpreter to other threads. What is wrong in a
question raises InputError (a ValueError) with the line that the command would print.
"""

from tracecast._core import InputError, version as __version__
from tracecast.hardware import Gpu, Hardware, Peak
from tracecast.results import (ParallelLayout, Figure, Forecast, Interval, Latency, Matrix, Plan, Roof, Roofline, Serving,
                               SweepSummary, Table, TraceReplay, TraceSummary)
from tracecast.module import Graph, estimate, graph
from tracecast.predictor import (Job, Place, Predictor, networks, plan, predict, query, run, search, serve, sweep, throughput,
                                 trace_replay, trace_summary, work)

__all__ = [
    "ParallelLayout", "Figure", "Forecast", "Gpu", "Graph", "Hardware", "InputError", "Interval", "Job", "Latency", "Matrix", "Peak", "Place", "Plan",
    "Predictor", "Roof", "Roofline", "Serving", "SweepSummary", "Table", "TraceReplay", "TraceSummary", "__version__", "estimate", "graph",
    "networks", "plan", "predict", "query", "run", "search", "serve", "sweep", "throughput", "trace_replay", "trace_summary",
    "work",
]
