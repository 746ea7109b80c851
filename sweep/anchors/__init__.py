"""Anchors: measured end-to-end points that scale the model's estimates in their own regime."""
