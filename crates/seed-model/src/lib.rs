//! Qwen2, Qwen3 and Llama-shaped language models in burn: Hugging Face folders in and out, scoring, generation, training.
