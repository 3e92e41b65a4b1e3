//! Random generators that give the same numbers as CPython's and NumPy's.
//!
//! Both stand on the Mersenne Twister MT19937 and differ in how they seed it and how they turn its words into
//! numbers. Recorded runs of Python environments can be repeated with them.
//!
//! | type | Python |
//! |---|---|
//! | [`PythonRandom`] | `random.Random` (3.2 and later) |
//! | [`NumpyRandomState`] | `numpy.random.RandomState`, also behind `numpy.random.seed` |
//! | [`Mt19937`] | the generator itself |

mod cpython;
mod mt19937;
mod numpy;

pub use cpython::PythonRandom;
pub use mt19937::Mt19937;
pub use numpy::NumpyRandomState;
