"""One deployment: its command line, its rules, its price and its report."""
