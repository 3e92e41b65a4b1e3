//! Sokoban: boxes onto targets, as text or as pictures.
