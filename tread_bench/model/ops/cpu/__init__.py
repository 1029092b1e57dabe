"""Loops over arrays that Numba compiles, for the operators `ops.scan_numba` and `ops.wkv_numba`. Imports numba.

Work is cut into items, one sample and one block of channels each, whose results no other item touches: any number of
threads gives the same bits. A block's channels lie in rows of whole vectors, so that loops over them leave no rest to
do one by one; what pads the last row begins as zero and changes no result.
"""
