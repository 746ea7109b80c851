"""Models, accelerators and prices, read from the configuration tree."""
