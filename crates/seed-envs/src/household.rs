//! The embedded household world: a seeded generator of games with our own domain, grammar and rooms.
