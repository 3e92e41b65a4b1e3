//! Episodes as token rows: sampling engine, grouped multi-turn collection, recorded roll-outs.
