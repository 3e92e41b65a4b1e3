//! EZPoints: reach twelve with two playing cards, and its small siblings.
