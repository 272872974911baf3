//! Events as columns with interned strings, on one integer clock.
