"""Hugging Face checkpoints of decision models, converted to the GGUF files that localdecide runs.

    python -m gguf_convert CHECKPOINT [--base FOLDER] [--out FOLDER] [--type F16]

A checkpoint becomes a backbone, a head file where the model has a head, and a Modelfile over both.
One file per backbone architecture, named as `model_type` in config.json; one per kind of head.
"""
