"""The digits that come with scikit-learn."""
