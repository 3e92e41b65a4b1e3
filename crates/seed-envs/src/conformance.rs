//! What every environment must keep, as a test suite that anybody can run on theirs.
