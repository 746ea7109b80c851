"""Search of spaces that are too large to enumerate, over the same axes as a sweep."""
