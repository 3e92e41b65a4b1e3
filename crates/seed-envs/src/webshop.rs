//! WebShop: the same pages, the same search ranking and the same reward as the official text environment.
//!
//! | module | what it holds |
//! |---|---|
//! | [`load`] | the public files, and the rules by which products are taken from them |
//! | [`catalogue`] | products and their search index in columns, in memory or mapped from a file |
//! | [`search`] | Lucene's English analysis and BM25 |
//! | [`goals`] | what customers want |
//! | [`shop`] | products with prices of the day, goals, and the ceiling of the success rate |
//! | [`session`] | one customer's way: pages, what can be clicked, what a click does |
//! | [`page`] | pages as text |
//! | [`mod@reward`], [`fuzzy`] | what a purchase is worth |
//! | [`suite`] | the shop as a [`crate::Suite`] of tasks |
//! | [`expert`] | a customer who knows the product |
//! | [`embedded`] | a shop of our own, from a seed, without data |
//! | [`text_env`] | the reference's environment with its sessions and draws, to repeat recorded runs |
//! | [`store`] | columns of bytes with checksums |

pub mod catalogue;
pub mod embedded;
pub mod expert;
pub mod fuzzy;
pub mod goals;
mod json;
pub mod load;
pub mod page;
mod python_text;
pub mod reward;
pub mod search;
pub mod session;
pub mod shop;
pub mod store;
pub mod suite;
pub mod text_env;

pub use catalogue::{Catalogue, CatalogueBuilder, NewProduct, Product};
pub use goals::{Goal, GoalKind, GoalOptions};
pub use load::{BadRecords, HumanInstruction, IndexFile, LoadOptions, LoadReport, ShopFiles};
pub use page::TextMode;
pub use reward::Reward;
pub use session::Session;
pub use shop::{Ceiling, Shop, ShopOptions};
pub use suite::{PurchaseReward, TaskOrder, VerlOrder, WebShop, WebShopOptions};
pub use text_env::{Dialect, TextEnvironment};
