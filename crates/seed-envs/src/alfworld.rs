//! ALFWorld: household games in text, equal to the official environment byte for byte.
