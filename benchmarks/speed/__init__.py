"""bertsmith against its peers in one run: `make bench`, or `python -m benchmarks.speed --help`."""
