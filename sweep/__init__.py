"""servesweep: design-space exploration of LLM serving on arrays."""

__version__ = "0.1.0"
