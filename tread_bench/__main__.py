"""`python -m tread_bench` is the command line."""

from tread_bench.cli.rim import main

if __name__ == "__main__":
    main()
