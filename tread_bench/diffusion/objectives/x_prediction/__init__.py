"""Prediction of the data, with the error of the velocity."""
