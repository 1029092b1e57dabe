"""Acceptance on a GPU: kernels, the regression suite, speed of training steps; `tox -e gpu`, docs/performance.md."""
