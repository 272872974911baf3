//! What a model must cost on a device. Pure code.
