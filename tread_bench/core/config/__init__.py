"""What a cell and a suite are made of: frozen, validated models, a module per part; `suite.py` has the whole."""
