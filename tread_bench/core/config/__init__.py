"""Configuration of cells and suites: frozen, validated models, one module per part; `suite.py` combines them."""
