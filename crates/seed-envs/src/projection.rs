//! From a response to an action: what counts as one, and what makes it invalid.
