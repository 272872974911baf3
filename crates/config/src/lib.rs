//! Hydra 1.3 and OmegaConf 2.3 configuration semantics; knows nothing of GPUs.
