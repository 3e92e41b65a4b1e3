//! Random generators that give the same numbers as CPython's and NumPy's.
