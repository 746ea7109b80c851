"""The planner: how many of which GPU carry a demand within an SLO, and what breaks first."""
