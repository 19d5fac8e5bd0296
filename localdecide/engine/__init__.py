"""Token ids in, logits and hidden rows out. The only folder that imports llama_cpp."""
