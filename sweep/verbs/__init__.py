"""One module per verb of the command line, each with `main(argv) -> exit status`."""
