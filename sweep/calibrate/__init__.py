"""Calibration: coefficients of the model from measured tables and measured deployments."""
