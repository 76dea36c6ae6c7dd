//! Vendor runtimes.
