"""The unattended capacity-planning job: yesterday's traffic in, a dated plan out, told only where it changed."""
