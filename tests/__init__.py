"""The tests; torch-fidelity installs a package of this name, before which this one comes."""
