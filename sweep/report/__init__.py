"""Reports for the browser: one file each, nothing from the network. `frontier` tells of a sweep, `plan` of a plan."""
