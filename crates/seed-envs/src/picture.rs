//! Pictures: drawing, text, PNG files, filmstrips, and a store that keeps each distinct frame once.
//!
//! | module | what it holds |
//! |---|---|
//! | [`canvas`] | drawing on an [`crate::Image`] |
//! | [`font`] | our own letters |
//! | [`file`](mod@file) | PNG files in and out |
//! | [`filmstrip`](mod@filmstrip) | an episode as one picture |
//! | [`store`] | frames by number, equal ones once |

pub mod canvas;
pub mod file;
pub mod filmstrip;
pub mod font;
pub mod store;

pub use canvas::{Canvas, Colour};
pub use filmstrip::{Filmstrip, Panel};
pub use store::FrameStore;
