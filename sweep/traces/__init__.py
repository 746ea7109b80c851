"""Workloads: traces read into arrays, synthetic requests, what a trace contains, and fits of one to the other."""

from sweep.traces.builtin import builtin_log
from sweep.traces.reader import Trace, read
from sweep.traces.requests import Ragged, Requests
from sweep.traces.synthetic import Traffic, for_duration, synthesize

__all__ = ["Ragged", "Requests", "Trace", "Traffic", "builtin_log", "for_duration", "read", "synthesize"]
