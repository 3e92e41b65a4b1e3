//! Configuration: one schema, layers with the origin of every value, presets, checks before the start.
//!
//! Layers, later ones win: built-in defaults, `preset` (for the chosen environment), `method`, files in the order
//! given, environment variables (`SEED__OPD__BETA=5`), `--set opd.beta=5`.

mod error;
mod key;
mod layers;
mod presets;
mod resolved;
mod schema;
mod validate;

pub use error::{ConfigError, Place, Problem};
pub use key::Key;
pub use layers::{Layers, Origin};
pub use resolved::Resolved;
pub use schema::*;
