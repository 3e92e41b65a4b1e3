//! Many environments stepped in parallel, each episode as long as it is.
