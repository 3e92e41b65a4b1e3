//! WebShop: shopping in a catalogue of products, equal to the official text environment.
