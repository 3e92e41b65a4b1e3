//! Random generators that give the same numbers as CPython's and NumPy's.
//!
//! Two of them stand on the Mersenne Twister MT19937 and differ in how they seed it and how they turn its words into
//! numbers. Recorded runs of Python environments can be repeated with them.
//!
//! | item | Python |
//! |---|---|
//! | [`PythonRandom`] | `random.Random` (3.2 and later) |
//! | [`NumpyRandomState`] | `numpy.random.RandomState`, also behind `numpy.random.seed` |
//! | [`NumpyGenerator`] | `numpy.random.default_rng`, also behind `gymnasium`'s `np_random` |
//! | [`Mt19937`] | the generator of the first two |
//! | [`string_hash`] | `hash(text)` under a `PYTHONHASHSEED` (3.11 and later) |

mod cpython;
mod generator;
mod mt19937;
mod numpy;
mod siphash;

pub use cpython::PythonRandom;
pub use generator::NumpyGenerator;
pub use mt19937::Mt19937;
pub use numpy::NumpyRandomState;
pub use siphash::string_hash;
