"""The discrete-event simulator's program side: inputs, the compiled loop, outputs."""
