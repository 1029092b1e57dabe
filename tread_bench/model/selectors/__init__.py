"""The selectors that come with this package; their rankings are in `model/ops/selecting.py`."""
