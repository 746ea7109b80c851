"""Workloads: traces read into arrays, synthetic requests, what a trace contains, and fits of one to the other."""
